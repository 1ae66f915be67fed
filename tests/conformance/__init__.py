"""Conformance: recorded requests to Kubernetes, repeated on Cathedra."""
