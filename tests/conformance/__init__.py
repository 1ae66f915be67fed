"""Conformance: the answers of Kubernetes itself, asked again of Cathedra."""
