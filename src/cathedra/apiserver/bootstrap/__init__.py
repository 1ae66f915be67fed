"""What a cluster holds before the first request: the system's `namespaces` and the default `roles`."""
