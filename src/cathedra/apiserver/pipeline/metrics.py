"""Metrics of requests and objects, under the names of Kubernetes (docs/spec/apimachinery.md §19).

Counting is on the way of every request, so counts are kept in plain dictionaries and converted when they are
scraped.

A path may name anything, and a series once created is exposed for ever. A request is therefore counted under its
names only if they are served, as Kubernetes counts requests to installed routes. All others are counted together, by
verb.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, Protocol
from urllib.parse import parse_qs

import msgspec

from cathedra.api.scheme import GroupResource
from cathedra.apiserver.admission.metrics import AdmissionMetrics
from cathedra.apiserver.authentication.user import ANONYMOUS
from cathedra.apiserver.pipeline.flowcontrol import WAIT_BUCKETS, FlowController, PriorityLevel
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.table import Table
from cathedra.exposition import Family, text_of
from cathedra.histogram import Histogram
from cathedra.releases import FeatureGates
from cathedra.releases.metrics import metric, release_families
from cathedra.releases.served import lifetime
from cathedra.releases.table import order

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


_COMPONENT: Final = "apiserver"
_GONE: Final = 499
_TERMINATED: Final = frozenset({429, 504})
_SERVICES: Final = GroupResource("apiregistration.k8s.io", "apiservices")
_VERSION_DIGITS: Final = 10**15
"""Kubernetes shows the last 15 digits of a revision, which a float holds exactly."""
_Labels = tuple[str, ...]
UNAUTHENTICATED: Final = "unauthenticated"
"""Stands for the decision about a request that was refused before it had a user."""
RequestKey = tuple[_Labels, int, str, bool | str | None]
"""Labels of the route, status, dry run, and the decision of authorization (None: none was made)."""


class RequestCounts(msgspec.Struct, frozen=True):
    """The counts of requests, as `cathedra.apiserver.pipeline.metrics.Metrics` keeps them."""

    requests: Mapping[RequestKey, int]
    durations: Mapping[_Labels, Histogram]
    sizes: Mapping[_Labels, Histogram]
    """Bytes of the answers to reads."""
    named_users: Mapping[str, int]
    """Requests of users that Kubernetes does not count as «other»."""
    long_running: Mapping[_Labels, int]
    reading: int
    writing: int
    waiting: int


def request_families(counts: RequestCounts, routes: Mapping[tuple[str, ...], Any], release: str) -> Iterator[Family]:
    """Yield the counts of each request."""
    by_code: Counter[tuple[str, ...]] = Counter()
    aborted: Counter[_Labels] = Counter()
    terminated: Counter[_Labels] = Counter()
    decisions: Counter[bool | str | None] = Counter()
    for (labels, code, dry_run, decision), number in counts.requests.items():
        verb, group, version, resource, subresource, scope = labels
        by_code[verb, dry_run, group, version, resource, subresource, scope, _COMPONENT, str(code)] += number
        decisions[decision] += number
        if code == _GONE:
            aborted[labels] += number
        if code in _TERMINATED:
            terminated[verb, str(code), _COMPONENT, group, version, resource, subresource, scope] += number
    yield _counted("apiserver_request_total", by_code)
    yield _counted("apiserver_request_aborts_total", aborted)
    yield _terminations(terminated)
    yield from _durations(counts)
    yield _counted("apiserver_longrunning_requests", {(*k, _COMPONENT): n for k, n in counts.long_running.items()})
    yield _counted(
        "apiserver_current_inflight_requests", {("mutating",): counts.writing, ("readOnly",): counts.reading}
    )
    yield _counted("apiserver_current_inqueue_requests", {("readOnly",): counts.waiting})
    yield from _access(counts.named_users, decisions)
    yield _deprecated(counts.requests, routes, release)


def _terminations(terminated: Mapping[_Labels, int]) -> Family:
    names = ("verb", "code", "component", "group", "version", "resource", "subresource", "scope")
    family = Family(metric("apiserver_request_terminations_total"))
    for labels, number in terminated.items():
        shown = dict(zip(names, labels, strict=True))
        family.add([shown[name] for name in metric(family.name).labels], number)
    return family


def _durations(counts: RequestCounts) -> Iterator[Family]:
    durations = Family(metric("apiserver_request_duration_seconds"))
    inner = Family(metric("apiserver_request_sli_duration_seconds"))
    for (verb, *route), duration in counts.durations.items():
        durations.add_histogram([verb, "", *route, _COMPONENT], duration)
        inner.add_histogram([verb, *route, _COMPONENT], duration)
    yield durations
    yield inner
    sizes = Family(metric("apiserver_response_sizes"))
    for labels, size in counts.sizes.items():
        sizes.add_histogram([*labels, _COMPONENT], size)
    yield sizes


def _access(named_users: Mapping[str, int], decisions: Counter[bool | str | None]) -> Iterator[Family]:
    failed = decisions.pop(UNAUTHENTICATED, 0)
    succeeded = decisions.total()
    users = Counter({"other": succeeded - sum(named_users.values()), **named_users})
    yield _counted("authenticated_user_requests", {(user,): number for user, number in (+users).items()})
    yield _counted("authentication_attempts", {("success",): succeeded, ("failure",): failed})
    yield _counted("authorization_attempts_total", {("allowed",): decisions[True], ("denied",): decisions[False]})


def _deprecated(requests: Mapping[RequestKey, int], routes: Mapping[tuple[str, ...], Any], release: str) -> Family:
    family = Family(metric("apiserver_requested_deprecated_apis"))
    for _, group, version, resource, subresource in sorted({labels[:5] for labels, *_ in requests}):
        route = routes.get((group, version, resource, subresource))
        found = lifetime(group, version, route.kind[2]) if route is not None else None
        if found is not None and found.deprecated and order(release) >= order(found.deprecated):
            labels = (group, version, resource, subresource, found.removed)
            if labels not in {tuple(sample.labels.values()) for sample in family.samples}:
                family.add(labels, 1)
    return family


def flow_families(flow: FlowController) -> Iterator[Family]:
    """Yield the counts of priority and fairness, by level and schema."""
    waits = Family(metric("apiserver_flowcontrol_request_wait_duration_seconds"))
    rejected = Family(metric("apiserver_flowcontrol_rejected_requests_total"))
    dispatched: dict[_Labels, int] = {}
    executing: dict[_Labels, int] = {}
    waiting: dict[_Labels, int] = {}
    for counts in flow.counts:
        labels = counts.level, counts.schema
        dispatched[labels], executing[labels] = counts.dispatched, counts.dispatched - counts.ended
        waiting[labels] = counts.waiting
        for reason, number in counts.rejected.items():
            rejected.add((*labels, reason), number)
        waits.add_histogram((*labels, "true"), _with_immediate(counts.waits, counts.dispatched))
        if counts.refused_after.number:
            waits.add_histogram((*labels, "false"), counts.refused_after)
    yield _counted("apiserver_flowcontrol_dispatched_requests_total", dispatched)
    for name, by_schema in (("executing", executing), ("inqueue", waiting)):
        # A request takes one seat here, so requests and seats are equal numbers.
        for unit in ("requests", "seats"):
            yield _counted(f"apiserver_flowcontrol_current_{name}_{unit}", by_schema)
    yield rejected
    yield waits
    for name, limit in _LIMITS.items():
        yield _counted(
            f"apiserver_flowcontrol_{name}_limit_seats",
            {(level,): limit(found, flow.seats) for level, found in flow.levels},
        )


def _with_immediate(waits: Histogram, dispatched: int) -> Histogram:
    """Return the waits of all dispatched requests: those that found a free seat waited 0 seconds."""
    found = Histogram(WAIT_BUCKETS)
    found.merge(waits)
    found.add_many(0, max(0, dispatched - waits.number))
    return found


def _nominal(level: PriorityLevel, _: int) -> int:
    return level.limits.own + level.limits.lent


def _current(level: PriorityLevel, _: int) -> int:
    return max(_nominal(level, 0), level.taken)


def _lower(level: PriorityLevel, _: int) -> int:
    return level.limits.own


def _upper(level: PriorityLevel, seats: int) -> int:
    return seats if level.limits.most is None else level.limits.most


_LIMITS: Final = {"nominal": _nominal, "current": _current, "lower": _lower, "upper": _upper}


def storage_families(registry: Registry) -> Iterator[Family]:
    """Yield the numbers of stored objects, writes and events, by resource."""
    older: dict[_Labels, int] = {}
    objects: dict[_Labels, int] = {}
    requests: dict[_Labels, int] = {}
    events: dict[_Labels, int] = {}
    revisions: dict[_Labels, int] = {}
    capacity: dict[_Labels, int] = {}
    for table in registry.tables():
        resource = table.definition.group_resource
        labels = resource.group, resource.resource
        older[f"{resource.resource}.{resource.group}" if resource.group else resource.resource,] = len(table)
        objects[labels] = len(table)
        revisions[labels] = registry.revision % _VERSION_DIGITS
        capacity[labels] = table.history_limit
        for operation, number in (("create", table.created), ("update", table.changed), ("delete", table.deleted)):
            if number:
                requests[operation, *labels] = number
        if written := table.created + table.changed + table.deleted:
            events[labels] = written
    yield _counted("apiserver_storage_objects", older)
    yield _counted("apiserver_resource_objects", objects)
    yield _counted("etcd_requests_total", requests)
    yield _counted("apiserver_storage_events_received_total", events)
    yield _counted("apiserver_watch_cache_events_received_total", events)
    yield _counted("apiserver_watch_cache_events_dispatched_total", events)
    yield _counted("apiserver_watch_cache_resource_version", revisions)
    yield _counted("watch_cache_capacity", capacity)
    yield _unavailable(registry)


def _unavailable(registry: Registry) -> Family:
    try:
        table: Table | None = registry.table(_SERVICES)
    except KeyError:
        table = None
    found: dict[_Labels, int] = {
        (entry.object.metadata.name,): int(
            any(one.type == "Available" and one.status != "True" for one in entry.object.status.conditions)
        )
        for entry in (table.entries() if table is not None else ())
    }
    return _counted("aggregator_unavailable_apiservice", found)


def _counted(name: str, counts: Mapping[_Labels, float]) -> Family:
    family = Family(metric(name))
    for labels, number in counts.items():
        family.add(labels, number)
    return family
