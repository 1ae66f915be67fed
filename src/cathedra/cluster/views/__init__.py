"""Views of a cluster for commands: `overview` (nodes, devices, claims, pods) and `waiting` (why pods are pending)."""
