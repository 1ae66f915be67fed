"""Metrics of the node agent, under the kubelet's names (docs/spec/node.md §23).

There is one `NodeMetrics` per agent, so that several agents in one process do not mix. Values are plain numbers until
they are collected.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from cathedra.client.denials import MissingRight
from cathedra.client.requestmetrics import RequestMetrics
from cathedra.clock import Clock
from cathedra.exposition import Family, Metric, text_of
from cathedra.histogram import Histogram
from cathedra.releases.metrics import metric

ANY_DRIVER: Final = "<any>"
"""Stands for all drivers together."""

_DRA_BUCKETS: Final = tuple(0.1 * 400 ** (step / 14) for step in range(15))
"""From 0.1 to 40 seconds: a gRPC call of a driver ends after 45 (kubernetes/kubernetes#127146)."""
_START_BUCKETS: Final = (
    *(0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600),
)
_CALL_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_METHODS: Final = ("list", "get", "get_allocatable")
"""Methods of the pod resources service."""
_PREPARE_SKIPS: Final = Metric(
    "dra_node_prepare_skips_total", "counter", "Prepare calls that a driver does not need.", ("driver_name",)
)
_UNPREPARE_SKIPS: Final = Metric(
    "dra_node_unprepare_skips_total", "counter", "Unprepare calls that a driver does not need.", ("driver_name",)
)
_UNDECODABLE: Final = Metric(
    "cathedra_undecodable_objects_total",
    "counter",
    "Objects, or new versions of them, that a server showed and that could not be decoded.",
    ("resource", "kind"),
)
_INFORMER_FAILURES: Final = Metric(
    "cathedra_informer_failures_total",
    "counter",
    "Handlers that raised, malformed answers, and defects of informers.",
    ("resource", "reason"),
)
_DENIED: Final = Metric(
    "cathedra_client_denied_requests_total",
    "counter",
    "Requests that the API server refused because their user lacks a right.",
    MissingRight._fields,
)
_Labels = tuple[str, ...]


class PodCounts(NamedTuple):
    """Pods and containers of a node at one moment. A node here has no static pods."""

    desired: int = 0
    """Pods that are bound to the node and exist."""
    active: int = 0
    """Those of them that use resources of the node."""
    running: int = 0
    """Pods with a running container."""
    running_containers: int = 0
    exited_containers: int = 0
    ephemeral_containers: int = 0


class NodeMetrics:
    """Counters, gauges and histograms of one node agent."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._claims_in_use: Mapping[_Labels, float] = {(ANY_DRIVER,): 0}
        self._operations: dict[_Labels, Histogram] = defaultdict(lambda: Histogram(_DRA_BUCKETS))
        self._calls: dict[_Labels, Histogram] = defaultdict(lambda: Histogram(_DRA_BUCKETS))
        self._prepare_skips: Counter[_Labels] = Counter()
        self._unprepare_skips: Counter[_Labels] = Counter()
        self._undecodable: Counter[_Labels] = Counter()
        self._informer_failures: Counter[_Labels] = Counter()
        self._plugins: dict[_Labels, float] = {}
        self._pod_resources = {method: Counter[_Labels]() for method in _METHODS}
        self._pod_resources_errors = {method: Counter[_Labels]() for method in _METHODS}
        self._registrations: Counter[_Labels] = Counter()
        self._allocations: dict[_Labels, Histogram] = defaultdict(lambda: Histogram(_CALL_BUCKETS))
        self._started_pods = 0
        self._started_containers: Counter[_Labels] = Counter()
        self._failed_containers: Counter[_Labels] = Counter()
        self._starts = Histogram(_START_BUCKETS)
        self.node = ""
        """Name of the node; "" before the agent has set it."""
        self.count_pods: Callable[[], PodCounts] = PodCounts
        """Counts the node's pods when the metrics are read."""
        self.denied: Mapping[_Labels, float] = {}
        """Requests that the API server refused for want of a right, by user, verb, API group and resource."""
        self.requests: RequestMetrics | None = None
        """Requests over HTTP; None where the agent makes none."""

    def undecodable(self, resource: str, kind: str) -> None:
        """Note an object of the API that cannot be decoded."""
        self._undecodable[resource, kind] += 1

    def informer_failed(self, resource: str, reason: str) -> None:
        """Note that following a resource of the API has failed, by `cathedra.client.informer.InformerObserver`."""
        self._informer_failures[resource, reason] += 1

    def pod_resources(self, method: str, version: str) -> None:
        """Note a call to the pod resources service: ``list``, ``get`` or ``get_allocatable``."""
        self._pod_resources[method][version,] += 1

    def pod_resources_failed(self, method: str, version: str) -> None:
        """Note that such a call has failed."""
        self._pod_resources_errors[method][version,] += 1

    def plugin(self, socket_path: str, state: str, *, present: bool) -> None:
        """Count a plugin socket in ``state`` (found or registered), or stop counting it."""
        if present:
            self._plugins[socket_path, state] = 1
        else:
            self._plugins.pop((socket_path, state), None)

    def plugin_registered(self, resource: str) -> None:
        """Count the registration of a device plugin."""
        self._registrations[resource,] += 1

    @contextmanager
    def allocation(self, resource: str) -> Iterator[None]:
        """Measure an Allocate call of a device plugin, also one that fails."""
        started = self._clock.monotonic()
        try:
            yield
        finally:
            self._allocations[resource,].add(self._clock.monotonic() - started)

    def pod_started(self) -> None:
        """Count a pod that is set up."""
        self._started_pods += 1

    def pod_runs(self, seconds: float) -> None:
        """Note that a pod has begun to run, that many seconds after the agent has seen it."""
        self._starts.add(seconds)

    def container_started(self, kind: str) -> None:
        """Count an attempt to start a container: ``container``, ``init_container`` or ``ephemeral_container``."""
        self._started_containers[kind,] += 1

    def container_failed(self, kind: str, reason: str) -> None:
        """Count an attempt that failed, with the reason that the container's status shows."""
        self._failed_containers[reason, kind] += 1

    def prepare_skipped(self, driver: str) -> None:
        """Count a prepare call that the driver does not need."""
        self._prepare_skips[driver,] += 1

    def unprepare_skipped(self, driver: str) -> None:
        """Count an unprepare call that the driver does not need."""
        self._unprepare_skips[driver,] += 1

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Measure a pod operation, ``PrepareResources`` or ``UnprepareResources``."""
        started = self._clock.monotonic()
        failed = "true"
        try:
            yield
            failed = "false"
        finally:
            self._operations[name, failed].add(self._clock.monotonic() - started)

    def call(self, driver: str, method: str, code: str, seconds: float) -> None:
        """Note a finished gRPC call; ``method`` is the full path."""
        self._calls[driver, method, code].add(seconds)

    def set_claims_in_use(self, total: int, by_driver: Mapping[str, int]) -> None:
        """Set the number of prepared claims. Series of drivers without claims disappear."""
        by_labels: dict[_Labels, float] = {(driver,): count for driver, count in by_driver.items()}
        self._claims_in_use = {(ANY_DRIVER,): total, **by_labels}

    def text(self) -> bytes:
        """Return everything in the exposition format."""
        return text_of(self.collect())

    def collect(self) -> Iterator[Any]:
        """Yield the current metrics for prometheus_client."""
        yield _values(metric("dra_resource_claims_in_use"), self._claims_in_use)
        yield _histograms(metric("dra_operations_duration_seconds"), ("operation_name", "is_error"), self._operations)
        yield _histograms(
            metric("dra_grpc_operations_duration_seconds"),
            ("driver_name", "method_name", "grpc_status_code"),
            self._calls,
        )
        yield _values(_PREPARE_SKIPS, self._prepare_skips)
        yield _values(_UNPREPARE_SKIPS, self._unprepare_skips)
        yield _values(_UNDECODABLE, self._undecodable)
        yield _values(_INFORMER_FAILURES, self._informer_failures)
        yield _values(metric("plugin_manager_total_plugins"), self._plugins)
        calls: Counter[_Labels] = sum(self._pod_resources.values(), Counter())
        yield _values(metric("kubelet_pod_resources_endpoint_requests_total"), calls)
        for kind, by_method in (("requests", self._pod_resources), ("errors", self._pod_resources_errors)):
            for method, counted in by_method.items():
                yield _values(metric(f"kubelet_pod_resources_endpoint_{kind}_{method}"), counted)
        yield from self._pods()
        allocations = metric("kubelet_device_plugin_alloc_duration_seconds")
        yield _values(metric("kubelet_device_plugin_registration_total"), self._registrations)
        yield _histograms(allocations, allocations.labels, self._allocations)
        yield _values(_DENIED, self.denied)
        if self.requests is not None:
            yield from self.requests.collect()

    def _pods(self) -> Iterator[Family]:
        counts = self.count_pods()
        if self.node:
            yield _values(metric("kubelet_node_name"), {(self.node,): 1})
        yield _values(metric("kubelet_desired_pods"), {("",): counts.desired, ("true",): 0})
        yield _values(metric("kubelet_active_pods"), {("",): counts.active, ("true",): 0})
        yield _values(metric("kubelet_running_pods"), {(): counts.running})
        states: dict[_Labels, float] = {("running",): counts.running_containers, ("exited",): counts.exited_containers}
        yield _values(metric("kubelet_running_containers"), states)
        yield _values(metric("kubelet_managed_ephemeral_containers"), {(): counts.ephemeral_containers})
        yield _values(metric("kubelet_started_pods_total"), {(): self._started_pods})
        yield _values(metric("kubelet_started_containers_total"), self._started_containers)
        yield _values(metric("kubelet_started_containers_errors_total"), self._failed_containers)
        yield _histograms(metric("kubelet_pod_start_duration_seconds"), (), {(): self._starts})


def _values(shown: Metric, values: Mapping[_Labels, float]) -> Family:
    family = Family(shown)
    for labels, value in values.items():
        family.add(labels, value)
    return family


def _histograms(shown: Metric, names: _Labels, values: Mapping[_Labels, Histogram]) -> Family:
    """Return histograms whose labels are named in the order of ``names``."""
    family = Family(shown)
    for labels, histogram in values.items():
        named = dict(zip(names, labels, strict=True))
        family.add_histogram([named[name] for name in shown.labels], histogram)
    return family
