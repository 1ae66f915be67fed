"""Read-only tools over a cluster or a dump."""
