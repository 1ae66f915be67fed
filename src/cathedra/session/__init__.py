"""The binary protocol between parts and an API server of Cathedra, over TLS or a unix socket.

`protocol` defines the messages, and the window of objects that both ends number alike so that none is sent twice.

On the client's side `opening` chooses between a session and HTTP, `transport` turns calls into messages and dials, and
`connection` multiplexes the requests and watches of many users over one connection.

On the server's side `server` opens sessions on the port and on a unix socket, `serversession` takes messages off one
connection and begins them, `requests` carries them out by the API server's pipeline, `answers` sends the results, and
`watches` the events.
"""
