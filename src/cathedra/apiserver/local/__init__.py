"""The API server's end of the binary protocol (`cathedra.client.local`).

`listener` opens the socket for trusted processes of the cluster and lets in those of the same user; `upgrades` makes
sessions of connections to the port. `session` takes messages off one connection and puts answers and events on it,
`limits` is what a session over the network pays and what it leaves to HTTP, `requests` turns a message into a verb, and
`records` tells metrics and audit of it.
"""
