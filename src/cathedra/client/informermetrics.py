"""Counters of objects and answers that informers could not use, for ``/metrics`` of their part."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

__all__ = ["InformerMetrics"]


class InformerMetrics:
    """An `cathedra.client.informer.InformerObserver` that counts on a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._undecodable = Counter(
            "cathedra_undecodable_objects",
            "Objects, or new versions of them, that a server showed and that could not be decoded.",
            ["resource", "kind"],
            registry=registry,
        )
        self._failures = Counter(
            "cathedra_informer_failures",
            "Handlers that raised, malformed answers, and defects of informers.",
            ["resource", "reason"],
            registry=registry,
        )

    def undecodable(self, resource: str, kind: str) -> None:
        """Count an object that cannot be decoded."""
        self._undecodable.labels(resource, kind).inc()

    def informer_failed(self, resource: str, reason: str) -> None:
        """Count a failure: ``handler``, ``malformed`` or ``defect``."""
        self._failures.labels(resource, reason).inc()
