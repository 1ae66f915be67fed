"""The API server's end of the binary protocol (`cathedra.client.local`).

`listener` opens the socket for trusted processes of the cluster and lets in those of the same user; `upgrades` makes
sessions of connections to the port. `session` takes messages off one connection and puts answers and events on it, and
`requests` takes them through the `pipeline` as the HTTP requests for which they stand. `audited` writes what parts in
the server's own process do to the audit log.
"""
