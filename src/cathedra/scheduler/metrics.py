"""Metrics of the scheduler, under kube-scheduler's names.

They have a registry of their own, so that several schedulers in one process do not mix (docs/spec/scheduling.md §17).
Figures that the scheduler keeps anyway (its queues, its cache) are read when they are scraped.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from cathedra import histogram
from cathedra.client.queuemetrics import InformerMetrics
from cathedra.clock import Clock, SystemClock

__all__ = ["SchedulerMetrics"]

_BUCKETS: Final = tuple(0.001 * 2**step for step in range(15))
_PLUGIN_BUCKETS: Final = tuple(0.00001 * 1.5**step for step in range(20))
_WAIT_BUCKETS: Final = tuple(0.1 * 2.0**step for step in range(14))
_SAMPLED: Final = 10
"""One in this number of cycles is measured, as in kube-scheduler; measuring more costs more than it is worth."""
_QUEUES: Final = {"active": "active", "backoff": "backoff", "unschedulable": "unschedulable", "gated": "gated"}
"""Kubernetes' name of a queue → ours in `Scheduler.statistics`."""
_CACHED: Final = {"nodes": "nodes", "pods": "counted", "assumed_pods": "assumed"}


class SchedulerMetrics:
    """Counters, gauges and histograms of one scheduler."""

    def __init__(self, clock: Clock | None = None) -> None:
        # The clock's function itself: it is read four times for a pod.
        self.monotonic = (clock or SystemClock()).monotonic
        """The clock's seconds."""
        self._sampled: Tally[str] = Tally()
        self.registry = CollectorRegistry()
        self.informers = InformerMetrics(self.registry)
        self._attempts = _Durations(
            "scheduler_scheduling_attempt_duration_seconds",
            "Seconds that an attempt took.",
            ["result", "profile"],
            _BUCKETS,
        )
        self._evaluations = _Evaluations()
        self._plugins = _Durations(
            "scheduler_plugin_execution_duration_seconds",
            "Seconds that a plugin took at an extension point; filters: in some cycles, many nodes at once.",
            ["plugin", "extension_point", "status"],
            _PLUGIN_BUCKETS,
        )
        for collector in (_Attempts(self._attempts), self._attempts, self._evaluations, self._plugins):
            self.registry.register(collector)
        self._allocations = Counter(
            "scheduler_dra_bindingconditions_allocations",
            "Waits for binding conditions of devices, by how they ended.",
            ["profile", "driver", "status"],
            registry=self.registry,
        )
        self._waits = Histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "Seconds that pods waited for binding conditions of devices.",
            ["profile", "driver", "status"],
            buckets=_WAIT_BUCKETS,
            registry=self.registry,
        )

    def sampled(self, work: str) -> bool:
        """Return True if the plugins of the work that begins now are to be measured: every tenth time."""
        self._sampled[work] += 1
        return self._sampled[work] % _SAMPLED == 1

    def evaluated(self, plugins: tuple[str, ...], point: str, profile: str, times: int = 1) -> None:
        """Each of these plugins has judged a pod, or a number of nodes for it."""
        self._evaluations.counted[plugins, point, profile] += times

    def ran(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """A plugin has run."""
        self._plugins.observe((plugin, point, status), seconds)

    def waited_for_devices(self, profile: str, driver: str, status: str, seconds: float) -> None:
        """A wait for binding conditions has ended: ``success``, ``failed``, ``timeout`` or ``error``."""
        self._allocations.labels(profile, driver, status).inc()
        self._waits.labels(profile, driver, status).observe(seconds)

    def attempted(self, result: str, profile: str, seconds: float) -> None:
        """An attempt has ended: ``scheduled``, ``unschedulable`` or ``error``."""
        self._attempts.observe((result, profile), seconds)

    def show(self, statistics: Callable[[], Mapping[str, int]]) -> None:
        """Also show what a scheduler holds, from its `Scheduler.statistics`."""
        self.registry.register(_Held(statistics))


class _Durations(Collector):
    """A histogram that is observed for every pod: it costs a third of `prometheus_client.Histogram`, which locks for
    threads."""

    def __init__(self, name: str, about: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        self._name = name
        self._about = about
        self._labels = labels
        self._bounds = bounds
        self.histograms: dict[tuple[str, ...], histogram.Histogram] = {}

    def observe(self, labels: tuple[str, ...], seconds: float) -> None:
        """Add a value."""
        if labels not in self.histograms:
            self.histograms[labels] = histogram.Histogram(self._bounds)
        self.histograms[labels].add(seconds)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Return the cumulative counts of the buckets, by labels."""
        family = HistogramMetricFamily(self._name, self._about, labels=self._labels)
        for labels, found in self.histograms.items():
            family.add_metric(labels, list(found.cumulative()), found.total)
        yield family


class _Attempts(Collector):
    """Counter of attempts, derived from the histogram of their durations."""

    def __init__(self, durations: _Durations) -> None:
        self._durations = durations

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Attempts by result and profile."""
        family = CounterMetricFamily(
            "scheduler_schedule_attempts",
            "Attempts to find a node for a pod, by what came of them.",
            labels=["result", "profile"],
        )
        for labels, found in self._durations.histograms.items():
            family.add_metric(labels, found.number)
        yield family


class _Evaluations(Collector):
    """Counted for every pod: in a dictionary, which costs a tenth of a counter with labels, and for all plugins at an
    extension point at once, which are the same ones for nearly all pods."""

    def __init__(self) -> None:
        self.counted: Tally[tuple[tuple[str, ...], str, str]] = Tally()

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Evaluations by plugin, extension point and profile."""
        family = CounterMetricFamily(
            "scheduler_plugin_evaluation",
            "How often a plugin judged a pod or a node for it.",
            labels=["plugin", "extension_point", "profile"],
        )
        evaluations: Tally[tuple[str, str, str]] = Tally()
        for (plugins, point, profile), times in self.counted.items():
            for plugin in plugins:
                evaluations[plugin, point, profile] += times
        for labels, times in evaluations.items():
            family.add_metric(labels, times)
        yield family


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
