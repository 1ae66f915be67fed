"""The objects of a cluster before the first request."""
