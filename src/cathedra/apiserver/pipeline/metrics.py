"""Metrics of requests and objects, under the names of Kubernetes (docs/spec/apimachinery.md §19).

Counting is on the way of every request, so counts are kept in plain dictionaries and converted when they are
scraped.

A path may name anything, and a series once created is exposed for ever. A request is therefore counted under its
names only if they are served, as Kubernetes counts requests to installed routes. All others are counted together, by
verb.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, Final, Protocol
from urllib.parse import parse_qs

from cathedra.apiserver.authentication.user import ANONYMOUS
from cathedra.apiserver.pipeline.flowcontrol import FlowController
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.registry.registry import Registry
from cathedra.histogram import Histogram
from cathedra.releases import FeatureGates, Stage, state_of

__all__ = ["Metrics", "ServedRoutes"]

BUCKETS: Final = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
_LABELS: Final = ("verb", "group", "version", "resource", "subresource", "scope")
_KEY: Final = slice(1, 5)
"""The labels that identify a route."""
_QUERY_FIELDS: Final = 1000


class ServedRoutes(Protocol):
    """The served routes, as the catalog has them."""

    @property
    def by_key(self) -> Container[tuple[str, str, str, str]]:
        """The routes, by group, version, resource and sub-resource."""

    @property
    def generation(self) -> int:
        """The number of their changes."""


class Metrics:
    """The metrics of one server."""

    def __init__(self, registry: Registry, flow: FlowController, routes: ServedRoutes, gates: FeatureGates) -> None:
        self._registry = registry
        self._gates = gates
        self._flow = flow
        self._routes = routes
        self._generation = routes.generation
        self._served: set[tuple[str, ...]] = set()
        """Labels that are known to be those of a route."""
        self._requests: defaultdict[tuple[tuple[str, ...], int, str], int] = defaultdict(int)
        """The number of requests by labels, status and dry run."""
        self._durations: defaultdict[tuple[str, ...], Histogram] = defaultdict(lambda: Histogram(BUCKETS))
        self._long_running: dict[tuple[str, ...], int] = {}
        self._reading = 0
        self._writing = 0
        self.audit_events: Callable[[], int] = lambda: 0

    def begin(self, record: RequestRecord) -> None:
        """Count a request that has arrived."""
        if record.info.long_running:
            # It ends under the labels that it began with: its resource may have gone by then.
            labels = record.counted_as = self._labels(record)
            self._long_running[labels] = self._long_running.get(labels, 0) + 1
        elif record.info.reads:
            self._reading += 1
        else:
            self._writing += 1

    def end(self, record: RequestRecord, seconds: float) -> None:
        """Count a request that has been answered."""
        labels = self._labels(record)
        if record.user is None or (record.user is ANONYMOUS and not record.allowed):
            # It reached no route. Else a client without credentials could fill the tables with one series for each
            # verb of each route.
            labels = _without_route(labels)
        self._requests[labels, record.status, _dry_run(record.query) if record.query else ""] += 1
        if record.info.long_running:
            self._end_long_running(record.counted_as)
            return
        if record.info.reads:
            self._reading -= 1
        else:
            self._writing -= 1
        self._durations[labels].add(seconds)

    def _labels(self, record: RequestRecord) -> tuple[str, ...]:
        """Return the labels under which a request is counted."""
        if self._generation != self._routes.generation:
            self._forget_unserved()
        labels = record.labels()
        # Looked up first because nearly every request has labels that were counted before.
        if labels in self._served:
            return labels
        if labels[_KEY] not in self._routes.by_key:
            return _without_route(labels)
        self._served.add(labels)
        return labels

    def _forget_unserved(self) -> None:
        """Drop the series of custom resources that were removed: clients can create new ones again and again."""
        self._generation = self._routes.generation
        self._served.clear()
        for labels in [labels for labels in self._durations if self._is_gone(labels)]:
            del self._durations[labels]
        for key in [key for key in self._requests if self._is_gone(key[0])]:
            del self._requests[key]

    def _is_gone(self, labels: tuple[str, ...]) -> bool:
        return any(labels[_KEY]) and labels[_KEY] not in self._routes.by_key

    def _end_long_running(self, labels: tuple[str, ...]) -> None:
        left = self._long_running[labels] - 1
        if left:
            self._long_running[labels] = left
        else:
            del self._long_running[labels]

    def text(self) -> bytes:
        """Return all metrics in the exposition format."""
        from prometheus_client import (  # start-up time: with the first scrape
            CollectorRegistry,
            ProcessCollector,
            generate_latest,
        )

        registry = CollectorRegistry()
        registry.register(_Collected(self._families))
        ProcessCollector(registry=registry)
        return generate_latest(registry)

    def _families(self) -> Iterator[Any]:
        from prometheus_client.core import (  # start-up time: as above
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        requests = CounterMetricFamily(
            "apiserver_request",
            "Requests, by verb, group, version, resource, scope, component and HTTP code.",
            labels=(*_LABELS, "component", "code", "dry_run"),
        )
        for (labels, code, dry_run), count in self._requests.items():
            requests.add_metric([*labels, "apiserver", str(code), dry_run], count)
        yield requests
        durations = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "How long requests took, watches and connections left out.",
            labels=(*_LABELS, "component", "dry_run"),
        )
        for labels, duration in self._durations.items():
            durations.add_metric([*labels, "apiserver", ""], list(duration.cumulative()), duration.total)
        yield durations
        inflight = GaugeMetricFamily(
            "apiserver_current_inflight_requests", "Requests being worked on.", labels=("request_kind",)
        )
        inflight.add_metric(["mutating"], self._writing)
        inflight.add_metric(["readOnly"], self._reading)
        yield inflight
        running = GaugeMetricFamily(
            "apiserver_longrunning_requests", "Watches and connections that are open.", labels=(*_LABELS, "component")
        )
        for labels, count in self._long_running.items():
            running.add_metric([*labels, "apiserver"], count)
        yield running
        yield from self._objects()
        seats = GaugeMetricFamily("apiserver_flowcontrol_current_executing_seats", "Seats that are taken.")
        seats.add_metric([], self._flow.taken)
        yield seats
        waiting = GaugeMetricFamily("apiserver_flowcontrol_current_inqueue_requests", "Requests that wait for a seat.")
        waiting.add_metric([], self._flow.waiting)
        yield waiting
        rejected = CounterMetricFamily(
            "apiserver_flowcontrol_rejected_requests", "Requests that were told to come again."
        )
        rejected.add_metric([], self._flow.rejected)
        yield rejected
        audited = CounterMetricFamily("apiserver_audit_event", "Audit events that were written.")
        audited.add_metric([], self.audit_events())
        yield audited
        yield self._features()

    def _features(self) -> Any:
        from prometheus_client.core import GaugeMetricFamily  # start-up time: as above

        features = GaugeMetricFamily(
            "kubernetes_feature_enabled", "Feature gates: 1 for those that are on.", labels=("name", "stage")
        )
        for gate, on in self._gates.items():
            state = state_of(gate, self._gates.release)
            if state is not None:
                # Kubernetes' name of the stage GA is the empty string.
                features.add_metric([gate, "" if state.stage == Stage.GA else state.stage], on)
        return features

    def _objects(self) -> Iterable[Any]:
        from prometheus_client.core import GaugeMetricFamily  # start-up time: as above

        older = GaugeMetricFamily("apiserver_storage_objects", "Objects that are stored.", labels=("resource",))
        newer = GaugeMetricFamily(
            "apiserver_resource_objects", "Objects that are stored.", labels=("group", "resource")
        )
        for table in self._registry.tables():
            resource = table.definition.group_resource
            name = f"{resource.resource}.{resource.group}" if resource.group else resource.resource
            older.add_metric([name], len(table))
            newer.add_metric([resource.group, resource.resource], len(table))
        return older, newer


def _without_route(labels: tuple[str, ...]) -> tuple[str, ...]:
    return labels[0], "", "", "", "", ""


def _dry_run(query: bytes) -> str:
    """Return ``All``, "" or ``invalid``: the dry run of a query, as Kubernetes exposes it."""
    if b"dryRun" not in query:
        return ""
    try:
        values = parse_qs(query, keep_blank_values=True, max_num_fields=_QUERY_FIELDS).get(b"dryRun", [])
    except ValueError:
        return "invalid"  # refused for its length
    return "invalid" if any(value != b"All" for value in values) else "All" if values else ""


class _Collected:
    """The collector that prometheus_client calls."""

    def __init__(self, families: Callable[[], Iterator[Any]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Any]:
        """Yield the current metrics."""
        return self._families()

    def describe(self) -> list[Any]:
        """Return nothing: the names are those of `collect`."""
        return []
