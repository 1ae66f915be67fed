"""What the scheduler counts, under kube-scheduler's names.

On a registry of its own, so that several schedulers in one process do not mix (docs/spec/scheduling.md §17). Figures
that the scheduler holds anyway (its queues, its cache) are read when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

__all__ = ["SchedulerMetrics"]

_BUCKETS: Final = tuple(0.001 * 2**step for step in range(15))
_QUEUES: Final = {"active": "active", "backoff": "backoff", "unschedulable": "unschedulable", "gated": "gated"}
"""Kubernetes' name of a queue → ours in `Scheduler.statistics`."""
_CACHED: Final = {"nodes": "nodes", "pods": "counted", "assumed_pods": "assumed"}


class SchedulerMetrics:
    """Counters, gauges and histograms of one scheduler."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._attempts = Counter(
            "scheduler_schedule_attempts",
            "Attempts to find a node for a pod, by what came of them.",
            ["result", "profile"],
            registry=self.registry,
        )
        self._durations = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Seconds that an attempt took.",
            ["result", "profile"],
            buckets=_BUCKETS,
            registry=self.registry,
        )

    def attempted(self, result: str, profile: str, seconds: float) -> None:
        """An attempt has ended: ``scheduled``, ``unschedulable`` or ``error``."""
        self._attempts.labels(result, profile).inc()
        self._durations.labels(result, profile).observe(seconds)

    def show(self, statistics: Callable[[], Mapping[str, int]]) -> None:
        """Also show what a scheduler holds, from its `Scheduler.statistics`."""
        self.registry.register(_Held(statistics))


class _Held(Collector):
    def __init__(self, statistics: Callable[[], Mapping[str, int]]) -> None:
        self._statistics = statistics

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Pods that wait, by queue; pods and nodes in the cache; bindings under way."""
        held = self._statistics()
        yield _gauge("scheduler_pending_pods", "Pods that wait, by queue.", "queue", _QUEUES, held)
        yield _gauge("scheduler_cache_size", "What the scheduler's cache holds.", "type", _CACHED, held)
        yield GaugeMetricFamily(
            "scheduler_inflight_bindings", "Bindings that are being written.", value=held.get("binding", 0)
        )


def _gauge(name: str, about: str, label: str, names: Mapping[str, str], held: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, about, labels=[label])
    for shown, ours in names.items():
        family.add_metric([shown], held.get(ours, 0))
    return family
