"""HTTP/1.1, WebSockets and TLS for ASGI applications; the API server and the node agent are served this way.

In the order of a connection: `listener` binds a port, `serving` accepts connections, `http1` parses requests with
httptools and calls the application, `cycle` sends the response through `batching`. `websockets` and `upgrade` take over
connections that leave HTTP. `direct` is what an application sees of a connection beyond ASGI.
"""
