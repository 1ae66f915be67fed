"""Gangs as a whole: their waiting pods are placed one after the other, each on the state that the ones before it left.

A pod of a gang that fits alone may still wait, and a change that helps it alone may not be enough for its siblings.
Nodes are taken in the order of the scheduler's search; scores, which decide between several, are not computed. A
hierarchy of groups is walked as the scheduler does it, topology constraints and annotations for JointPlacement
included.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

import msgspec

from cathedra.allocation import AllocationError
from cathedra.api.core.core_v1 import Pod, PodExtendedResourceClaimStatus
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import (
    AllocationResult,
    Device,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceSlice,
)
from cathedra.api.struct import replace
from cathedra.insight.explanation.question import with_claims
from cathedra.insight.explanation.report import Remedy
from cathedra.insight.reading.state import ClusterState
from cathedra.scheduler.judging import ClaimCycle, Filters
from cathedra.semantics.groupdomains import (
    SAME_ATTRIBUTE,
    SAME_LABEL,
    AttributeValue,
    Domain,
    DomainRules,
    Members,
    combined,
)
from cathedra.semantics.owners import controller_reference
from cathedra.semantics.podclaims import claim_names, pod_group_name
from cathedra.semantics.podgroups import (
    Group,
    GroupNode,
    InvalidHierarchy,
    least_count,
    parent_name,
    root_of,
    topology_key,
    tree_of,
)
from cathedra.semantics.pods import is_terminal

_MOST: Final = 20_000
"""Largest number of pods times nodes that is tried: each pod is filtered on a state of its own."""
_MOST_FOLLOWED: Final = 1000
"""The same in a cluster that is followed, where changes wait for the answer. Four pods on 5,000 nodes take 8 s, and
several times as long with the trials of remedies."""


# Placement of one pod in a state, with its claims allocated: the step of which gangs and moves are made.
#
# The scheduler's filters and the allocator decide, as in an explanation. Nothing is written to a cluster: the result is
# another state.

Within = frozenset[str] | None
"""Names of the nodes that are tried; None for all."""


class PodTrial(msgspec.Struct, frozen=True):
    """The nodes that a pod fits on in a state."""

    pod: Pod
    state: ClusterState
    """The state with the claims of the pod's templates."""
    nodes: tuple[str, ...] = ()
    cycle: ClaimCycle | None = None

    def placed_on(self, node: str) -> ClusterState | None:
        """Return the state with the pod on one of `nodes`; None if its claims cannot be allocated there after all."""
        placement = self.placement(node)
        return None if placement is None else self.state.including(placement)

    def placement(self, node: str) -> tuple[Pod | ResourceClaim, ...] | None:
        """Return the pod on one of `nodes` and its claims with their devices; None if they cannot be allocated."""
        claims: list[ResourceClaim] = []
        pod = self.pod
        consumer = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
        if self.cycle is not None:
            try:
                decision = self.cycle.decision(node)
            except AllocationError:
                return None
            unallocated = self.cycle.unallocated
            allocations = decision[0] if decision is not None else ()
            decided = dict(zip((one.metadata.uid for one in unallocated), allocations, strict=False))
            for claim in self.cycle.claims:
                allocation = decided.get(claim.metadata.uid, claim.status.allocation)
                reserved = tuple(one for one in claim.status.reserved_for if one.uid != consumer.uid)
                status = replace(claim.status, allocation=allocation, reserved_for=(*reserved, consumer))
                claims.append(replace(claim, status=status))
            # The scheduler creates the claim for extended resources when it binds the pod.
            for allocation in allocations[len(unallocated) :]:
                special = _special(pod, allocation, consumer)
                claims.append(special)
                named = PodExtendedResourceClaimStatus(resource_claim_name=special.metadata.name)
                pod = replace(pod, status=replace(pod.status, extended_resource_claim_status=named))
        return (replace(pod, spec=replace(pod.spec, node_name=node)), *claims)


def tried(pod: Pod, state: ClusterState, within: Within = None, values: tuple[AttributeValue, ...] = ()) -> PodTrial:
    """Return the nodes that a pod fits on, with devices that have ``values``; none if its claims cannot be made."""
    subject = with_claims(pod, state)
    if subject.faults:
        return PodTrial(subject.pod, subject.state)
    judgement = Filters.over(subject.state).judge(subject.pod, only=within, values=values)
    return PodTrial(subject.pod, subject.state, judgement.fitting, judgement.cycle)


def _special(pod: Pod, allocation: AllocationResult, consumer: ResourceClaimConsumerReference) -> ResourceClaim:
    name = f"{pod.metadata.name}-extended-resources"
    metadata = ObjectMeta(
        name=name,
        namespace=pod.metadata.namespace,
        uid=f"ResourceClaim/{pod.metadata.namespace}/{name}",
        owner_references=(controller_reference(pod),),
    )
    return ResourceClaim(metadata=metadata, status=ResourceClaimStatus(allocation=allocation, reserved_for=(consumer,)))


class GangFit(msgspec.Struct, frozen=True):
    """Result of placing the waiting pods of a gang together."""

    name: str
    """«PodGroup NAME» or «CompositePodGroup NAME» that is scheduled as one."""
    fits: bool
    least: int
    """Number of pods of the pod's group that must have nodes."""
    placed: int
    """Number of its pods that have nodes, or got one here."""
    obstacle: Pod | None = None
    """The first pod that found no node."""
    state: ClusterState | None = None
    """The state in which it found none."""
    within: Within = None
    """The nodes that it could use, if a topology constraint limits them."""
    nodes: frozenset[str] = frozenset()
    """The nodes that the waiting pods got here."""


class StateGroups:
    """The groups of a state."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._composites = state.gates.get("CompositePodGroup", False)

    def pod_group(self, namespace: str, name: str) -> PodGroup | None:
        return self._state.get(PodGroup, name, namespace)

    def composite(self, namespace: str, name: str) -> CompositePodGroup | None:
        return self._state.get(CompositePodGroup, name, namespace) if self._composites else None

    def children(self, namespace: str, name: str) -> Iterable[PodGroup | CompositePodGroup]:
        if self._composites:
            groups: list[PodGroup | CompositePodGroup] = [*self._state.all(CompositePodGroup)]
            groups += self._state.all(PodGroup)
            yield from (one for one in groups if (one.metadata.namespace, parent_name(one)) == (namespace, name))


class GroupConstraints:
    """The constraints of groups on nodes and devices: by topology, and by annotations for JointPlacement."""

    def __init__(self, state: ClusterState) -> None:
        self._topology = state.gates.gang_scheduling and state.gates.get("TopologyAwareWorkloadScheduling", False)
        self._slices = state.all(ResourceSlice)
        self._rules = DomainRules(state.nodes, self._slices, _allocation_of, self._device_of)

    def is_constrained(self, group: Group) -> bool:
        """Return True if the group itself has a constraint, whether nodes have the label or not."""
        notes = group.metadata.annotations
        return bool((self._topology and topology_key(group)) or notes.get(SAME_LABEL) or notes.get(SAME_ATTRIBUTE))

    def parts(self, group: Group, pods: Iterable[Pod], state: ClusterState, uid: str = "") -> Iterator[list[Domain]]:
        """Yield the domains for each constraint of a group, given the nodes and devices of its pods in ``state``.

        The node of the pod with ``uid`` is not counted.
        """
        if not self.is_constrained(group):
            return
        now = [found for one in pods if (found := _current(one, state)) is not None]
        nodes = [one.spec.node_name for one in now if one.spec.node_name and one.metadata.uid != uid]
        claims = [state.get(ResourceClaim, name, one.metadata.namespace) for one in now for name in claim_names(one)]
        members = Members(tuple(nodes), tuple([claim for claim in claims if claim is not None]))
        if self._topology and (key := topology_key(group)):
            yield self._rules.labelled(key, members)
        yield from self._rules.required(group.metadata.annotations, members)

    @cached_property
    def _devices(self) -> dict[tuple[str, str, str], Device]:
        return {
            (piece.spec.driver, piece.spec.pool.name, device.name): device
            for piece in self._slices
            for device in piece.spec.devices or ()
        }

    def _device_of(self, result: DeviceRequestAllocationResult) -> Device | None:
        return self._devices.get((result.driver, result.pool, result.device))


def _allocation_of(claim: ResourceClaim) -> AllocationResult | None:
    return claim.status.allocation


def gang_text(gang: GangFit | None) -> str:
    """Return how many pods of a gang that does not fit do fit together; "" for any other."""
    if gang is None or gang.fits:
        return ""
    if gang.placed >= gang.least:
        return f"its own group would fit, but not enough groups of {gang.name}"
    obstacle = gang.obstacle.metadata.name if gang.obstacle is not None else ""
    first = f", {obstacle} finds no node" if obstacle else ""
    return f"{gang.placed} of {gang.least} pods fit together{first}"


def helps_gang(pod: Pod, state: ClusterState, remedy: Remedy) -> bool:
    """Return True if all that is scheduled together with the pod fits after a change, or if that cannot be tried."""
    if group_of(pod, state) is None:
        return True
    after = state.without(remedy.removed).including(remedy.set)
    changed = {one.metadata.name for one in remedy.set if isinstance(one, ResourceClaimTemplate)}
    namespace = pod.metadata.namespace
    # A changed template helps pods whose claims are made anew; for the question all waiting pods of the group are.
    renewed = [
        _without_claims(one, changed)
        for one in after.all(Pod)
        if changed and one.metadata.namespace == namespace and pod_group_name(one) and not one.spec.node_name
    ]
    found = gang_fit(pod, after.including(renewed))
    if found is not None:
        return found.fits
    # A gang that was complete and no longer is, because the change ends one of its own pods, is not helped.
    return gang_fit(pod, state) is None


def _without_claims(pod: Pod, templates: Collection[str]) -> Pod:
    entries = {one.name for one in pod.spec.resource_claims if one.resource_claim_template_name in templates}
    statuses = tuple(one for one in pod.status.resource_claim_statuses if one.name not in entries)
    return replace(pod, status=replace(pod.status, resource_claim_statuses=statuses))


def group_of(pod: Pod, state: ClusterState) -> PodGroup | None:
    """Return the pod's group, if the cluster schedules by groups."""
    name = pod_group_name(pod)
    return state.get(PodGroup, name, pod.metadata.namespace) if name and state.gates.gang_scheduling else None


def gang_fit(pod: Pod, state: ClusterState) -> GangFit | None:
    """Place the waiting pods of the pod's gang together.

    None if it has no gang, if pods or groups of it are missing, or if it is too large to be tried.
    """
    group, tree = group_of(pod, state), _tree_of(pod, state)
    if group is None or tree is None:
        return None
    waiting = [one for leaf in tree.leaves() for one in _members(leaf, state) if not one.spec.node_name]
    if len(waiting) * len(state.nodes) > (_MOST if state.followed is None else _MOST_FOLLOWED):
        return None
    trial = _Placing(GroupConstraints(state))
    fits, after = trial.group(tree, state, None)
    leaf = next(node for node in tree.leaves() if node.group is group or node.key.name == group.metadata.name)
    if _is_short(leaf, state):
        return None
    placed = sum(bool(one.spec.node_name) for one in _members(leaf, after))
    return GangFit(
        f"{tree.key.kind} {tree.key.name}",
        fits,
        least_count(group),
        max(placed, trial.most.get(group.metadata.name, 0)),
        trial.obstacle,
        trial.state,
        trial.within,
        frozenset(now.spec.node_name for one in waiting if (now := _current(one, after)) is not None) - {""},
    )


def waiting_gang(pod: Pod, state: ClusterState) -> Sequence[Pod]:
    """Return the pods without a node that are scheduled together with a pod: those of its gang, and of all gangs of
    its hierarchy. The pod alone if it has none."""
    tree = _tree_of(pod, state)
    if tree is None:
        return (pod,)
    return [one for leaf in tree.leaves() for one in _members(leaf, state) if not one.spec.node_name]


def _tree_of(pod: Pod, state: ClusterState) -> GroupNode | None:
    """Return what is scheduled as one with the pod; None if it has no gang, or a hierarchy that is never scheduled."""
    group = group_of(pod, state)
    if group is None:
        return None
    groups = StateGroups(state)
    is_nested = bool(parent_name(group)) and state.gates.get("CompositePodGroup", False)
    if group.spec.scheduling_policy.gang is None and not is_nested:
        return None
    try:
        root = root_of(group, groups) if is_nested else group
        return tree_of(root, groups, state.gates) if root is not None else None
    except InvalidHierarchy:
        return None


def _current(pod: Pod, state: ClusterState) -> Pod | None:
    return state.get(Pod, pod.metadata.name, pod.metadata.namespace)


def _is_short(leaf: GroupNode, state: ClusterState) -> bool:
    """Return True if the group has fewer pods than it needs, so that none of them enters the queue."""
    return len(_members(leaf, state)) < least_count(leaf.group)


def _members(leaf: GroupNode, state: ClusterState) -> Sequence[Pod]:
    namespace, name = leaf.key.namespace, leaf.key.name
    return [
        pod
        for pod in state.all(Pod)
        if pod.metadata.namespace == namespace and pod_group_name(pod) == name and not is_terminal(pod)
    ]


class _Placing:
    """Places a hierarchy, and remembers the first pod that found no node."""

    def __init__(self, constraints: GroupConstraints) -> None:
        self._constraints = constraints
        self._values: tuple[AttributeValue, ...] = ()
        """Values that devices must have in the domain that is being tried."""
        self.obstacle: Pod | None = None
        self.state: ClusterState | None = None
        self.within: Within = None
        self.most: dict[str, int] = {}
        """Name of a group → the largest number of its pods that had nodes at once."""

    def group(self, node: GroupNode, state: ClusterState, within: Within) -> tuple[bool, ClusterState]:
        """Return whether the group fits, and the state with its pods placed; the same state if it does not."""
        outside = self._values
        for names, values in self._domains(node, state, within):
            self._values = (*outside, *values)
            fits, after = self._children(node, state, names)
            self._values = outside
            if fits:
                return True, after
        return False, state

    def _domains(
        self, node: GroupNode, state: ClusterState, within: Within
    ) -> Iterator[tuple[Within, tuple[AttributeValue, ...]]]:
        """Yield the domains of a group that are in ``within``."""
        pods = [pod for leaf in node.leaves() for pod in _members(leaf, state)]
        parts = list(self._constraints.parts(node.group, pods, state))
        if not parts:
            yield within, ()
            return
        every = frozenset(one.metadata.name for one in state.nodes) if within is None else within
        yield from ((one.nodes, one.values) for one in combined([[Domain(every)], *parts]))

    def _children(self, node: GroupNode, state: ClusterState, within: Within) -> tuple[bool, ClusterState]:
        if not node.is_composite:
            return self._pods(node, state, within)
        fitting, after = 0, state
        for child in node.children:
            fits, after = self.group(child, after, within)
            fitting += fits
        return fitting >= least_count(node.group), after

    def _pods(self, leaf: GroupNode, state: ClusterState, within: Within) -> tuple[bool, ClusterState]:
        members = _members(leaf, state)
        placed, after = sum(bool(one.spec.node_name) for one in members), state
        for pod in members:
            if pod.spec.node_name:
                continue
            bound = _bound(pod, after, within, self._values)
            if bound is not None:
                placed, after = placed + 1, bound
            elif self.obstacle is None:
                self.obstacle, self.state, self.within = pod, after, within
        self.most[leaf.key.name] = max(placed, self.most.get(leaf.key.name, 0))
        return placed >= least_count(leaf.group), after


def _bound(pod: Pod, state: ClusterState, within: Within, values: tuple[AttributeValue, ...]) -> ClusterState | None:
    """Return the state with the pod on the first node that it fits on, and its claims allocated there."""
    trial = tried(pod, state, within, values)
    return trial.placed_on(trial.nodes[0]) if trial.nodes else None
