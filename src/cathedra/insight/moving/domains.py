"""Domains of gangs: nodes and devices that a pod may use, given those of the other pods of its groups.

A topology constraint of a group, or an annotation for JointPlacement, has all its pods on nodes with one value of a
label or of a device attribute. The search for moves places pods one after the other; the first one chooses the domain.
"""

from __future__ import annotations

from collections.abc import Iterator

from cathedra.api.core.core_v1 import Pod
from cathedra.insight.explanation.gangs import GroupConstraints, StateGroups, group_of
from cathedra.insight.reading.state import ClusterState
from cathedra.semantics.groupdomains import Domain, combined
from cathedra.semantics.podgroups import Group, GroupKey, ancestry, group_key
from cathedra.semantics.pods import is_terminal


class GangDomains:
    """The constraints of all groups of a state."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._groups = StateGroups(state)
        self._constraints = GroupConstraints(state)
        self._every = Domain(frozenset(node.metadata.name for node in state.nodes))
        self._members: dict[GroupKey, list[Pod]] = {}
        for pod in state.pods:
            if not is_terminal(pod):
                for group in self._groups_of(pod):
                    self._members.setdefault(group_key(group), []).append(pod)

    def constrains(self, pod: Pod) -> bool:
        """Return True if a group of the pod has a constraint."""
        return any(map(self.is_constrained, self._groups_of(pod)))

    def is_constrained(self, group: Group) -> bool:
        """Return True if the group itself has a constraint."""
        return self._constraints.is_constrained(group)

    def of(self, pod: Pod, state: ClusterState) -> list[Domain]:
        """Return the domains that the pod may use beside the pods of its groups that have a node in ``state``."""
        parts = [[self._every]]
        for group in self._groups_of(pod):
            members = self._members.get(group_key(group), ())
            parts += self._constraints.parts(group, members, state, pod.metadata.uid)
        return combined(parts)

    def _groups_of(self, pod: Pod) -> Iterator[Group]:
        """Yield the group of the pod and those above it."""
        yield from ancestry(group_of(pod, self._state), self._groups)
