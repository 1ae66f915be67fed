"""The HTTP front: a plain ASGI application, routed by the resource definitions.

In the order of a request: `app` finds out what is asked (`request`, `bodies`, `options`) and whether other servers have
to be heard first (`consistency`), `resources` does it through the verbs, and `answers` give the outcome its form;
`proxying` passes logs, exec and other servers' resources on, and `about` tells clients about the server itself.
"""
