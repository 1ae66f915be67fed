"""The node's own server."""
