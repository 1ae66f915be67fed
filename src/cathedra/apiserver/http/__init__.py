"""The HTTP door: a plain ASGI application, routed by the resource definitions.

In the order of a request: `app` finds out what is asked (`path`, `request`), `resources` does it through the verbs,
`negotiation`, `render` and `tables` give the answer its form; `streaming` is for watches, `proxy` for logs and exec;
`discovery`, `openapi` and `information` tell clients about the server itself; `serving` opens the socket.
"""
