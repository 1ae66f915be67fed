"""Metrics of the scheduler, under kube-scheduler's names.

They have a registry of their own, so that several schedulers in one process do not mix (docs/spec/scheduling.md §17).
Figures that the scheduler keeps anyway (its queues, its cache) are read when they are scraped.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle, repeat
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.registry import Collector

from cathedra import histogram
from cathedra.client.queuemetrics import InformerMetrics
from cathedra.clock import Clock, SystemClock
from cathedra.exposition import Family, Metric
from cathedra.releases import FeatureGates, behaviours
from cathedra.releases.metrics import metric
from cathedra.scheduler.framework.plugin import Evaluations
from cathedra.scheduler.queue.queue import SchedulingQueue
from cathedra.scheduler.queue.queuedpod import QueuedPodInfo

_BUCKETS: Final = tuple(0.001 * 2**step for step in range(15))
_PLUGIN_BUCKETS: Final = tuple(0.00001 * 1.5**step for step in range(20))
_WAIT_BUCKETS: Final = tuple(0.1 * 2.0**step for step in range(14))
_ATTEMPT_BUCKETS: Final = (1, 2, 4, 8, 16)
_WAITS: Final = tuple(0.01 * 2**step for step in range(20))
_VICTIMS: Final = (1, 2, 4, 8, 16, 32, 64)
_MOST_ATTEMPTS: Final = 15
"""Attempts that have a series each; the series of all larger numbers is that number with a plus sign."""
_ATTEMPTS: Final = (*((str(number),) for number in range(_MOST_ATTEMPTS)), (f"{_MOST_ATTEMPTS}+",))
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
        """Returns the monotonic time in seconds."""
        self._samples: dict[str, Iterator[bool]] = defaultdict(lambda: cycle((True, *repeat(False, _SAMPLED - 1))))
        self._created: Tally[str] = Tally()
        self.registry = CollectorRegistry()
        self.informers = InformerMetrics(self.registry)
        self._attempts = _Durations(metric("scheduler_scheduling_attempt_duration_seconds"), _BUCKETS)
        self._pod_attempts = _Durations(metric("scheduler_pod_scheduling_attempts"), _ATTEMPT_BUCKETS)
        self._waited = _Durations(metric("scheduler_pod_scheduling_sli_duration_seconds"), _WAITS)
        self._preemptions = _Preemptions(metric("scheduler_preemption_victims"), _VICTIMS)
        self._evaluations = _Evaluations()
        self._plugins = _Durations(metric("scheduler_plugin_execution_duration_seconds"), _PLUGIN_BUCKETS)
        for collector in (
            _Attempts(self._attempts),
            self._attempts,
            self._pod_attempts,
            self._waited,
            self._preemptions,
            self._evaluations,
            self._plugins,
        ):
            self.registry.register(collector)
        self._allocations = Counter(
            "scheduler_dra_bindingconditions_allocations",
            metric("scheduler_dra_bindingconditions_allocations_total").help,
            ["profile", "driver", "status"],
            registry=self.registry,
        )
        self._waits = Histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            metric("scheduler_dra_bindingconditions_wait_duration_seconds").help,
            ["profile", "driver", "status"],
            buckets=_WAIT_BUCKETS,
            registry=self.registry,
        )

    def samples(self, work: str) -> Iterator[bool]:
        """Yield for each piece of work that begins whether its plugins are to be measured: True every tenth time."""
        return self._samples[work]

    def evaluations(self, plugins: tuple[str, ...], point: str, profile: str) -> Evaluations:
        """Return a new counter of evaluations by each of these plugins."""
        counter = Evaluations()
        self._evaluations.counters.append((plugins, point, profile, counter))
        return counter

    def ran(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Note the status and the duration of a plugin's call."""
        self._plugins.histograms[plugin, point, status].add(seconds)

    def waited_for_devices(self, profile: str, driver: str, status: str, seconds: float) -> None:
        """Count a wait for binding conditions that has ended: ``success``, ``failed``, ``timeout`` or ``error``."""
        self._allocations.labels(profile, driver, status).inc()
        self._waits.labels(profile, driver, status).observe(seconds)

    def claim_created(self, status: str) -> None:
        """Count an attempt to create a claim for extended resources: ``success`` or ``failure``."""
        self._created[status] += 1

    def preemption_attempted(self) -> None:
        """Count a search for pods to evict, which has begun."""
        self._preemptions.attempts += 1

    def victims_chosen(self, number: int) -> None:
        """Observe the number of pods that are to be evicted."""
        self._preemptions.histograms[()].add(number)

    def pod_bound(self, entry: QueuedPodInfo) -> None:
        """Count a pod that has got its node, with its attempts and the time since it first became active."""
        self._pod_attempts.histograms[()].add(entry.attempts)
        attempts = _ATTEMPTS[entry.attempts if entry.attempts < _MOST_ATTEMPTS else _MOST_ATTEMPTS]
        self._waited.histograms[attempts].add(self.monotonic() - entry.active_since)

    def attempted(self, result: str, profile: str, seconds: float) -> None:
        """Count an attempt that has ended: ``scheduled``, ``unschedulable`` or ``error``."""
        self._attempts.histograms[result, profile].add(seconds)

    def show(self, statistics: Callable[[], Mapping[str, int]]) -> None:
        """Also show what a scheduler holds, from its `Scheduler.statistics`."""
        self.registry.register(_Held(statistics))

    def show_created_claims(self, gates: FeatureGates) -> None:
        """Also show the claims that were to be created."""
        self.registry.register(_CreatedClaims(self._created, gates))

    def show_queue(self, queue: SchedulingQueue) -> None:
        """Also show what has entered a queue, and which plugins keep its pods waiting."""
        self.registry.register(_Queue(queue))


class _Durations(Collector):
    """Histograms by labels that are added to for every pod: adding costs a third of what it does with
    `prometheus_client.Histogram`, which locks for threads."""

    def __init__(self, metric: Metric, bounds: Sequence[float]) -> None:
        self._metric = metric
        self.histograms = defaultdict[tuple[str, ...], histogram.Histogram](partial(histogram.Histogram, bounds))

    def collect(self) -> Iterator[Any]:
        """Return the cumulative counts of the buckets, by labels."""
        family = Family(self._metric)
        for labels, found in self.histograms.items():
            family.add_histogram(labels, found)
        yield family


class _Preemptions(_Durations):
    """Attempts at preemption, and a histogram of their victims. Both are shown from the start, as in Kubernetes."""

    def __init__(self, metric: Metric, bounds: Sequence[float]) -> None:
        super().__init__(metric, bounds)
        self.histograms[()] = histogram.Histogram(bounds)
        self.attempts = 0

    def collect(self) -> Iterator[Any]:
        """Yield the number of preemptions, and the histogram of their victims."""
        family = Family(metric("scheduler_preemption_attempts_total"))
        family.add((), self.attempts)
        yield family
        yield from super().collect()


class _Queue(Collector):
    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue
        self._refused: set[tuple[str, str]] = set()
        """Series that have been shown: they stay, at zero, when no pod waits for the plugin any longer."""

    def collect(self) -> Iterator[Any]:
        """Moves by area and event; waiting pods by the plugin that refused them."""
        family = Family(metric("scheduler_queue_incoming_pods_total"))
        for labels, number in self._queue.incoming.items():
            family.add(labels, number)
        yield family
        refusals = self._queue.refusals()
        self._refused.update(refusals)
        family = Family(metric("scheduler_unschedulable_pods"))
        for labels in sorted(self._refused):
            family.add(labels, refusals[labels])
        yield family


class _CreatedClaims(Collector):
    def __init__(self, created: Mapping[str, int], gates: FeatureGates) -> None:
        self._created = created
        shared = gates.has(behaviours.CLAIM_METRICS_OF_ALL_COMPONENTS)
        self._prefix = "dynamic_resource_allocation" if shared else "scheduler"

    def collect(self) -> Iterator[Any]:
        """Claims for extended resources by outcome; they never have admin access."""
        shown = metric(f"{self._prefix}_resourceclaim_creates_total")
        family = Family(shown)
        for status, number in sorted(self._created.items()):
            family.add([{"status": status, "admin_access": "false"}[label] for label in shown.labels], number)
        yield family


class _Attempts(Collector):
    """Counter of attempts, derived from the histogram of their durations."""

    def __init__(self, durations: _Durations) -> None:
        self._durations = durations

    def collect(self) -> Iterator[Any]:
        """Attempts by result and profile."""
        family = Family(metric("scheduler_schedule_attempts_total"))
        for labels, found in self._durations.histograms.items():
            family.add(labels, found.number)
        yield family


class _Evaluations(Collector):
    """Counted for every pod: by adding to plain numbers, of which each may serve all plugins of an extension point."""

    def __init__(self) -> None:
        self.counters: list[tuple[tuple[str, ...], str, str, Evaluations]] = []

    def collect(self) -> Iterator[Any]:
        """Evaluations by plugin, extension point and profile."""
        family = Family(metric("scheduler_plugin_evaluation_total"))
        evaluations: Tally[tuple[str, str, str]] = Tally()
        for plugins, point, profile, counter in self.counters:
            for plugin in plugins if counter.times else ():
                evaluations[plugin, point, profile] += counter.times
        for labels, times in evaluations.items():
            family.add(labels, times)
        yield family


class _Held(Collector):
    def __init__(self, statistics: Callable[[], Mapping[str, int]]) -> None:
        self._statistics = statistics

    def collect(self) -> Iterator[Any]:
        """Pods that wait, by queue; pods and nodes in the cache; bindings under way."""
        held = self._statistics()
        for name, names in (
            ("scheduler_pending_pods", _QUEUES),
            ("scheduler_cache_size", _CACHED),
            ("scheduler_goroutines", {"binding": "binding"}),
        ):
            family = Family(metric(name))
            for shown, ours in names.items():
                family.add((shown,), held.get(ours, 0))
            yield family
