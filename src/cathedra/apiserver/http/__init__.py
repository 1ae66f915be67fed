"""The HTTP front: a plain ASGI application, routed by the resource definitions.

In the order of a request: `app` finds out what is asked (`request`), `resources` does it through the verbs,
`negotiation`, `render` and `tables` give the answer its form; `streaming` is for watches, `proxy` for logs and exec;
`discovery`, `openapi` and `health` tell clients about the server itself; `compression` makes large answers small;
`listener` opens the socket.
"""
