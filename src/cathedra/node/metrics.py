"""What the node agent counts, under the kubelet's names.

docs/spec/node.md §23. One `NodeMetrics` per agent, on a registry of its own, so that several agents in one
process do not mix.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from cathedra.clock import Clock

__all__ = ["ANY_DRIVER", "NodeMetrics"]

ANY_DRIVER: Final = "<any>"
"""Stands for all drivers together."""

_BUCKETS: Final = (*(0.005 * 2**step for step in range(13)), 60.0)


class NodeMetrics:
    """Counters, gauges and histograms of one node agent."""

    def __init__(self, clock: Clock) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._claims_in_use = Gauge(
            "dra_resource_claims_in_use", "Claims with prepared devices.", ["driver_name"], registry=self.registry
        )
        self._operations = Histogram(
            "dra_operations_duration_seconds",
            "Seconds that preparing or unpreparing all claims of a pod took.",
            ["operation_name", "is_error"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._calls = Histogram(
            "dra_grpc_operations_duration_seconds",
            "Seconds that a call to a driver took.",
            ["driver_name", "method_name", "grpc_status_code"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.prepare_skips = Counter(
            "dra_node_prepare_skips",
            "Prepare calls that a driver asked to be spared.",
            ["driver_name"],
            registry=self.registry,
        )
        self.unprepare_skips = Counter(
            "dra_node_unprepare_skips",
            "Unprepare calls that a driver asked to be spared.",
            ["driver_name"],
            registry=self.registry,
        )
        self._plugins = Gauge(
            "plugin_manager_total_plugins",
            "Plugin sockets, as found and as registered.",
            ["socket_path", "state"],
            registry=self.registry,
        )
        self._pod_resources_all = Counter(
            "kubelet_pod_resources_endpoint_requests",
            "Calls to the pod resources service.",
            ["server_api_version"],
            registry=self.registry,
        )
        self._pod_resources = self._by_method("requests", "Calls to the pod resources service")
        self._pod_resources_errors = self._by_method("errors", "Failed calls to the pod resources service")
        self._claims_in_use.labels(ANY_DRIVER).set(0)
        self._drivers: set[str] = set()

    def _by_method(self, what: str, help_: str) -> dict[str, Gauge]:
        """A count per method of the pod resources service.

        They are gauges, because the library puts ``_total`` behind the name of every counter, and Kubernetes does not.
        """
        return {
            method: Gauge(
                f"kubelet_pod_resources_endpoint_{what}_{method}",
                f"{help_}: {method}.",
                ["server_api_version"],
                registry=self.registry,
            )
            for method in ("list", "get", "get_allocatable")
        }

    def pod_resources(self, method: str, version: str) -> None:
        """Note a call to the pod resources service: ``list``, ``get`` or ``get_allocatable``."""
        self._pod_resources_all.labels(version).inc()
        self._pod_resources[method].labels(version).inc()

    def pod_resources_failed(self, method: str, version: str) -> None:
        """Note that such a call has failed."""
        self._pod_resources_errors[method].labels(version).inc()

    def plugin(self, socket_path: str, state: str, *, present: bool) -> None:
        """Note that a plugin socket is there, or is not any more, in what is found or in what is registered."""
        if present:
            self._plugins.labels(socket_path, state).set(1)
            return
        with contextlib.suppress(KeyError):
            self._plugins.remove(socket_path, state)

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Measure a pod operation, ``PrepareResources`` or ``UnprepareResources``."""
        started = self._clock.monotonic()
        failed = "true"
        try:
            yield
            failed = "false"
        finally:
            self._operations.labels(name, failed).observe(self._clock.monotonic() - started)

    def call(self, driver: str, method: str, code: str, seconds: float) -> None:
        """Note a finished gRPC call; ``method`` is the full path."""
        self._calls.labels(driver, method, code).observe(seconds)

    def set_claims_in_use(self, total: int, by_driver: Mapping[str, int]) -> None:
        """How many claims have prepared devices; series of drivers without any disappear."""
        for driver in self._drivers - set(by_driver):
            self._claims_in_use.remove(driver)
        for driver, count in by_driver.items():
            self._claims_in_use.labels(driver).set(count)
        self._claims_in_use.labels(ANY_DRIVER).set(total)
        self._drivers = set(by_driver)

    def text(self) -> bytes:
        """Everything in the exposition format."""
        return generate_latest(self.registry)
