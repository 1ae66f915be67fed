"""A fake kube-apiserver: real HTTP, objects in memory, and JSON exactly as Go writes it.

`writing` prints objects as Go's encoder does, `objects` keeps them, and `server` serves them on loopback. Ours writes
`[]` or nothing where Go writes `null`, knows no fields of a newer release and sends each watch frame whole, so tests
against our own API server cannot show how a part behaves beside Kubernetes.
"""

from tests.goapiserver.server import NEWER_FIELDS, GoAPIServer, go_api_server

__all__ = ["NEWER_FIELDS", "GoAPIServer", "go_api_server"]
