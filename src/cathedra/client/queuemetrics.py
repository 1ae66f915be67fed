"""Metrics of parts of the cluster: work queues under the names of client-go, and counts by labels.

Queues are ``workqueue_*`` with the queue's name as label.

Counters of objects and answers that informers could not use, for ``/metrics`` of their part.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from cathedra.clock import Clock
from cathedra.releases.metrics import metric

_BUCKETS: Final = tuple(10.0**exponent for exponent in range(-8, 2))


class QueueMetrics:
    """The metrics of all queues of a process, on one registry."""

    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self._clock = clock
        label = ["name"]
        self.depth = Gauge("workqueue_depth", metric("workqueue_depth").help, label, registry=registry)
        self.adds = Counter("workqueue_adds", metric("workqueue_adds_total").help, label, registry=registry)
        self.retries = Counter("workqueue_retries", metric("workqueue_retries_total").help, label, registry=registry)
        self.waits = Histogram(
            "workqueue_queue_duration_seconds",
            metric("workqueue_queue_duration_seconds").help,
            label,
            buckets=_BUCKETS,
            registry=registry,
        )
        self.work = Histogram(
            "workqueue_work_duration_seconds",
            metric("workqueue_work_duration_seconds").help,
            label,
            buckets=_BUCKETS,
            registry=registry,
        )
        self.unfinished = Gauge(
            "workqueue_unfinished_work_seconds",
            metric("workqueue_unfinished_work_seconds").help,
            label,
            registry=registry,
        )
        self.longest = Gauge(
            "workqueue_longest_running_processor_seconds",
            metric("workqueue_longest_running_processor_seconds").help,
            label,
            registry=registry,
        )

    def of(self, name: str) -> QueueObserver:
        """Return the observer that counts for the queue ``name``."""
        return QueueObserver(self, name, self._clock)


class QueueObserver:
    """Callbacks for the keys of one queue."""

    def __init__(self, metrics: QueueMetrics, name: str, clock: Clock) -> None:
        self._clock = clock
        self._depth = metrics.depth.labels(name)
        self._adds = metrics.adds.labels(name)
        self._retries = metrics.retries.labels(name)
        self._waits = metrics.waits.labels(name)
        self._work = metrics.work.labels(name)
        self._ready: dict[Hashable, float] = {}
        self._working: dict[Hashable, float] = {}
        metrics.unfinished.labels(name).set_function(lambda: sum(self._running()))
        metrics.longest.labels(name).set_function(lambda: max(self._running(), default=0.0))

    def added(self, key: Hashable) -> None:
        """Count a key that is to be worked on."""
        self._adds.inc()
        self._depth.inc()
        self._ready.setdefault(key, self._clock.monotonic())

    def taken(self, key: Hashable) -> None:
        """Note that a worker has begun with a key, and how long the key has waited."""
        now = self._clock.monotonic()
        self._depth.dec()
        self._waits.observe(now - self._ready.pop(key, now))
        self._working[key] = now

    def done(self, key: Hashable) -> None:
        """Note that the worker has ended, and how long it took."""
        now = self._clock.monotonic()
        self._work.observe(now - self._working.pop(key, now))

    def retried(self) -> None:
        """Count a retry of a key after a failure."""
        self._retries.inc()

    def _running(self) -> list[float]:
        now = self._clock.monotonic()
        return [now - since for since in self._working.values()]


def export_counts(
    registry: CollectorRegistry,
    name: str,
    about: str,
    labels: Sequence[str],
    counts: Mapping[tuple[str, ...], int],
) -> None:
    """Export ``counts``, keyed by the values of ``labels``, as counter ``name``; read at each scrape."""

    class Counts(Collector):
        def collect(self) -> Iterator[CounterMetricFamily]:
            family = CounterMetricFamily(name, about, labels=labels)
            for values, number in sorted(counts.items()):
                family.add_metric(values, number)
            yield family

    registry.register(Counts())


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
