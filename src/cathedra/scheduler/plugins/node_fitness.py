"""Plugins on the node alone: its name, whether it is schedulable, its taints and its labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from cathedra.api.core.core_v1 import Node, NodeSelector, NodeSelectorTerm, Pod, PreferredSchedulingTerm, Taint
from cathedra.api.core.core_v1 import NodeAffinity as NodeAffinityRules
from cathedra.api.selectors import node_selector_matches
from cathedra.scheduler.framework.attempt import Attempt
from cathedra.scheduler.framework.events import Action, ClusterEvent, EventRegistration, EventResource
from cathedra.scheduler.framework.plugin import (
    CycleState,
    FilterPlugin,
    Narrowed,
    NodePredicate,
    PreFilterPlugin,
    ScorePlugin,
    normalized,
)
from cathedra.scheduler.framework.status import Code, Status, unresolvable
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import Snapshot
from cathedra.semantics.tolerations import first_untolerated, is_tolerated

FEW_TERMS: Final = 64
"""Number of terms up to which all nodes are matched at once."""
_UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_SKIP = Status(Code.SKIP)
_UNCORDONED = NodePredicate(lambda node: not node.unschedulable)
_UNTAINTED = NodePredicate(lambda node: not node.hard_taints)
_WITHOUT_SOFT_TAINTS = NodePredicate(lambda node: not node.soft_taints)


class NodeName(PreFilterPlugin, FilterPlugin):
    """A pod that names its node goes there or nowhere."""

    name = "NodeName"

    def events(self) -> Sequence[EventRegistration]:
        """Return the event that may help: a node is added, perhaps of that name."""
        return (EventRegistration(EventResource.NODE, Action.ADD),)

    def skips(self, pod: PodInfo) -> bool:
        """Nothing to do for pods that name none."""
        return not pod.pod.spec.node_name

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | None:
        """Return Skip for pods that name no node; for the others the filter does all."""
        return _SKIP if self.skips(pod) else None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refuse the node unless it has the name that the pod requests."""
        if pod.pod.spec.node_name == node.name:
            return None
        return unresolvable("node(s) didn't match the requested node name")


class NodeUnschedulable(FilterPlugin):
    """Cordoned nodes take only pods that tolerate it."""

    name = "NodeUnschedulable"
    _refusal = unresolvable("node(s) were unschedulable")

    def events(self) -> Sequence[EventRegistration]:
        """Return the events that may help: a node appears or is uncordoned, or the pod's tolerations change."""
        return (
            EventRegistration(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, self._takes_pods),
            EventRegistration(EventResource.TARGET_POD, Action.UPDATE_POD_TOLERATION),
        )

    def predicate(self, pod: PodInfo) -> NodePredicate:
        """Return the predicate that lets all nodes pass that are not cordoned."""
        return _UNCORDONED

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refuses a cordoned node."""
        if not node.unschedulable or is_tolerated(_UNSCHEDULABLE_TAINT, pod.pod.spec.tolerations):
            return None
        return self._refusal

    @staticmethod
    def _takes_pods(pod: Pod, change: ClusterEvent) -> bool:
        # Without this hint any change of taints on a node that stays cordoned would wake all pods that it refused.
        return not change.new.spec.unschedulable or is_tolerated(_UNSCHEDULABLE_TAINT, pod.spec.tolerations)


class TaintToleration(FilterPlugin, ScorePlugin):
    """Every NoSchedule and NoExecute taint of the node must be tolerated; PreferNoSchedule counts against it."""

    name = "TaintToleration"
    weight = 3
    zero_where = _WITHOUT_SOFT_TAINTS
    _refusal = unresolvable("node(s) had untolerated taint(s)")

    def events(self) -> Sequence[EventRegistration]:
        """Nodes with other taints, or the pod's own tolerations."""
        return (
            EventRegistration(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, self._tolerable),
            EventRegistration(EventResource.TARGET_POD, Action.UPDATE_POD_TOLERATION),
        )

    def predicate(self, pod: PodInfo) -> NodePredicate:
        """Return the predicate that lets all nodes pass that have no NoSchedule or NoExecute taints."""
        return _UNTAINTED

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refuses at the first taint that the pod does not tolerate."""
        if first_untolerated(node.hard_taints, pod.pod.spec.tolerations) is None:
            return None
        return self._refusal

    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        """Fewer taints that the pod would rather avoid are better."""
        # None stands for zeros. Normalizing equal counts would add 100 to every node and change no order.
        if state.snapshot.all_are(_WITHOUT_SOFT_TAINTS.of, (), nodes):
            return None
        tolerations = [t for t in pod.pod.spec.tolerations if t.effect in ("", "PreferNoSchedule")]
        counts = [sum(not is_tolerated(taint, tolerations) for taint in node.soft_taints) for node in nodes]
        return normalized(counts, reverse=True)

    @staticmethod
    def _tolerable(pod: Pod, change: ClusterEvent) -> bool:
        return first_untolerated(change.new.spec.taints, pod.spec.tolerations) is None


class NodeAffinity(PreFilterPlugin, FilterPlugin, ScorePlugin):
    """The pod's nodeSelector and its node affinity, required and preferred, and what the profile adds to them."""

    name = "NodeAffinity"
    weight = 2
    _refusal = unresolvable("node(s) didn't match Pod's node affinity/selector")
    _enforced = unresolvable("node(s) didn't match scheduler-enforced node affinity")

    def __init__(self, added: NodeAffinityRules | None = None) -> None:
        """``added``: of the profile, for all its pods."""
        self._added = added or NodeAffinityRules()
        self._added_selector = self._added.required_during_scheduling_ignored_during_execution

    def events(self) -> Sequence[EventRegistration]:
        """Nodes that appear or change labels so that they match."""
        actions = Action.ADD | Action.UPDATE_NODE_LABEL
        return (EventRegistration(EventResource.NODE, actions, lambda pod, change: self._matches(pod, change.new)),)

    def skips(self, pod: PodInfo) -> bool:
        """Nothing to do where neither the pod nor the profile requires anything."""
        if pod.pod.spec.node_selector or self._added_selector is not None:
            return False
        return required_node_affinity(pod.pod) is None

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | Narrowed | None:
        """Terms that name nodes narrow the search to them."""
        required = required_node_affinity(pod.pod)
        if required is None:
            return _SKIP if self.skips(pod) else None
        names: set[str] = set()
        for term in required.node_selector_terms:
            named = _named_nodes(term)
            # Terms are alternatives. One without a name can match any node, so the search cannot be narrowed.
            if named is None:
                return None
            names |= named
        return Narrowed(frozenset(names)) if required.node_selector_terms else None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refuses nodes that do not match."""
        if self._added_selector is not None and not node_selector_matches(self._added_selector, node.node):
            return self._enforced
        return None if node_affinity_in_turns(state.attempt, pod.pod, node) else self._refusal

    def scores_zero(self, pod: PodInfo) -> bool:
        """Neither the pod nor the profile prefers anything."""
        return not self._preferred(pod)

    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        """Return the sums of the weights of the preferred terms that match, normalized; None if the pod has no such
        terms."""
        terms = self._preferred(pod)
        if not terms:
            return None
        # Made once per pod and not once per node: selectors are compared with every node.
        selectors = [(t.weight, NodeSelector(node_selector_terms=(t.preference,))) for t in terms if t.weight]

        def total(node: Node) -> int:
            return sum(weight for weight, selector in selectors if node_selector_matches(selector, node))

        if state.attempt is None or len(selectors) <= FEW_TERMS:
            return normalized([total(node.node) for node in nodes])
        memo = state.attempt.memo("NodeAffinity")
        return normalized(
            [memo.get(("score", n.name), (n.node,), state.attempt, partial(total, n.node)) for n in nodes]
        )

    def _preferred(self, pod: PodInfo) -> Sequence[PreferredSchedulingTerm]:
        added, affinity = self._added.preferred_during_scheduling_ignored_during_execution, pod.pod.spec.affinity
        if affinity is None or affinity.node_affinity is None:
            return added
        return (*added, *affinity.node_affinity.preferred_during_scheduling_ignored_during_execution)

    def _matches(self, pod: Pod, node: Node) -> bool:
        added = self._added_selector
        return matches_node_affinity(pod, node) and (added is None or node_selector_matches(added, node))


def matches_node_affinity(pod: Pod, node: Node) -> bool:
    """Return True if ``node`` has the labels of the pod's nodeSelector and matches its required node affinity."""
    return meets_node_affinity(pod.spec.node_selector.items(), required_node_affinity(pod), node)


def meets_node_affinity(wanted: Iterable[tuple[str, str]], required: NodeSelector | None, node: Node) -> bool:
    """Return True if ``node`` has the labels ``wanted`` and matches ``required``."""
    labels = node.metadata.labels
    for key, value in wanted:
        if labels.get(key) != value:
            return False
    return required is None or node_selector_matches(required, node)


def has_many_terms(pod: Pod) -> bool:
    """Return True if the pod's required node affinity is to be tested in turns."""
    required = required_node_affinity(pod)
    return required is not None and len(required.node_selector_terms) > FEW_TERMS


def node_affinity_in_turns(attempt: Attempt | None, pod: Pod, node: NodeInfo) -> bool:
    """As `matches_node_affinity`. With many terms each node is a piece of work, between which a turn may end.

    Raises:
        TimeSliceOver: the turn of ``attempt`` is over.
    """
    if attempt is None or not has_many_terms(pod):
        return matches_node_affinity(pod, node.node)
    work = partial(matches_node_affinity, pod, node.node)
    matches: bool = attempt.memo("NodeAffinity").get(("filter", node.name), (node.node,), attempt, work)
    return matches


def required_node_affinity(pod: Pod) -> NodeSelector | None:
    """Return the terms of the pod's required node affinity, if it has some."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    return affinity.node_affinity.required_during_scheduling_ignored_during_execution


def _named_nodes(term: NodeSelectorTerm) -> set[str] | None:
    """Return the names of the only nodes that a term can match; None if it names none."""
    names: set[str] | None = None
    for requirement in term.match_fields:
        if requirement.key == "metadata.name" and requirement.operator == "In":
            # Requirements of one term must all hold, hence the intersection.
            names = set(requirement.values) if names is None else names & set(requirement.values)
    return names
