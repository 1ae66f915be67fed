"""Domains of gangs: nodes that a pod may use, given the nodes of the other pods of its groups.

A topology constraint of a group, or an annotation for JointPlacement, has all its pods on nodes with one value of a
label or of a device attribute. The search for moves places pods one after the other; the first one chooses the domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import ResourceSlice
from cathedra.insight.explanation.gangs import StateGroups, group_of
from cathedra.insight.reading.state import ClusterState
from cathedra.semantics.groupdomains import SAME_ATTRIBUTE, SAME_LABEL, Domains, domains_by_attribute, domains_by_label
from cathedra.semantics.podclaims import pod_group_name
from cathedra.semantics.podgroups import Group, GroupKey, ancestry, group_key, topology_key
from cathedra.semantics.pods import is_terminal


class _Rule(msgspec.Struct, frozen=True, eq=False):
    """One constraint of a group."""

    group: GroupKey
    domain_of: Mapping[str, int]
    """Node → the number of its domain; the group cannot use other nodes."""


class GangDomains:
    """The constraints of all groups of a state."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._topology = state.gates.gang_scheduling and state.gates.get("TopologyAwareWorkloadScheduling", False)
        self._groups = StateGroups(state)
        self._rules: dict[GroupKey, tuple[_Rule, ...]] = {}
        self._members: dict[GroupKey, list[Pod]] = {}
        for pod in state.pods:
            if not is_terminal(pod):
                for group in self._groups_of(pod):
                    self._members.setdefault(group_key(group), []).append(pod)

    def constrains(self, pod: Pod) -> bool:
        """Return True if a group of the pod has a constraint."""
        return any(True for _ in self._rules_of(pod))

    def allow(self, pod: Pod, node: str, state: ClusterState) -> bool:
        """Return True if the pod may use ``node`` beside the pods of its groups that have a node in ``state``."""
        for rule in self._rules_of(pod):
            domain = rule.domain_of.get(node)
            if domain is None:
                return False
            for other in self._members[rule.group]:
                now = None if other.metadata.uid == pod.metadata.uid else _current(other, state)
                if now is not None and now.spec.node_name and rule.domain_of.get(now.spec.node_name) != domain:
                    return False
        return True

    def _rules_of(self, pod: Pod) -> Iterator[_Rule]:
        if not pod_group_name(pod):
            return
        for group in self._groups_of(pod):
            key = group_key(group)
            if key not in self._rules:
                self._rules[key] = tuple(_Rule(key, _numbered(one)) for one in self._domains(group))
            yield from self._rules[key]

    def _groups_of(self, pod: Pod) -> Iterator[Group]:
        """Yield the group of the pod and those above it."""
        yield from ancestry(group_of(pod, self._state), self._groups)

    def is_constrained(self, group: Group) -> bool:
        """Return True if the group itself has a constraint, whether nodes have the label or not."""
        notes = group.metadata.annotations
        return bool((self._topology and topology_key(group)) or notes.get(SAME_LABEL) or notes.get(SAME_ATTRIBUTE))

    def _domains(self, group: Group) -> Iterator[Domains]:
        nodes, notes = self._state.nodes, group.metadata.annotations
        keys = {topology_key(group) if self._topology else "", notes.get(SAME_LABEL, "")} - {""}
        yield from (domains_by_label(key, nodes) for key in sorted(keys))
        if name := notes.get(SAME_ATTRIBUTE):
            yield domains_by_attribute(name, self._state.all(ResourceSlice), nodes)


def _numbered(domains: Iterable[frozenset[str]]) -> dict[str, int]:
    return {name: number for number, names in enumerate(domains) for name in names}


def _current(pod: Pod, state: ClusterState) -> Pod | None:
    return state.get(Pod, pod.metadata.name, pod.metadata.namespace)
