"""The binary transport between trusted processes of one cluster, over a unix socket.

`frames` cuts the byte stream into batches, `messages` says what is in them, `window` keeps the objects that passed
lately so that none is sent or decoded twice, `outgoing` says when what is written goes out, `connection` multiplexes
requests and watches of many users over one socket, and `transport` gives it the interface of
`cathedra.client.transport`. The other end is `cathedra.apiserver.local`.
"""
