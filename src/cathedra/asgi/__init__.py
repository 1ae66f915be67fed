"""ASGI applications on sockets: uvicorn with TLS, started and stopped by the owner of the application.

`listener` binds and serves; `protocols` and `websockets` are uvicorn's, with the client's certificate
(`peercertificate`) handed to the application and limits for heads of requests; with `upgrade` a connection leaves
HTTP. The API server and the node agent are both served this way.
"""
