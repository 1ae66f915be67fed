"""InterPodAffinity: pods that want to be, or must not be, in one topology domain with certain others.

Matching pods are counted per (topology key, value) before the nodes are looked at; a node is then judged by its labels
alone (docs/spec/scheduling.md §17).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Namespace
from cathedra.client.store import Store
from cathedra.scheduler.framework.events import Action, EventRegistration, Resource
from cathedra.scheduler.framework.plugin import MAX_SCORE, CycleState, FilterPlugin, PreFilterPlugin, ScorePlugin
from cathedra.scheduler.framework.status import Code, Status, unresolvable, unschedulable
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import AffinityTerm, PodInfo
from cathedra.scheduler.state.snapshot import Snapshot

__all__ = ["InterPodAffinity"]

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

    def events(self) -> Sequence[EventRegistration]:
        """Pods that come, go or change labels, and nodes likewise."""
        return (
            EventRegistration(Resource.ASSIGNED_POD, Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL),
            EventRegistration(Resource.TARGET_POD, Action.UPDATE_POD_LABEL),
            EventRegistration(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
        )

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | None:
        """Counts per domain; nothing to do when no pod says anything about others."""
        nodes = snapshot.nodes
        if not pod.has_affinity or not (pod.required_affinity or pod.required_anti_affinity):
            if not snapshot.with_affinity:
                return _SKIP
            nodes = list(snapshot.nodes_with_affinity())
        counts = _Counts()
        for node in nodes:
            self._count(counts, pod, node)
        state.data[self.name] = counts
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Affinity first, then anti-affinity of the pod, then that of the others."""
        counts: _Counts = state.data[self.name]
        labels = node.node.metadata.labels
        if not self._near_enough(counts, pod, labels):
            return self._no_affinity
        if any(counts.anti[domain] > 0 for domain in _domains(pod.required_anti_affinity, labels)):
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
            looked_at = state.snapshot.nodes_with_affinity()
        weights: Counter[Domain] = Counter()
        for node in looked_at:
            labels = node.node.metadata.labels
            for other in node.pods.values():
                self._weigh(weights, pod, other, labels)
        if not weights:
            return None
        totals = [sum(weights.get(label, 0) for label in node.node.metadata.labels.items()) for node in nodes]
        low, high = min(totals), max(totals)
        if low == high:
            return [0] * len(nodes)
        return [int(MAX_SCORE * (total - low) / (high - low)) for total in totals]

    def _count(self, counts: _Counts, pod: PodInfo, node: NodeInfo) -> None:
        labels = node.node.metadata.labels
        terms, anti_terms = pod.required_affinity, pod.required_anti_affinity
        for other in node.pods.values():
            for term in other.required_anti_affinity:
                if term.topology_key in labels and term.matches(pod.pod, self._labels_of):
                    counts.existing_anti[term.topology_key, labels[term.topology_key]] += 1
            if terms and all(term.matches(other.pod, self._labels_of) for term in terms):
                counts.affinity.update(_domains(terms, labels))
            for term in anti_terms:
                if term.topology_key in labels and term.matches(other.pod, self._labels_of):
                    counts.anti[term.topology_key, labels[term.topology_key]] += 1

    def _near_enough(self, counts: _Counts, pod: PodInfo, labels: Mapping[str, str]) -> bool:
        terms = pod.required_affinity
        if any(term.topology_key not in labels for term in terms):
            return False
        if all(counts.affinity[domain] > 0 for domain in _domains(terms, labels)):
            return True
        # The first pod of a group that wants to be together has no pod to join yet.
        return not counts.affinity.total() and all(term.matches(pod.pod, self._labels_of) for term in terms)

    def _weigh(self, weights: Counter[Domain], pod: PodInfo, other: PodInfo, labels: Mapping[str, str]) -> None:
        for weighted in pod.preferred_terms:
            self._add(weights, weighted.term, weighted.weight, other, labels)
        for weighted in other.preferred_terms:
            self._add(weights, weighted.term, weighted.weight, pod, labels)
        for term in other.required_affinity:
            self._add(weights, term, self._hard_weight, pod, labels)

    def _add(
        self, weights: Counter[Domain], term: AffinityTerm, weight: int, meant: PodInfo, labels: Mapping[str, str]
    ) -> None:
        value = labels.get(term.topology_key)
        if value is not None and weight and term.matches(meant.pod, self._labels_of):
            weights[term.topology_key, value] += weight

    def _labels_of(self, namespace: str) -> Mapping[str, str]:
        found = self._namespaces.get("", namespace)
        return found.metadata.labels if found is not None else {}


def _domains(terms: Iterable[AffinityTerm], labels: Mapping[str, str]) -> list[Domain]:
    return [(term.topology_key, labels[term.topology_key]) for term in terms if term.topology_key in labels]
