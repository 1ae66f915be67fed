"""Hierarchies of pod groups: a PodGroup has pods, a CompositePodGroup has groups (KEP-6012).

Groups name their parent, so a hierarchy is assembled from its root downwards, and only from there is it scheduled. The
API server cannot check references between objects; what it lets pass is found out here: cycles, more than four levels,
and groups of different workloads or priorities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol

import msgspec

from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.goquote import go_quote
from cathedra.releases import FeatureGates, behaviours

MAX_LEVELS: Final = 4
"""Most levels of groups in a hierarchy."""

Group = PodGroup | CompositePodGroup


class InvalidHierarchy(ValueError):
    """Groups refer to each other in a way that cannot be scheduled; the text names it."""


class GroupKey(NamedTuple):
    """Identifies a group of either kind."""

    kind: str
    namespace: str
    name: str


class GroupNode(msgspec.Struct, frozen=True):
    """A group with the groups below it. A PodGroup has none."""

    group: Group
    children: tuple[GroupNode, ...] = ()

    @property
    def key(self) -> GroupKey:
        """Return the key of the group."""
        return group_key(self.group)

    @property
    def is_composite(self) -> bool:
        """Return True if the group has groups instead of pods."""
        return isinstance(self.group, CompositePodGroup)

    def nodes(self) -> Iterator[GroupNode]:
        """Yield the group and all groups below it, parents first."""
        yield self
        for child in self.children:
            yield from child.nodes()

    def leaves(self) -> Iterator[GroupNode]:
        """Yield the groups that have pods, in the order in which they are scheduled."""
        return (node for node in self.nodes() if not node.is_composite)


class GroupLister(Protocol):
    """Access to the groups of a cluster or of a dump."""

    def pod_group(self, namespace: str, name: str) -> PodGroup | None:
        """Return the PodGroup of that name."""

    def composite(self, namespace: str, name: str) -> CompositePodGroup | None:
        """Return the CompositePodGroup of that name."""

    def children(self, namespace: str, name: str) -> Iterable[Group]:
        """Return the groups that name the CompositePodGroup as their parent."""


def group_key(group: Group) -> GroupKey:
    """Return the key of a group."""
    kind = "CompositePodGroup" if isinstance(group, CompositePodGroup) else "PodGroup"
    return GroupKey(kind, group.metadata.namespace, group.metadata.name)


def parent_name(group: Group) -> str:
    """Return the name of the CompositePodGroup above; "" for a root."""
    return group.spec.parent_composite_pod_group_name or ""


def least_count(group: Group) -> int:
    """Return the number of children (pods or groups) without which nothing of the group is scheduled: 1 for Basic."""
    # Not by `PodGroup`: within one process the API server passes its own type of it, which has the same fields.
    if isinstance(group, CompositePodGroup):
        groups = group.spec.scheduling_policy.gang
        return groups.min_group_count if groups is not None else 1
    pods = group.spec.scheduling_policy.gang
    return pods.min_count if pods is not None else 1


def topology_key(group: Group) -> str:
    """Return the node label whose value all pods of the group must share; "" if there is no such constraint."""
    constraints = group.spec.scheduling_constraints
    return constraints.topology[0].key if constraints is not None and constraints.topology else ""


def ancestry(group: Group | None, lister: GroupLister) -> Iterator[Group]:
    """Yield a group and the groups above it that exist, the lowest first."""
    # Parents that form a cycle must not keep this from ending.
    for _ in range(MAX_LEVELS):
        if group is None:
            return
        yield group
        above = parent_name(group)
        group = lister.composite(group.metadata.namespace, above) if above else None


def disrupted_as_one(group: Group | None, lister: GroupLister) -> Group | None:
    """Return the highest group whose pods can only be disrupted together, of a group and those above it; None if there
    is none."""
    return highest(group, lister, is_disrupted_whole)


def highest(group: Group | None, lister: GroupLister, matches: Callable[[Group], bool]) -> Group | None:
    """Return the highest group for which ``matches`` is true, of a group and those above it."""
    found = None
    for one in ancestry(group, lister):
        found = one if matches(one) else found
    return found


def is_disrupted_whole(group: Group) -> bool:
    """Return True if the disruption mode of the group is All: its pods are evicted together or not at all."""
    mode = group.spec.disruption_mode
    return mode is not None and mode.all is not None


def root_of(group: Group, lister: GroupLister) -> Group | None:
    """Return the topmost group above ``group``; None if a parent does not exist yet.

    Raises:
        InvalidHierarchy: the parents form a cycle, or there are too many levels.
    """
    seen = [group_key(group)]
    while parent := parent_name(group):
        above = lister.composite(group.metadata.namespace, parent)
        if above is None:
            return None
        group = above
        if group_key(group) in seen:
            raise InvalidHierarchy(f"the parents of composite pod group {go_quote(parent)} form a cycle")
        seen.append(group_key(group))
        if len(seen) > MAX_LEVELS:
            raise InvalidHierarchy(_too_deep(group))
    return group


def tree_of(root: Group, lister: GroupLister, gates: FeatureGates) -> GroupNode:
    """Return a root with all groups below it, the oldest child of each group first.

    Raises:
        InvalidHierarchy: there are too many levels, groups of several workloads, or groups of several priorities.
    """
    tree = _node(root, lister, 1)
    if gates.has(behaviours.GROUPS_SHARE_PRIORITY):
        _check_priorities(tree)
    references = [node.group.spec.workload_ref for node in tree.nodes()] if tree.children else []
    names = {reference.workload_name: None for reference in references if reference is not None}
    if len(names) > 1:
        quoted = " and ".join(map(go_quote, names))
        raise InvalidHierarchy(f"groups below {go_quote(root.metadata.name)} refer to different Workloads: {quoted}")
    return tree


def _check_priorities(tree: GroupNode) -> None:
    # A hierarchy is scheduled, and evicts others, as one unit: it has one place in the order of priorities.
    wanted = _priority(tree.group)
    for node in tree.nodes():
        if (found := _priority(node.group)) != wanted:
            raise InvalidHierarchy(
                f"{node.key.kind} {go_quote(node.key.name)} has priority {found[0]} and preemptionPolicy {found[1]}, "
                f"and its root {go_quote(tree.key.name)} has {wanted[0]} and {wanted[1]}"
            )


def _priority(group: Group) -> tuple[int, str]:
    return group.spec.priority or 0, group.spec.preemption_policy or "PreemptLowerPriority"


def _node(group: Group, lister: GroupLister, level: int) -> GroupNode:
    if level > MAX_LEVELS:
        raise InvalidHierarchy(_too_deep(group))
    if not isinstance(group, CompositePodGroup):
        return GroupNode(group)
    below = sorted(lister.children(group.metadata.namespace, group.metadata.name), key=_age)
    return GroupNode(group, tuple(_node(child, lister, level + 1) for child in below))


def _too_deep(group: Group) -> str:
    return f"the hierarchy of pod group {go_quote(group.metadata.name)} has more than {MAX_LEVELS} levels"


def _age(group: Group) -> tuple[float, str]:
    created = group.metadata.creation_timestamp
    return (created.timestamp if created is not None else 0.0, group.metadata.name)
