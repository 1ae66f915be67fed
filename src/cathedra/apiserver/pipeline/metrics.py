"""Metrics of requests and objects, under the names of Kubernetes (docs/spec/apimachinery.md §19).

Counting is on the way of every request, so counts are kept in plain dictionaries and converted when they are
scraped.

A path may name anything, and a series once created is exposed for ever. A request is therefore counted under its
names only if they are served, as Kubernetes counts requests to installed routes. All others are counted together, by
verb.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, Final, Protocol
from urllib.parse import parse_qs

from cathedra.apiserver.admission.metrics import AdmissionMetrics
from cathedra.apiserver.authentication.user import ANONYMOUS
from cathedra.apiserver.pipeline.families import (
    UNAUTHENTICATED,
    RequestCounts,
    RequestKey,
    flow_families,
    request_families,
    storage_families,
)
from cathedra.apiserver.pipeline.flowcontrol import FlowController
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.registry.registry import Registry
from cathedra.exposition import Family, text_of
from cathedra.histogram import Histogram
from cathedra.releases import FeatureGates
from cathedra.releases.metrics import metric, release_families

BUCKETS: Final = (
    0.005,
    0.025,
    0.05,
    *(0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60),
)
_SIZE_BUCKETS: Final = tuple(10.0**power for power in range(3, 10))
_NAMED_USERS: Final = frozenset(
    {"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"}
)
"""Users that Kubernetes counts by name (``compressUsername`` of its authentication filter)."""
_KEY: Final = slice(1, 5)
"""The labels that identify a route."""
_QUERY_FIELDS: Final = 1000


class ServedRoutes(Protocol):
    """The served routes, as the catalog has them."""

    @property
    def by_key(self) -> Mapping[Any, Any]:
        """The routes, by group, version, resource and sub-resource."""

    @property
    def generation(self) -> int:
        """The number of their changes."""


class Metrics:
    """The metrics of one server."""

    def __init__(
        self,
        registry: Registry,
        flow: FlowController,
        routes: ServedRoutes,
        admission: AdmissionMetrics,
        gates: FeatureGates,
    ) -> None:
        self._registry = registry
        self._admission = admission
        self._gates = gates
        self._flow = flow
        self._routes = routes
        self._generation = routes.generation
        self._served: set[tuple[str, ...]] = set()
        """Labels that are known to be those of a route."""
        self._requests: defaultdict[RequestKey, int] = defaultdict(int)
        self._named_users: defaultdict[str, int] = defaultdict(int)
        """Requests of users that Kubernetes does not count as «other»."""
        self._sizes: defaultdict[tuple[str, ...], Histogram] = defaultdict(lambda: Histogram(_SIZE_BUCKETS))
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
        user = record.user
        decision: bool | str | None = record.allowed
        if user is None:
            decision = UNAUTHENTICATED
        elif "@" in user.name or user.name in _NAMED_USERS:
            self._named_users["email_id" if "@" in user.name else user.name] += 1
        if user is None or (user is ANONYMOUS and not record.allowed):
            # It reached no route. Else a client without credentials could fill the tables with one series for each
            # verb of each route.
            labels = _without_route(labels)
        self._requests[labels, record.status, _dry_run(record.query) if record.query else "", decision] += 1
        if record.info.long_running:
            self._end_long_running(record.counted_as)
            return
        if record.info.reads:
            self._reading -= 1
        else:
            self._writing -= 1
        self._durations[labels].add(seconds)
        # Lists only: to add the size of every object that is read takes 3 % of the whole read.
        if record.response_size:
            self._sizes[labels].add(record.response_size)

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
        for histograms in (self._durations, self._sizes):
            for labels in [labels for labels in histograms if self._is_gone(labels)]:
                del histograms[labels]
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
        from prometheus_client import CollectorRegistry, ProcessCollector  # start-up time: with the first scrape

        counts = RequestCounts(
            self._requests,
            self._durations,
            self._sizes,
            self._named_users,
            self._long_running,
            self._reading,
            self._writing,
            self._flow.waiting,
        )
        audited = Family(metric("apiserver_audit_event_total"))
        audited.add((), self.audit_events())
        process = ProcessCollector(registry=CollectorRegistry())
        return text_of(
            chain(
                request_families(counts, self._routes.by_key, self._gates.release),
                flow_families(self._flow),
                storage_families(self._registry),
                self._admission.families(),
                [audited],
                release_families(self._gates),
                process.collect(),
            )
        )


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
