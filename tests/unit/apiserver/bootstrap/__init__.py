"""What a cluster holds before the first request."""
