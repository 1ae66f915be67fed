"""The binary protocol between parts and an API server of Cathedra, over TLS or a unix socket.

`protocol` defines the messages, and the window of objects that both ends number alike so that none is sent twice. On
the client's side `connection` multiplexes the requests and watches of many users over one connection, `transport` dials
it and gives it the interface of `cathedra.client.transport`, and `opening` chooses between a session and HTTP.
"""
