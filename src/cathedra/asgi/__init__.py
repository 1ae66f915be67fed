"""ASGI applications on sockets: uvicorn with TLS, started and stopped by the owner of the application.

`listener` binds and serves; `protocols` are uvicorn's, with the client's certificate handed to the application and
limits for heads of requests. The API server and the node agent are both served this way.
"""
