"""Domains of gangs: nodes and devices that a pod may use, given those of the other pods of its groups.

A topology constraint of a group, or an annotation for JointPlacement, has all its pods on nodes with one value of a
label or of a device attribute. The search for moves places pods one after the other; the first one chooses the domain.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import (
    AllocationResult,
    Device,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSlice,
)
from cathedra.insight.explanation.gangs import StateGroups, group_of
from cathedra.insight.reading.state import ClusterState
from cathedra.semantics.groupdomains import SAME_ATTRIBUTE, SAME_LABEL, Domain, DomainRules, Members, combined
from cathedra.semantics.podclaims import claim_names
from cathedra.semantics.podgroups import Group, GroupKey, ancestry, group_key, topology_key
from cathedra.semantics.pods import is_terminal


class GangDomains:
    """The constraints of all groups of a state."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._topology = state.gates.gang_scheduling and state.gates.get("TopologyAwareWorkloadScheduling", False)
        self._groups = StateGroups(state)
        self._every = Domain(frozenset(node.metadata.name for node in state.nodes))
        self._rules = DomainRules(state.nodes, state.all(ResourceSlice), _allocation_of, self._device_of)
        self._members: dict[GroupKey, list[Pod]] = {}
        for pod in state.pods:
            if not is_terminal(pod):
                for group in self._groups_of(pod):
                    self._members.setdefault(group_key(group), []).append(pod)

    def constrains(self, pod: Pod) -> bool:
        """Return True if a group of the pod has a constraint."""
        return any(map(self.is_constrained, self._groups_of(pod)))

    def of(self, pod: Pod, state: ClusterState) -> list[Domain]:
        """Return the domains that the pod may use beside the pods of its groups that have a node in ``state``."""
        parts = [[self._every]]
        for group in filter(self.is_constrained, self._groups_of(pod)):
            parts += self._parts(group, self._bound(pod, group, state))
        return combined(parts)

    def is_constrained(self, group: Group) -> bool:
        """Return True if the group itself has a constraint, whether nodes have the label or not."""
        notes = group.metadata.annotations
        return bool((self._topology and topology_key(group)) or notes.get(SAME_LABEL) or notes.get(SAME_ATTRIBUTE))

    def _groups_of(self, pod: Pod) -> Iterator[Group]:
        """Yield the group of the pod and those above it."""
        yield from ancestry(group_of(pod, self._state), self._groups)

    def _parts(self, group: Group, members: Members) -> Iterator[list[Domain]]:
        if self._topology and (key := topology_key(group)):
            yield self._rules.labelled(key, members)
        yield from self._rules.required(group.metadata.annotations, members)

    def _bound(self, pod: Pod, group: Group, state: ClusterState) -> Members:
        """Return the nodes of the other pods of a group, and the claims of all its pods."""
        now = [state.get(Pod, one.metadata.name, one.metadata.namespace) for one in self._members[group_key(group)]]
        pods = [one for one in now if one is not None]
        nodes = [one.spec.node_name for one in pods if one.metadata.uid != pod.metadata.uid and one.spec.node_name]
        claims = [state.get(ResourceClaim, name, one.metadata.namespace) for one in pods for name in claim_names(one)]
        return Members(tuple(nodes), tuple([one for one in claims if one is not None]))

    @cached_property
    def _devices(self) -> dict[tuple[str, str, str], Device]:
        return {
            (piece.spec.driver, piece.spec.pool.name, device.name): device
            for piece in self._state.all(ResourceSlice)
            for device in piece.spec.devices or ()
        }

    def _device_of(self, result: DeviceRequestAllocationResult) -> Device | None:
        return self._devices.get((result.driver, result.pool, result.device))


def _allocation_of(claim: ResourceClaim) -> AllocationResult | None:
    return claim.status.allocation
