"""The binary protocol between parts and an API server of Cathedra, over a unix socket or inside of TLS.

`frames` cuts the byte stream into batches, `messages` says what is in them, `window` keeps the objects that passed
lately so that none is sent or decoded twice, `outgoing` says when what is written goes out, `connection` multiplexes
requests and watches over one connection, `unix` and `upgraded` make it, and `transport` gives it the interface of
`cathedra.client.transport`. The other end is `cathedra.apiserver.local`.
"""
