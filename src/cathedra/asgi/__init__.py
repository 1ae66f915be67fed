"""ASGI applications on sockets, with TLS, started and stopped by the owner of the application.

`listener` binds and serves; `protocols` speaks HTTP/1.1 on each connection (`gathering` and `flow` in between), and
`exchange` is one request with its answer. What connections share is in `serving`. The client's certificate
(`peercertificate`) is handed to the application; with `upgrade` a connection leaves HTTP, with `websockets` it goes on
in uvicorn's protocol. The API server and the node agent are both served this way.
"""
