"""GangScheduling: all pods of a gang get nodes, or none does (docs/spec/scheduling.md §14).

They enter the queue when there are enough of them, and are bound when enough of them could have a node. With groups of
groups the whole hierarchy decides: its pods enter the queue when enough groups below its root have enough pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.goquote import go_quote
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import COMPOSITEPODGROUPS, PODGROUPS, PODS
from cathedra.client.store import Store
from cathedra.releases import FeatureGates
from cathedra.scheduler.framework.events import Action, ClusterEvent, EventRegistration, EventResource
from cathedra.scheduler.framework.plugin import PermitPlugin, PreEnqueuePlugin
from cathedra.scheduler.framework.status import Code, Status, unresolvable, unschedulable
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.semantics.podclaims import BY_GROUP, by_group, pod_group_name, same_group
from cathedra.semantics.podgroups import (
    GroupKey,
    GroupNode,
    InvalidHierarchy,
    disrupted_as_one,
    least_count,
    parent_name,
    root_of,
    tree_of,
)
from cathedra.semantics.podgroups import group_key as key_of
from cathedra.semantics.pods import is_terminal

_BY_PARENT = "cathedra.scheduler/parent-group"
_TOO_FEW = "waiting for minCount pods from a gang to appear in scheduling queue"


class StoredGroups:
    """The groups and their pods, as informers have them. Without ``composites`` no group has a parent."""

    def __init__(
        self,
        groups: Store[PodGroup],
        composites: Store[CompositePodGroup] | None,
        pods: Store[Pod],
        gates: FeatureGates,
    ) -> None:
        self._gates = gates
        self._groups = groups
        self._composites = composites
        self._pods = pods
        pods.add_index(BY_GROUP, by_group, same_group)
        if composites is not None:
            groups.add_index(_BY_PARENT, _parents)
            composites.add_index(_BY_PARENT, _parents)

    @classmethod
    def of(cls, informers: SharedInformers, gates: FeatureGates) -> StoredGroups:
        """Return the groups that ``informers`` follow, with those above them where the gate CompositePodGroup is on."""
        composites = informers.of(COMPOSITEPODGROUPS).store if gates.get("CompositePodGroup", False) else None
        return cls(informers.of(PODGROUPS).store, composites, informers.of(PODS).store, gates)

    def pod_group(self, namespace: str, name: str) -> PodGroup | None:
        """Return the PodGroup of that name."""
        return self._groups.get(namespace, name)

    def composite(self, namespace: str, name: str) -> CompositePodGroup | None:
        """Return the CompositePodGroup of that name."""
        return self._composites.get(namespace, name) if self._composites is not None else None

    def children(self, namespace: str, name: str) -> Iterable[PodGroup | CompositePodGroup]:
        """Return the groups that name the CompositePodGroup as their parent."""
        if self._composites is None:
            return ()
        key = f"{namespace}/{name}"
        return chain(self._composites.by_index(_BY_PARENT, key), self._groups.by_index(_BY_PARENT, key))

    def pods(self, namespace: str, name: str) -> Iterable[Pod]:
        """Return the pods of a PodGroup that have not ended."""
        return (pod for pod in self._pods.by_index(BY_GROUP, f"{namespace}/{name}") if not is_terminal(pod))

    def has_parent(self, group: PodGroup) -> bool:
        """Return True if the group belongs to a hierarchy."""
        return self._composites is not None and bool(parent_name(group))

    def tree_at(self, group: PodGroup | CompositePodGroup) -> GroupNode | None:
        """Return the whole hierarchy that the group belongs to; None while its root does not exist.

        Raises:
            InvalidHierarchy: it cannot be scheduled.
        """
        if not isinstance(group, CompositePodGroup) and not self.has_parent(group):
            return GroupNode(group)
        root = root_of(group, self)
        return tree_of(root, self, self._gates) if root is not None else None

    def disrupted_as_one(self, pod: Pod) -> PodGroup | CompositePodGroup | None:
        """Return the highest group of the pod whose pods can only be disrupted together; None if there is none."""
        group = self.pod_group(pod.metadata.namespace, pod_group_name(pod))
        return disrupted_as_one(group, self)

    def pods_below(self, group: PodGroup | CompositePodGroup) -> Iterator[Pod]:
        """Yield the pods of a group and of all groups below it that have not ended."""
        namespace, waiting = group.metadata.namespace, [group]
        # Parents that form a cycle must not keep this from ending.
        seen: set[GroupKey] = set()
        while waiting:
            one = waiting.pop()
            if (key := key_of(one)) in seen:
                continue
            seen.add(key)
            if isinstance(one, CompositePodGroup):
                waiting += self.children(namespace, one.metadata.name)
            else:
                yield from self.pods(namespace, one.metadata.name)

    def is_ready(self, node: GroupNode) -> bool:
        """Return True if the group has enough pods, or enough groups that are ready."""
        least = least_count(node.group)
        if node.is_composite:
            return sum(map(self.is_ready, node.children)) >= least
        key = node.key
        # Counting ends at the minimum: a group may have thousands of pods, and this runs once for each of them.
        return sum(1 for _ in islice(self.pods(key.namespace, key.name), least)) >= least


class GangScheduling(PreEnqueuePlugin, PermitPlugin):
    """Keeps a gang together: neither tried before its smallest number of pods exists, nor bound before they fit."""

    name = "GangScheduling"

    def __init__(self, groups: StoredGroups, has_place: Callable[[str], bool]) -> None:
        """``has_place`` returns True for the UID of a pod that has a node, or is assumed on one."""
        self._has_place = has_place
        self._groups = groups

    def events(self) -> Sequence[EventRegistration]:
        """Another pod of the hierarchy, and its groups."""
        return (
            EventRegistration(EventResource.UNSCHEDULED_POD, Action.ADD, self._is_sibling),
            EventRegistration(EventResource.POD_GROUP, Action.ADD, self._is_group),
            EventRegistration(EventResource.POD_GROUP, Action.UPDATE, self._needs_fewer),
            EventRegistration(EventResource.COMPOSITE_POD_GROUP, Action.ADD, self._is_group),
            EventRegistration(EventResource.COMPOSITE_POD_GROUP, Action.UPDATE, self._needs_fewer),
        )

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Refuse a pod whose gang is not complete yet."""
        name = pod_group_name(pod.pod)
        if not name:
            return None
        group = self._groups.pod_group(pod.namespace, name)
        if group is None:
            return unresolvable(f'waiting for pods\'s pod group "{name}" to appear in scheduling queue')
        if not self._groups.has_parent(group):
            if group.spec.scheduling_policy.gang is None or self._groups.is_ready(GroupNode(group)):
                return None
            return unresolvable(_TOO_FEW)
        root = parent_name(group)
        try:
            tree = self._groups.tree_at(group)
        except InvalidHierarchy:
            # The condition of the groups names the fault.
            tree = None
        if tree is not None and self._groups.is_ready(tree):
            return None
        if tree is not None:
            root = tree.key.name
        return unresolvable(f"waiting for composite pod group {go_quote(root)} tree to meet quorum")

    def permit(self, pod: PodInfo) -> Status | None:
        """Waits until the smallest number of the gang's pods have nodes."""
        group = self._groups.pod_group(pod.namespace, pod_group_name(pod.pod))
        gang = group.spec.scheduling_policy.gang if group is not None else None
        if gang is None or group is None:
            return None
        members = self._groups.pods(pod.namespace, group.metadata.name)
        if sum(self._has_place(member.metadata.uid) for member in members) >= gang.min_count:
            return None
        return Status(Code.WAIT, ("waiting for minCount pods from a gang to be scheduled",))

    def _is_sibling(self, pod: Pod, change: ClusterEvent) -> bool:
        mine, other = pod_group_name(pod), pod_group_name(change.new)
        if not mine or not other or pod.metadata.namespace != change.new.metadata.namespace:
            return False
        return mine == other or self._is_related(pod, GroupKey("PodGroup", pod.metadata.namespace, other))

    def _is_group(self, pod: Pod, change: ClusterEvent) -> bool:
        key = key_of(change.new)
        mine = GroupKey("PodGroup", pod.metadata.namespace, pod_group_name(pod))
        return key == mine or self._is_related(pod, key)

    def _needs_fewer(self, pod: Pod, change: ClusterEvent) -> bool:
        return least_count(change.new) < least_count(change.old) and self._is_group(pod, change)

    def _is_related(self, pod: Pod, other: GroupKey) -> bool:
        """Return True if a group is in the hierarchy of the pod's group."""
        namespace, name = pod.metadata.namespace, pod_group_name(pod)
        group = self._groups.pod_group(namespace, name)
        if group is None or other.namespace != namespace or not self._groups.has_parent(group):
            return False
        try:
            tree = self._groups.tree_at(group)
        except InvalidHierarchy:
            return False
        return tree is not None and any(node.key == other for node in tree.nodes())


def placement_feasible(node: GroupNode, scheduled: int, remaining: int) -> Status | None:
    """Decide from 1.37 on whether enough children of a group have nodes: None if so, Wait if the rest may suffice."""
    least = least_count(node.group)
    numbers = f"{scheduled} scheduled, {remaining} remaining"
    if scheduled + remaining < least:
        return unschedulable(f"minCount ({least}) cannot be satisfied: {numbers}")
    if scheduled < least:
        return Status(Code.WAIT, (f"minCount ({least}) is not yet satisfied: {numbers}",))
    return None


def group_key(pod: Pod) -> str:
    """``namespace/name`` of the pod's group, which it must have."""
    return f"{pod.metadata.namespace}/{pod_group_name(pod)}"


def _parents(group: PodGroup | CompositePodGroup) -> Iterable[str]:
    parent = parent_name(group)
    return (f"{group.metadata.namespace}/{parent}",) if parent else ()
