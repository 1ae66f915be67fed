"""InterPodAffinity: pods that prefer, require or exclude certain other pods in one topology domain.

Matching pods are counted per (topology key, value) before the nodes are filtered; a node is then judged by its labels
alone (docs/spec/scheduling.md §17). A pod may have thousands of terms, each of which is compared with each existing
pod. The matches of many terms are therefore computed once for all pods with the same labels, piece by piece in several
time slices (`cathedra.scheduler.framework.attempt`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Namespace
from cathedra.client.store import Store
from cathedra.scheduler.framework.attempt import Memo
from cathedra.scheduler.framework.events import Action, EventRegistration, EventResource
from cathedra.scheduler.framework.plugin import MAX_SCORE, CycleState, FilterPlugin, PreFilterPlugin, ScorePlugin
from cathedra.scheduler.framework.status import Code, Status, unresolvable, unschedulable
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import AffinityTerm, PodInfo
from cathedra.scheduler.state.snapshot import Snapshot

FEW_TERMS: Final = 16
"""Number of terms from which on a pod is compared with each existing pod, one by one."""
MOST_MATCHES: Final = 10_000
"""Largest number of cached pairs of a pod with many terms and labels of another one."""
_NODE_KEYS: Final = "keys of node labels"
_SKIP: Final = Status(Code.SKIP)
Domain = tuple[str, str]
"""Topology key and the label's value."""


class _Counts(msgspec.Struct):
    existing_anti: Counter[Domain] = msgspec.field(default_factory=Counter)
    """Domains that pods already there want to keep free of this one."""
    affinity: Counter[Domain] = msgspec.field(default_factory=Counter)
    """Domains with pods that all required terms mean."""
    anti: Counter[Domain] = msgspec.field(default_factory=Counter)
    """Domains with pods that this one must not be with."""


class _Matched(msgspec.Struct, frozen=True):
    """Matches of one pod's terms with another pod: numbers by topology key, of keys that nodes have."""

    together: bool
    """All required terms of affinity mean it."""
    affinity: Mapping[str, int]
    """Required terms of affinity that mean it."""
    anti: Mapping[str, int]
    """Required terms of anti-affinity that mean it."""
    preferred: Mapping[str, int]
    """The sum of the weights of preferred terms that mean it."""


class InterPodAffinity(PreFilterPlugin, FilterPlugin, ScorePlugin):
    """Required and preferred affinity and anti-affinity between pods."""

    name = "InterPodAffinity"
    weight = 2
    _no_affinity = unresolvable("node(s) didn't match pod affinity rules")
    _anti = unschedulable("node(s) didn't match pod anti-affinity rules")
    _existing_anti = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")

    def __init__(
        self, namespaces: Store[Namespace], hard_weight: int = 1, *, ignores_wishes_of_others: bool = False
    ) -> None:
        """``hard_weight``: of required terms of pods already there, in scores; with ``ignores_wishes_of_others`` the
        terms of pods already there do not count for a pod that has no preferred terms of its own."""
        self._namespaces = namespaces
        self._hard_weight = hard_weight
        self._ignores_wishes_of_others = ignores_wishes_of_others
        self._matches: Memo[tuple[str, str, frozenset[tuple[str, str]]], _Matched] = Memo(MOST_MATCHES)

    def events(self) -> Sequence[EventRegistration]:
        """Pods that come, go or change labels, and nodes likewise."""
        return (
            EventRegistration(EventResource.ASSIGNED_POD, Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL),
            EventRegistration(EventResource.TARGET_POD, Action.UPDATE_POD_LABEL),
            EventRegistration(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
        )

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | None:
        """Count per domain; skip if no pod has a term."""
        nodes = snapshot.nodes
        if not pod.has_affinity or not (pod.required_affinity or pod.required_anti_affinity):
            if not snapshot.with_affinity:
                return _SKIP
            # A pod without required terms can only be refused by terms of other pods, so nodes whose pods have none
            # need not be counted.
            nodes = list(snapshot.nodes_with_affinity())
        counts = _Counts()
        for node in nodes:
            self._count(state, counts, pod, node)
        state.data[self.name] = counts
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Affinity first, then anti-affinity of the pod, then that of the others."""
        counts: _Counts = state.data[self.name]
        labels = node.node.metadata.labels
        if not self._near_enough(state, counts, pod, labels):
            return self._no_affinity
        if any(counts.anti[domain] > 0 for domain in _domains(pod.required_anti_affinity_keys, labels)):
            return self._anti
        if any(counts.existing_anti.get((key, value), 0) > 0 for key, value in labels.items()):
            return self._existing_anti
        return None

    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        """Weights of preferred terms, of this pod and of those already there, per domain."""
        looked_at: Iterable[NodeInfo] = state.snapshot.nodes
        if not pod.has_affinity or not pod.preferred_terms:
            if self._ignores_wishes_of_others or not state.snapshot.with_affinity:
                return None
            # Likewise for scores: a pod without preferred terms is weighed by those of other pods alone.
            looked_at = state.snapshot.nodes_with_affinity()
        weights: Counter[Domain] = Counter()
        for node in looked_at:
            labels = node.node.metadata.labels
            for other in node.pods.values():
                self._weigh(state, weights, pod, other, labels)
        if not weights:
            return None
        totals = [sum(weights.get(label, 0) for label in node.node.metadata.labels.items()) for node in nodes]
        low, high = min(totals), max(totals)
        if low == high:
            return [0] * len(nodes)
        return [int(MAX_SCORE * (total - low) / (high - low)) for total in totals]

    def _count(self, state: CycleState, counts: _Counts, pod: PodInfo, node: NodeInfo) -> None:
        labels = node.node.metadata.labels
        many = _many_terms(pod)
        terms, anti_terms = ((), ()) if many else (pod.required_affinity, pod.required_anti_affinity)
        for other in node.pods.values():
            if _many_terms(other):
                _enter(counts.existing_anti, self._matched(state, other, pod).anti, labels)
            else:
                for term in other.required_anti_affinity:
                    if term.topology_key in labels and term.matches(pod.pod, self._labels_of):
                        counts.existing_anti[term.topology_key, labels[term.topology_key]] += 1
            if many:
                found = self._matched(state, pod, other)
                _enter(counts.anti, found.anti, labels)
                if found.together:
                    _enter(counts.affinity, found.affinity, labels)
            if terms and all(term.matches(other.pod, self._labels_of) for term in terms):
                counts.affinity.update(_domains(pod.required_affinity_keys, labels))
            for term in anti_terms:
                if term.topology_key in labels and term.matches(other.pod, self._labels_of):
                    counts.anti[term.topology_key, labels[term.topology_key]] += 1

    def _near_enough(self, state: CycleState, counts: _Counts, pod: PodInfo, labels: Mapping[str, str]) -> bool:
        keys = pod.required_affinity_keys
        if not keys:
            return True
        if not keys <= labels.keys():
            return False
        if all(counts.affinity[domain] > 0 for domain in _domains(keys, labels)):
            return True
        # The first pod of a group that wants to be together has no pod to join yet.
        if counts.affinity.total():
            return False
        if _many_terms(pod):
            return self._matched(state, pod, pod).together
        return all(term.matches(pod.pod, self._labels_of) for term in pod.required_affinity)

    def _weigh(
        self, state: CycleState, weights: Counter[Domain], pod: PodInfo, other: PodInfo, labels: Mapping[str, str]
    ) -> None:
        if _many_terms(pod):
            _enter(weights, self._matched(state, pod, other).preferred, labels)
        else:
            for weighted in pod.preferred_terms:
                self._add(weights, weighted.term, weighted.weight, other, labels)
        if _many_terms(other):
            found = self._matched(state, other, pod)
            _enter(weights, found.preferred, labels)
            _enter(weights, found.affinity, labels, self._hard_weight)
            return
        for weighted in other.preferred_terms:
            self._add(weights, weighted.term, weighted.weight, pod, labels)
        for term in other.required_affinity:
            self._add(weights, term, self._hard_weight, pod, labels)

    def _matched(self, state: CycleState, owner: PodInfo, meant: PodInfo) -> _Matched:
        """Return the matches of the many terms of ``owner`` with ``meant``, the same for all pods with its labels.

        Raises:
            TimeSliceOver: the attempt's turn is over.
        """
        attempt = state.attempt
        keys = _node_keys(state)
        labels = meant.pod.metadata.labels
        key = (owner.uid, meant.namespace, frozenset(labels.items()))
        versions = (owner.pod.spec, self._namespaces.get("", meant.namespace), keys)

        def work() -> _Matched:
            affinity, anti, preferred = Counter[str](), Counter[str](), Counter[str]()
            together = True
            for term in owner.required_affinity:
                matches = term.matches(meant.pod, self._labels_of)
                together = together and matches
                if matches and term.topology_key in keys:
                    affinity[term.topology_key] += 1
            for term in owner.required_anti_affinity:
                if term.topology_key in keys and term.matches(meant.pod, self._labels_of):
                    anti[term.topology_key] += 1
            for weighted in owner.preferred_terms:
                term = weighted.term
                if term.topology_key in keys and weighted.weight and term.matches(meant.pod, self._labels_of):
                    preferred[term.topology_key] += weighted.weight
            return _Matched(together and bool(owner.required_affinity), affinity, anti, preferred)

        return self._matches.get(key, versions, attempt, work)

    def _add(
        self, weights: Counter[Domain], term: AffinityTerm, weight: int, meant: PodInfo, labels: Mapping[str, str]
    ) -> None:
        value = labels.get(term.topology_key)
        if value is not None and weight and term.matches(meant.pod, self._labels_of):
            weights[term.topology_key, value] += weight

    def _labels_of(self, namespace: str) -> Mapping[str, str]:
        found = self._namespaces.get("", namespace)
        return found.metadata.labels if found is not None else {}


def _many_terms(pod: PodInfo) -> bool:
    return pod.has_affinity and pod.affinity_terms > FEW_TERMS


def _enter(counts: Counter[Domain], numbers: Mapping[str, int], labels: Mapping[str, str], times: int = 1) -> None:
    """Add numbers by topology key to the domains of a node with these labels."""
    for key, number in numbers.items():
        if key in labels:
            counts[key, labels[key]] += number * times


def _domains(keys: Iterable[str], labels: Mapping[str, str]) -> list[Domain]:
    return [(key, labels[key]) for key in keys if key in labels]


def _node_keys(state: CycleState) -> frozenset[str]:
    """Return the keys of labels that some node has; the same object as long as the keys do not change."""
    known: frozenset[str] | None = state.data.get(_NODE_KEYS)
    if known is None:
        found = frozenset(key for node in state.snapshot.nodes for key in node.node.metadata.labels)
        followed = state.snapshot.incremental
        last = followed.get(_NODE_KEYS)
        known = followed[_NODE_KEYS] = last if last == found else found
        state.data[_NODE_KEYS] = known
    return known
