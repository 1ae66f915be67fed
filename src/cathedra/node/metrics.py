"""Metrics of the node agent, under the kubelet's names (docs/spec/node.md §23).

There is one `NodeMetrics` per agent, so that several agents in one process do not mix. Values are plain numbers until
they are collected.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from cathedra.client.denials import MissingRight
from cathedra.clock import Clock
from cathedra.histogram import Histogram

__all__ = ["ANY_DRIVER", "NodeMetrics"]

ANY_DRIVER: Final = "<any>"
"""Stands for all drivers together."""

_BUCKETS: Final = (*(0.005 * 2**step for step in range(13)), 60.0)
_METHODS: Final = ("list", "get", "get_allocatable")
"""Methods of the pod resources service."""
_DRIVER: Final = ("driver_name",)
_VERSION: Final = ("server_api_version",)
_Labels = tuple[str, ...]


class NodeMetrics:
    """Counters, gauges and histograms of one node agent."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._claims_in_use: Mapping[_Labels, float] = {(ANY_DRIVER,): 0}
        self._operations: dict[_Labels, Histogram] = defaultdict(lambda: Histogram(_BUCKETS))
        self._calls: dict[_Labels, Histogram] = defaultdict(lambda: Histogram(_BUCKETS))
        self._prepare_skips: Counter[_Labels] = Counter()
        self._unprepare_skips: Counter[_Labels] = Counter()
        self._undecodable: Counter[_Labels] = Counter()
        self._informer_failures: Counter[_Labels] = Counter()
        self._plugins: dict[_Labels, float] = {}
        self._pod_resources = {method: Counter[_Labels]() for method in _METHODS}
        self._pod_resources_errors = {method: Counter[_Labels]() for method in _METHODS}
        self.denied: Mapping[_Labels, float] = {}
        """Requests that the API server refused for want of a right, by user, verb, API group and resource."""

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
        """Everything in the exposition format."""
        from prometheus_client import generate_latest  # start-up time: with the first scrape

        families: Any = self
        return generate_latest(families)

    def collect(self) -> Iterator[Any]:
        """Yield the current metrics for prometheus_client."""
        yield _gauge("dra_resource_claims_in_use", "Claims with prepared devices.", _DRIVER, self._claims_in_use)
        yield _histogram(
            "dra_operations_duration_seconds",
            "Seconds that preparing or unpreparing all claims of a pod took.",
            ("operation_name", "is_error"),
            self._operations,
        )
        yield _histogram(
            "dra_grpc_operations_duration_seconds",
            "Seconds that a call to a driver took.",
            ("driver_name", "method_name", "grpc_status_code"),
            self._calls,
        )
        about = "Prepare calls that a driver asked to be spared."
        yield _counter("dra_node_prepare_skips", about, _DRIVER, self._prepare_skips)
        about = "Unprepare calls that a driver asked to be spared."
        yield _counter("dra_node_unprepare_skips", about, _DRIVER, self._unprepare_skips)
        about = "Objects, or new versions of them, that a server showed and that could not be decoded."
        yield _counter("cathedra_undecodable_objects", about, ("resource", "kind"), self._undecodable)
        about = "Handlers that raised, malformed answers, and defects of informers."
        yield _counter("cathedra_informer_failures", about, ("resource", "reason"), self._informer_failures)
        about = "Plugin sockets, as found and as registered."
        yield _gauge("plugin_manager_total_plugins", about, ("socket_path", "state"), self._plugins)
        calls: Counter[_Labels] = sum(self._pod_resources.values(), Counter())
        yield _counter(
            "kubelet_pod_resources_endpoint_requests", "Calls to the pod resources service.", _VERSION, calls
        )
        # The counts by method are gauges: the library puts ``_total`` behind every counter's name, Kubernetes does not.
        for method, counted in self._pod_resources.items():
            about = f"Calls to the pod resources service: {method}."
            yield _gauge(f"kubelet_pod_resources_endpoint_requests_{method}", about, _VERSION, counted)
        for method, counted in self._pod_resources_errors.items():
            about = f"Failed calls to the pod resources service: {method}."
            yield _gauge(f"kubelet_pod_resources_endpoint_errors_{method}", about, _VERSION, counted)
        about = "Requests that the API server refused because their user lacks a right."
        yield _counter("cathedra_client_denied_requests", about, MissingRight._fields, self.denied)


def _counter(name: str, about: str, labels: _Labels, values: Mapping[_Labels, float]) -> Any:
    from prometheus_client.core import CounterMetricFamily  # start-up time: as above

    return _filled(CounterMetricFamily(name, about, labels=labels), values)


def _gauge(name: str, about: str, labels: _Labels, values: Mapping[_Labels, float]) -> Any:
    from prometheus_client.core import GaugeMetricFamily  # start-up time: as above

    return _filled(GaugeMetricFamily(name, about, labels=labels), values)


def _filled(family: Any, values: Mapping[_Labels, float]) -> Any:
    for labels, value in values.items():
        family.add_metric(list(labels), value)
    return family


def _histogram(name: str, about: str, labels: _Labels, values: Mapping[_Labels, Histogram]) -> Any:
    from prometheus_client.core import HistogramMetricFamily  # start-up time: as above

    family = HistogramMetricFamily(name, about, labels=labels)
    for named, histogram in values.items():
        family.add_metric(list(named), list(histogram.cumulative()), histogram.total)
    return family
