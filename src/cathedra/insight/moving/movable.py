"""Units of pods and claims that can be moved, and the reasons why others stay where they are.

Pods that share a claim move together. So do those of a group whose disruption mode is All, of all groups below a
CompositePodGroup with that mode, and of a group that is bound to one domain of nodes. The pods of other gangs move one
by one, but none of them is left without a node unless all of the gang are: the rest would wait for it.

A unit stays if a pod of it has a higher priority than the pod that needs the room, if a disruption budget does not
allow its eviction, or if its eviction would not free a device: pods of daemon sets come back to the same node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Container, Pod, PodResourceClaim, PodSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.policy_v1 import PodDisruptionBudget
from cathedra.api.resource import ResourceClaim
from cathedra.api.selectors import from_label_selector
from cathedra.api.struct import replace
from cathedra.insight.explanation.gangs import StateGroups, group_of
from cathedra.insight.moving.domains import GangDomains
from cathedra.insight.reading.state import ClusterState
from cathedra.semantics.owners import controller_of
from cathedra.semantics.podclaims import pod_group_name
from cathedra.semantics.podgroups import Group, GroupKey, group_key, highest, is_disrupted_whole
from cathedra.semantics.pods import is_terminal

ORPHAN: Final = "cathedra.dev/orphaned-claim"
"""Annotation of pods that stand for an allocated claim without a consumer."""
_MIRROR: Final = "kubernetes.io/config.mirror"
_FORBIDDING: Final[Mapping[str, str]] = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""Annotations with which owners forbid evictions."""


class Unit(msgspec.Struct, frozen=True):
    """Pods and claims that are moved together."""

    key: str
    """The smallest UID of its pods."""
    pods: tuple[Pod, ...]
    claims: tuple[ResourceClaim, ...]
    """The allocated claims of the pods."""
    priority: int
    bare: bool
    """True if no controller creates one of the pods again."""
    seconds: float
    """Sum of the times for which the pods have run, as far as it is known: work that may be lost."""

    @property
    def size(self) -> int:
        """The number of claims; 1 for pods without claims."""
        return max(1, len(self.claims))

    @property
    def name(self) -> str:
        """«namespace/name» of the first pod, or of the claim if it has no consumer."""
        return _name(self.pods[0])

    @property
    def is_gang(self) -> bool:
        """True if it has several pods, all of pod groups."""
        return len(self.pods) > 1 and all(pod_group_name(pod) for pod in self.pods)

    @property
    def is_orphan(self) -> bool:
        """True if it is a claim that no pod uses."""
        return ORPHAN in self.pods[0].metadata.annotations


class Staying(msgspec.Struct, frozen=True, rename="camel"):
    """Pods that are not moved."""

    pods: tuple[str, ...]
    why: str


class Movables(msgspec.Struct, frozen=True):
    """Units of a state that can be moved, and pods that cannot."""

    state: ClusterState
    """The state with a pod for each allocated claim without a consumer."""
    units: tuple[Unit, ...]
    wholes: tuple[Unit, ...]
    """The units if all gangs are whole, for plans that leave pods without a node."""
    staying: tuple[Staying, ...]
    budgets: Mapping[str, int]
    """Name of a disruption budget → the evictions that it allows."""
    covered: Mapping[str, tuple[str, ...]]
    """UID of a pod → the budgets that cover it."""

    def allows(self, units: Iterable[Unit]) -> bool:
        """Return True if no disruption budget is exceeded when all these units are evicted."""
        counts: dict[str, int] = {}
        for unit in units:
            for pod in unit.pods:
                for name in self.covered.get(pod.metadata.uid, ()):
                    counts[name] = counts.get(name, 0) + 1
        return all(count <= self.budgets[name] for name, count in counts.items())


def movables(state: ClusterState, priority: int, subjects: Iterable[str]) -> Movables:
    """Return the units that may be moved for pods of a ``priority``; ``subjects`` are the UIDs of these pods."""
    state = state.including(_stand_ins(state))
    budgets, covered = _budgets(state)
    domains = GangDomains(state)

    def moves_whole(group: Group) -> bool:
        return is_disrupted_whole(group) or domains.is_constrained(group)

    found = _Units(state, priority, frozenset(subjects), budgets, covered)
    units, staying = found.joined(moves_whole)
    wholes, _ = found.joined(lambda group: moves_whole(group) or group.spec.scheduling_policy.gang is not None)
    if [len(unit.pods) for unit in wholes] == [len(unit.pods) for unit in units]:
        # Without such gangs both phases of a search share what is known of the units.
        wholes = units
    listed = tuple(Staying(tuple(names), why) for why, names in staying.items())
    return Movables(state, units, wholes, listed, budgets, covered)


class _Units(msgspec.Struct, frozen=True):
    """Input for the units of a state."""

    state: ClusterState
    priority: int
    own: frozenset[str]
    """UIDs of the pods that need the room."""
    budgets: Mapping[str, int]
    covered: Mapping[str, tuple[str, ...]]

    def joined(self, together: Callable[[Group], bool]) -> tuple[tuple[Unit, ...], dict[str, list[str]]]:
        """Return the units that may be moved, if the pods of groups are one where ``together`` is true; and the reasons
        why pods stay, with their names."""
        units: list[Unit] = []
        staying: dict[str, list[str]] = {}
        for members, claims in _components(self.state, together):
            if any(pod.metadata.uid in self.own for pod in members):
                continue
            why = _obstacle(members, claims, self.priority) or self._exhausted(members)
            if why:
                staying.setdefault(why, []).extend(map(_name, members))
            else:
                units.append(_unit(members, claims, self.state.now))
        return tuple(units), staying

    def _exhausted(self, pods: Iterable[Pod]) -> str:
        """Return the reason why disruption budgets keep the pods; "" if they do not."""
        names = (name for pod in pods for name in self.covered.get(pod.metadata.uid, ()) if not self.budgets[name])
        return next((f"PodDisruptionBudget {name} allows no eviction" for name in names), "")


def _unit(pods: Sequence[Pod], claims: Iterable[ResourceClaim], now: float | None) -> Unit:
    return Unit(
        min(pod.metadata.uid for pod in pods),
        tuple(pods),
        tuple(claims),
        max((pod.spec.priority or 0 for pod in pods), default=0),
        any(controller_of(pod) is None and ORPHAN not in pod.metadata.annotations for pod in pods),
        sum(_age(pod, now) for pod in pods),
    )


def lifted(units: Iterable[Unit], state: ClusterState) -> ClusterState:
    """Return the state with the pods of ``units`` waiting, and their claims without devices."""
    changed: list[Pod | ResourceClaim] = []
    gone: list[ResourceClaim] = []
    for unit in units:
        for one in unit.pods:
            pod = state.get(Pod, one.metadata.name, one.metadata.namespace) or one
            status = replace(pod.status, extended_resource_claim_status=None, nominated_node_name="")
            changed.append(replace(pod, spec=replace(pod.spec, node_name=""), status=status))
        special = {
            one.status.extended_resource_claim_status.resource_claim_name
            for one in unit.pods
            if one.status.extended_resource_claim_status is not None
        }
        for claim in unit.claims:
            # The scheduler creates the claim for extended resources anew.
            if claim.metadata.name in special:
                gone.append(claim)
            else:
                changed.append(replace(claim, status=replace(claim.status, allocation=None, reserved_for=())))
    return state.without(gone).including(changed)


def _name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _age(pod: Pod, now: float | None) -> float:
    start = pod.status.start_time or pod.metadata.creation_timestamp
    return max(now - start.timestamp, 0.0) if start is not None and now is not None else 0.0


def _stand_ins(state: ClusterState) -> Iterator[Pod]:
    """Yield a pod without a node for each allocated claim that has no consumer."""
    for claim in state.all(ResourceClaim):
        if claim.status.allocation is None or claim.status.reserved_for:
            continue
        metadata = claim.metadata
        yield Pod(
            metadata=ObjectMeta(
                name=metadata.name,
                namespace=metadata.namespace,
                uid=f"orphan-{metadata.uid}",
                annotations={ORPHAN: metadata.name},
            ),
            spec=PodSpec(
                containers=(Container(name="none"),),
                resource_claims=(PodResourceClaim(name="claim", resource_claim_name=metadata.name),),
            ),
        )


def _components(
    state: ClusterState, together: Callable[[Group], bool]
) -> Iterator[tuple[list[Pod], list[ResourceClaim]]]:
    """Yield the pods that are connected by shared claims or by a group, with their allocated claims."""
    pods = {
        pod.metadata.uid: pod
        for pod in state.pods
        if (pod.spec.node_name or ORPHAN in pod.metadata.annotations) and not is_terminal(pod)
    }
    sets = _DisjointSets(pods)
    claims: dict[str, list[ResourceClaim]] = {}
    for claim in state.all(ResourceClaim):
        if claim.status.allocation is None:
            continue
        users = [one.uid for one in claim.status.reserved_for if one.uid in pods]
        users = users or [uid for uid in (f"orphan-{claim.metadata.uid}",) if uid in pods]
        if users:
            sets.join(users)
            claims.setdefault(users[0], []).append(claim)
    gangs: dict[GroupKey, list[str]] = {}
    groups = StateGroups(state)
    for uid, pod in pods.items():
        group = highest(group_of(pod, state), groups, together)
        if group is not None:
            gangs.setdefault(group_key(group), []).append(uid)
    for uids in gangs.values():
        sets.join(uids)
    found: dict[str, tuple[list[Pod], list[ResourceClaim]]] = {}
    for uid, pod in pods.items():
        members, held = found.setdefault(sets.root(uid), ([], []))
        members.append(pod)
        held.extend(claims.get(uid, ()))
    yield from found.values()


class _DisjointSets:
    """Disjoint sets of UIDs, each named by one of its elements, its root."""

    def __init__(self, uids: Iterable[str]) -> None:
        self._parent = {uid: uid for uid in uids}

    def root(self, uid: str) -> str:
        """Return the root of the set of an element."""
        parent = self._parent
        while parent[uid] != uid:
            parent[uid] = uid = parent[parent[uid]]
        return uid

    def join(self, uids: Sequence[str]) -> None:
        """Unite the sets of elements."""
        for uid in uids[1:]:
            self._parent[self.root(uid)] = self.root(uids[0])


def _obstacle(pods: Sequence[Pod], claims: Iterable[ResourceClaim], priority: int) -> str:
    """Return the reason why pods cannot be moved; "" if there is none."""
    known = {pod.metadata.uid for pod in pods}
    for claim in claims:
        for consumer in claim.status.reserved_for:
            if consumer.resource not in ("pods", "podgroups"):
                return f"a claim is reserved for {consumer.resource}/{consumer.name}"
            if consumer.resource == "pods" and consumer.uid not in known:
                return f"a claim is reserved for a pod that was not read ({consumer.name})"
    for pod in pods:
        owner = controller_of(pod)
        if owner is not None and owner.kind == "DaemonSet":
            return "a pod of a DaemonSet comes back to its node"
        if _MIRROR in pod.metadata.annotations or (owner is not None and owner.kind == "Node"):
            return "a static pod cannot be evicted"
        if pod.metadata.deletion_timestamp is not None:
            return "the pod is being deleted already"
        if (pod.spec.priority or 0) > priority:
            return "its priority is higher"
        for key, value in _FORBIDDING.items():
            if pod.metadata.annotations.get(key) == value:
                return f"its annotation {key} forbids evictions"
    return ""


def _budgets(state: ClusterState) -> tuple[dict[str, int], dict[str, tuple[str, ...]]]:
    """Return the evictions that each disruption budget allows, and the budgets that cover each pod."""
    allowed: dict[str, int] = {}
    covered: dict[str, tuple[str, ...]] = {}
    by_namespace: dict[str, list[Pod]] = {}
    for pod in state.pods:
        by_namespace.setdefault(pod.metadata.namespace, []).append(pod)
    for budget in state.all(PodDisruptionBudget):
        if budget.spec.selector is None:
            continue
        name = f"{budget.metadata.namespace}/{budget.metadata.name}"
        allowed[name] = max(budget.status.disruptions_allowed, 0)
        selector = from_label_selector(budget.spec.selector)
        for pod in by_namespace.get(budget.metadata.namespace, ()):
            if selector.matches(pod.metadata.labels):
                covered[pod.metadata.uid] = (*covered.get(pod.metadata.uid, ()), name)
    return allowed, covered
