"""The HTTP front: a plain ASGI application, routed by the resource definitions.

`app` reads a request (`request`, `bodies`) and takes it through the `pipeline`; `resources` turn requests on
resources into calls, and `answers` encode the outcome. `proxying` passes logs, exec and other servers' resources on,
`measurements` has what nodes and pods use, and `about` has documents about the server itself.
"""
