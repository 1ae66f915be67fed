"""PodTopologySpread: equal pods are spread over zones, hosts, or any other topology.

Before the nodes are filtered, matching pods are counted per domain once; a node is then judged by its domain's count
against the smallest (docs/spec/scheduling.md §17).

A pod without constraints of its own is spread from the pods of its services and of its controller. Source:
``pkg/scheduler/framework/plugins/helper/spread.go`` (DefaultSelector).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from cathedra.api.core.core_v1 import NodeSelector, Pod, Service, Toleration, TopologySpreadConstraint
from cathedra.api.core.meta_v1 import LabelSelector
from cathedra.api.selectors import Selector, SelectorError, from_label_selector
from cathedra.client.informer import Informer, SharedInformers
from cathedra.client.resources import REPLICASETS, REPLICATIONCONTROLLERS, SERVICES, STATEFULSETS
from cathedra.client.store import BY_NAMESPACE, by_namespace
from cathedra.scheduler.framework.attempt import Attempt
from cathedra.scheduler.framework.events import Action, EventRegistration, EventResource
from cathedra.scheduler.framework.plugin import MAX_SCORE, CycleState, FilterPlugin, PreFilterPlugin, ScorePlugin
from cathedra.scheduler.framework.status import Code, Status, unresolvable, unschedulable
from cathedra.scheduler.plugins.node_fitness import (
    has_many_terms,
    meets_node_affinity,
    node_affinity_in_turns,
    required_node_affinity,
)
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo, selector_with_keys
from cathedra.scheduler.state.snapshot import Snapshot
from cathedra.semantics.owners import controller_of
from cathedra.semantics.tolerations import first_untolerated

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
FEW_CONSTRAINTS: Final = 64
"""Number of constraints up to which they are parsed at once."""
SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway", max_skew=3),
    TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable="ScheduleAnyway", max_skew=5),
)
"""The constraints of pods that have none of their own."""
_SKIP: Final = Status(Code.SKIP)
FindRelatives = Callable[[Pod], Selector | None]
"""Selects the pods that a pod without constraints is spread from, if there are any."""


_Value = str | int | None
"""Domain of a node, or number of matching pods on a host; None for a node without the label."""
_Row = tuple[_Value, ...]
"""The values of a node, one for each constraint."""


def _domain(key: str, node: NodeInfo) -> str | None:
    return node.node.metadata.labels.get(key)


class _Counting(msgspec.Struct, frozen=True):
    """All of a constraint and a pod that a node is counted by. Pods of one form share the counts."""

    key: str
    required: tuple[str, ...]
    """Labels that a node must have to count."""
    namespace: str
    selector: Selector | None
    """None if no pod matches."""
    node_labels: tuple[tuple[str, str], ...] = ()
    affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] | None = None
    """None if nodes with taints count as well."""

    def of(self, node: NodeInfo) -> tuple[str, int] | None:
        """Return the node's domain and the number of matching pods; None if the node does not count."""
        labels = node.node.metadata.labels
        domain = labels.get(self.key)
        if domain is None:
            return None
        for key in self.required:
            if key not in labels:
                return None
        # Pods on nodes that this pod cannot use would make its own domains look empty, and the skew would never be met.
        if not meets_node_affinity(self.node_labels, self.affinity, node.node):
            return None
        if self.tolerations is not None and first_untolerated(node.hard_taints, self.tolerations) is not None:
            return None
        return domain, self.matching(node)

    def on_host(self, node: NodeInfo) -> int | None:
        """Return the number of matching pods on a node; None if it has no such label."""
        return self.matching(node) if self.key in node.node.metadata.labels else None

    def matching(self, node: NodeInfo) -> int:
        """Return the number of matching pods on a node."""
        return 0 if self.selector is None else node.selected(self.namespace, self.selector)


class _Constraint(msgspec.Struct):
    """One constraint with its counts: domain (the label's value) → matching pods."""

    key: str
    max_skew: int
    min_domains: int
    selector: Selector | None
    honors_affinity: bool
    honors_taints: bool
    counts_empty: bool
    counts: Mapping[str, int] = msgspec.field(default_factory=dict)
    smallest: int = 0
    """The global minimum; 0 while there are fewer domains than there should be."""

    def count(self, state: CycleState, pod: PodInfo, required: Sequence[str]) -> None:
        """Count matching pods on nodes that have all the labels that are ``required``, by the domain."""
        counting = self.counting(pod, required)
        attempt = state.attempt
        if attempt is None or not self.honors_affinity or not has_many_terms(pod.pod):
            # A copy: the sums follow the pods that are placed next.
            self.counts = dict(state.snapshot.sums_of(_Counting.of, (counting,)))
        else:
            self.counts = _counted_in_turns(attempt, pod, counting, state.snapshot.nodes)
        # Too few domains count as if an empty one existed, so that pods wait for nodes in further zones.
        self.smallest = 0 if len(self.counts) < self.min_domains else min(self.counts.values(), default=0)

    def counting(self, pod: PodInfo, required: Sequence[str] = ()) -> _Counting:
        selector = self.selector
        if selector is not None and selector.empty and not self.counts_empty:
            selector = None
        spec = pod.pod.spec
        return _Counting(
            self.key,
            tuple(required),
            pod.namespace,
            selector,
            tuple(sorted(spec.node_selector.items())) if self.honors_affinity else (),
            required_node_affinity(pod.pod) if self.honors_affinity else None,
            spec.tolerations if self.honors_taints else None,
        )

    def column(self, snapshot: Snapshot, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Sequence[_Value]:
        """Return the domain of each node; of hosts the number of matching pods."""
        if self.key != HOSTNAME:
            return snapshot.values_of(_domain, (self.key,), nodes)
        # Hosts are counted when they are scored. Counting all of them before would visit every pod of the cluster.
        return snapshot.values_of(_Counting.on_host, (self.counting(pod),), nodes)

    def part(self, value: _Value, weight: float) -> float:
        """Return the constraint's part of the score of nodes with a value of `column`."""
        if value is None:
            return 0.0
        number = value if isinstance(value, int) else self.counts.get(value, 0)
        return number * weight + float(self.max_skew - 1)

    def selects(self, pod: PodInfo) -> bool:
        return self.selector is not None and self.selector.matches(pod.pod.metadata.labels)


class PodTopologySpread(PreFilterPlugin, FilterPlugin, ScorePlugin):
    """Keeps the difference between domains below the constraint's maximum, or prefers nodes that do."""

    name = "PodTopologySpread"
    weight = 2

    def __init__(
        self,
        relatives: FindRelatives | None = None,
        defaults: Sequence[TopologySpreadConstraint] | None = None,
        *,
        counts_empty: bool = False,
    ) -> None:
        """Without ``relatives`` pods without constraints of their own are not spread.

        ``defaults``: the profile's constraints for such pods; None: those that Kubernetes has for all.
        ``counts_empty``: an empty selector counts every pod of the namespace, and not none.
        """
        self._counts_empty = counts_empty
        self._relatives = relatives
        self._has_own_defaults = defaults is not None
        self._defaults = SYSTEM_DEFAULTS if defaults is None else tuple(defaults)
        self._spreads_hard = any(one.when_unsatisfiable == "DoNotSchedule" for one in self._defaults)

    _skewed = unschedulable("node(s) didn't match pod topology spread constraints")
    _unlabelled = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")

    def events(self) -> Sequence[EventRegistration]:
        """Pods that come, go or change labels, and nodes likewise."""
        return (
            EventRegistration(EventResource.ASSIGNED_POD, Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL),
            EventRegistration(EventResource.TARGET_POD, Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION),
            EventRegistration(
                EventResource.NODE, Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
            ),
        )

    def skips(self, pod: PodInfo) -> bool:
        """Neither the pod nor the profile has hard constraints."""
        return not self._spreads_hard and not pod.pod.spec.topology_spread_constraints

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | None:
        """Counts matching pods per domain for the hard constraints."""
        if self.skips(pod):
            return _SKIP
        constraints = self._constraints(state.attempt, pod, "DoNotSchedule")
        if not constraints:
            return _SKIP
        for constraint in constraints:
            constraint.count(state, pod, [one.key for one in constraints])
        state.data[self.name] = constraints
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refuse a node whose domain would have too many pods."""
        constraints: list[_Constraint] = state.data[self.name]
        labels = node.node.metadata.labels
        for constraint in constraints:
            domain = labels.get(constraint.key)
            if domain is None:
                return self._unlabelled
            # A pod that its own selector does not match adds nothing to the count.
            skew = constraint.counts.get(domain, 0) + constraint.selects(pod) - constraint.smallest
            if skew > constraint.max_skew:
                return self._skewed
        return None

    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        """Nodes in emptier domains are better, for the soft constraints or those that all pods with relatives have."""
        constraints = self._constraints(state.attempt, pod, "ScheduleAnyway")
        return self._scores(constraints, state, pod, nodes) if constraints else None

    def _scores(
        self, constraints: Sequence[_Constraint], state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Sequence[int]:
        # Kubernetes' own defaults concern nodes without a zone too.
        own = bool(pod.pod.spec.topology_spread_constraints) or self._has_own_defaults
        columns = [one.column(state.snapshot, pod, nodes) for one in constraints]
        values = list(map(set, columns))
        for constraint, found in zip(constraints, values, strict=True):
            if constraint.key != HOSTNAME and (own or found != {None}):
                constraint.count(state, pod, [one.key for one in constraints] if own else ())
        # Nodes with equal rows have equal scores: a few of them are computed instead of those of hundreds of nodes.
        keys, row_of = _rows(columns, values)
        rows = {key: row_of(key) for key in set(keys)}
        usable = [row for row in rows.values() if not own or None not in row]
        if not usable:
            return [0] * len(nodes)
        number = len(nodes) if len(usable) == len(rows) else sum([None not in rows[key] for key in keys])
        weights = [_weight(one, place, usable, number) for place, one in enumerate(constraints)]
        raw = {
            row: _rounded(sum([one.part(value, by) for one, value, by in zip(constraints, row, weights, strict=True)]))
            for row in usable
        }
        scores = _inverted(raw)
        score_of = {key: scores.get(row, 0) for key, row in rows.items()}
        return list(map(score_of.__getitem__, keys))

    def _constraints(self, attempt: Attempt | None, pod: PodInfo, when: str) -> list[_Constraint]:
        """Return the pod's own constraints with that ``whenUnsatisfiable``. If it has no constraints at all, use the
        default ones, which select its relatives."""
        own = pod.pod.spec.topology_spread_constraints
        selector = self._relatives(pod.pod) if not own and self._relatives is not None else None
        if not own and selector is None:
            return []
        return self._parsed_constraints(attempt, pod, when, selector)

    def _parsed_constraints(
        self, attempt: Attempt | None, pod: PodInfo, when: str, relatives: Selector | None
    ) -> list[_Constraint]:
        own = pod.pod.spec.topology_spread_constraints
        given = [one for one in own or self._defaults if one.when_unsatisfiable == when]
        if attempt is not None and len(own) > FEW_CONSTRAINTS:
            memo = attempt.memo(self.name)
            parsed = [
                memo.get(
                    (when, place), (pod.pod.spec,), attempt, partial(_parsed, pod, one, counts_empty=self._counts_empty)
                )
                for place, one in enumerate(given)
            ]
            # The parsed selector is shared between attempts, the counts are not: pods have come and gone in between.
            return [replace(one, counts={}) for one in parsed]
        if own:
            return [_parsed(pod, one, counts_empty=self._counts_empty) for one in given]
        return [replace(_parsed(pod, one, counts_empty=False), selector=relatives) for one in given]


def _parsed(pod: PodInfo, constraint: TopologySpreadConstraint, *, counts_empty: bool) -> _Constraint:
    labels = pod.pod.metadata.labels
    return _Constraint(
        key=constraint.topology_key,
        max_skew=constraint.max_skew,
        min_domains=constraint.min_domains or 1,
        selector=selector_with_keys(constraint.label_selector, labels, constraint.match_label_keys),
        honors_affinity=constraint.node_affinity_policy in (None, "", "Honor"),
        honors_taints=constraint.node_taints_policy == "Honor",
        counts_empty=counts_empty,
    )


def _counted_in_turns(
    attempt: Attempt, pod: PodInfo, counting: _Counting, nodes: Iterable[NodeInfo]
) -> Mapping[str, int]:
    """Return the counts for a pod with many terms, in turns: the loop must not be held up for all nodes at once.

    Raises:
        TimeSliceOver: the turn of ``attempt`` is over.
    """
    counts: dict[str, int] = {}
    rest = replace(counting, node_labels=(), affinity=None)
    for node in nodes:
        found = rest.of(node) if node_affinity_in_turns(attempt, pod.pod, node) else None
        if found is not None:
            domain, number = found
            counts[domain] = counts.get(domain, 0) + number
    return counts


def _rows(
    columns: Sequence[Sequence[_Value]], values: Sequence[Set[_Value]]
) -> tuple[Sequence[Any], Callable[[Any], _Row]]:
    """Return a key of the row of each node, and a function that returns the row of a key.

    ``values`` are those of each column.
    """
    varying = [place for place, found in enumerate(values) if len(found) > 1]
    if len(varying) > 1:
        return list(zip(*columns, strict=True)), tuple
    # Fast path: if the other columns have one value each, as in a cluster of one zone, the values of one column are the
    # keys. A tuple for each of 500 nodes would take 0.1 ms.
    place = varying[0] if varying else 0
    before, after = [one[0] for one in columns[:place]], [one[0] for one in columns[place + 1 :]]
    return columns[place], lambda value: (*before, value, *after)


def _weight(constraint: _Constraint, place: int, usable: Sequence[_Row], nodes: int) -> float:
    """Return the weight of a topology. More domains weigh more; otherwise hosts would never matter beside zones.

    ``nodes`` is the number of nodes with ``usable`` rows.
    """
    size = nodes if constraint.key == HOSTNAME else len({row[place] for row in usable})
    # The logarithm is kube-scheduler's: it keeps a topology of a thousand hosts from outweighing one of three zones.
    return math.log(size + 2)


def _rounded(score: float) -> int:
    """Halves go up, as Go rounds them."""
    return math.floor(score + 0.5)


def _inverted(raw: Mapping[_Row, int]) -> dict[_Row, int]:
    low, high = min(raw.values()), max(raw.values())
    # No matching pods anywhere: every usable node is equally good, and the division below would fail.
    if high == 0:
        return dict.fromkeys(raw, MAX_SCORE)
    return {row: MAX_SCORE * (high + low - score) // high for row, score in raw.items()}


# --- default constraints


class RelatedPods:
    """Finds the selector of a pod's relatives."""

    def __init__(self, informers: SharedInformers) -> None:
        self._services = informers.of(SERVICES).store
        self._services.add_index(BY_NAMESPACE, by_namespace)
        self._replication_controllers = informers.of(REPLICATIONCONTROLLERS).store
        self._selecting: dict[tuple[str, str], Informer[Any]] = {
            ("apps/v1", "ReplicaSet"): informers.of(REPLICASETS),
            ("apps/v1", "StatefulSet"): informers.of(STATEFULSETS),
        }

    def selector(self, pod: Pod) -> Selector | None:
        """Return the joint selector of the services that select the pod and of its controller; None if there is
        neither."""
        services = self._services.by_index(BY_NAMESPACE, pod.metadata.namespace)
        owner = controller_of(pod)
        if not services and owner is None:
            return None
        labels = _selecting(services, pod)
        added: Selector | None = None
        if owner is not None:
            key = (owner.api_version, owner.kind)
            if key == ("v1", "ReplicationController"):
                controller = self._replication_controllers.get(pod.metadata.namespace, owner.name)
                labels |= controller.spec.selector if controller is not None else {}
            elif key in self._selecting:
                found = self._selecting[key].store.get(pod.metadata.namespace, owner.name)
                added = _usable_selector(found.spec.selector if found is not None else None)
        if not labels and added is None:
            return None
        merged = from_label_selector(LabelSelector(match_labels=labels))
        if added is not None:
            merged = Selector((*merged.requirements, *added.requirements))
        # An empty selector would match every pod of the namespace.
        return None if merged.empty else merged


def _selecting(services: Iterable[Service], pod: Pod) -> dict[str, str]:
    """Return the joint labels of the services that select the pod."""
    labels: dict[str, str] = {}
    for service in services:
        selector = service.spec.selector
        if selector and selector.items() <= pod.metadata.labels.items():
            labels |= selector
    return labels


def _usable_selector(selector: LabelSelector | None) -> Selector | None:
    if selector is None:
        return None
    try:
        return from_label_selector(selector)
    except SelectorError:
        return None
