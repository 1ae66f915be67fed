"""Clusters of the documents' releases, and the real kubectl."""

from tests.integration.conftest import start_cluster

__all__ = ["start_cluster"]
