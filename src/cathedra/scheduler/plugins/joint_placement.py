"""JointPlacement: all pods of a gang are placed together, and near each other. A plugin of Cathedra, off by default.

It is enabled in a profile of the configuration. Annotations of a PodGroup or CompositePodGroup name what its pods must
have, or should have, in common: a label of their nodes, or an attribute of their devices, as a rack or an NVLink
domain. Each domain, a set of nodes and the values that devices must have there, is tried as Kubernetes does with
topology constraints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import AllocationResult, ResourceClaim, ResourceSlice
from cathedra.client.store import Store
from cathedra.scheduler.framework.plugin import Plugin
from cathedra.scheduler.state.snapshot import Snapshot
from cathedra.semantics.groupdomains import (
    DOMAIN_ANNOTATIONS,
    PREFER_ATTRIBUTE,
    PREFER_LABEL,
    SAME_ATTRIBUTE,
    SAME_LABEL,
    AttributeValue,
    attribute_of,
    domains_by_attribute,
    domains_by_label,
    domains_by_value,
    single_values,
    takes_all,
)
from cathedra.semantics.preferredconstraints import FindDevice

Group = PodGroup | CompositePodGroup


class Domain(msgspec.Struct, frozen=True):
    """Nodes, and values of attributes that devices must have there."""

    nodes: frozenset[str]
    values: tuple[AttributeValue, ...] = ()

    def within(self, other: Domain | None) -> Domain:
        """Return the part of the domain that is in another one too."""
        if other is None:
            return self
        values = dict.fromkeys((*other.values, *self.values))
        return Domain(self.nodes & other.nodes, tuple(values))


class Members(msgspec.Struct, frozen=True):
    """Pods of a group, as far as they bind it to a domain."""

    nodes: tuple[str, ...] = ()
    """Nodes of its pods that have one."""
    claims: tuple[ResourceClaim, ...] = ()
    """Claims of all its pods."""


class Placements(msgspec.Struct, frozen=True):
    """Domains that are tried for a group."""

    domains: list[Domain]
    others: bool = False
    """True if all nodes are tried if no domain will do."""


class JointPlacement(Plugin):
    """Supplies the bound of the joint search, and the sets of nodes of groups with annotations."""

    name = "JointPlacement"

    def __init__(
        self,
        slices: Store[ResourceSlice],
        allocation_of: Callable[[ResourceClaim], AllocationResult | None],
        device_of: FindDevice,
        most_trials: int,
    ) -> None:
        """``allocation_of`` returns what is stored or decided for a claim."""
        self._slices, self._allocation_of, self._device_of = slices, allocation_of, device_of
        self.most_trials = most_trials

    def without_search(self) -> JointPlacement:
        """Return the plugin without the search, for trials of a preemption, which are many."""
        return JointPlacement(self._slices, self._allocation_of, self._device_of, 0)

    def has_common_devices(self) -> bool:
        """Return True if some devices can be used on several nodes."""
        return any(piece.spec.devices and not piece.spec.node_name for piece in self._slices.list())

    def placements(
        self, group: Group, snapshot: Snapshot, within: Domain | None, members: Callable[[], Members]
    ) -> Placements | None:
        """Return the domains of a group; None if it has no annotation of the plugin."""
        notes = group.metadata.annotations
        # Fast path: nearly no group has an annotation, and to resolve the claims of all its pods takes long.
        if DOMAIN_ANNOTATIONS.isdisjoint(notes):
            return None
        there = members()
        required = list(self._parts(notes, SAME_LABEL, SAME_ATTRIBUTE, snapshot, there))
        preferred = list(self._parts(notes, PREFER_LABEL, PREFER_ATTRIBUTE, snapshot, there))
        if not required and not preferred:
            return None
        every = Domain(frozenset(info.name for info in snapshot.nodes)) if within is None else within
        must = _combined([[every], *required])
        if not preferred:
            return Placements(must)
        wished = _combined([must, *preferred])
        if not required:
            return Placements(wished, others=True)
        # The domains of what is required come last: they are tried if none of those that are preferred will do.
        return Placements([*wished, *must])

    def _parts(
        self, notes: Mapping[str, str], label: str, attribute: str, snapshot: Snapshot, members: Members
    ) -> Iterator[list[Domain]]:
        """Yield the domains by a label and by an attribute, as far as the pods that have nodes or devices are there."""
        nodes = [info.node for info in snapshot.nodes]
        if key := notes.get(label):
            yield [Domain(names) for names in domains_by_label(key, nodes) if names.issuperset(members.nodes)]
        if name := notes.get(attribute):
            slices = self._slices.list()
            # A request for all devices of a node takes those of every value, so it needs a node with a single one.
            single = frozenset[str]().union(*domains_by_attribute(name, slices, nodes))
            alone = takes_all(members.claims)
            found = [
                Domain(names & single if alone else names, (value,))
                for value, names in domains_by_value(name, slices, nodes)
                if all(self._has(value, claim) for claim in members.claims)
            ]
            yield [one for one in found if one.nodes.issuperset(members.nodes)]

    def _has(self, value: AttributeValue, claim: ResourceClaim) -> bool:
        """Return True if a claim has no devices of another value."""
        allocation = self._allocation_of(claim)
        for result in allocation.devices.results if allocation is not None else ():
            device = self._device_of(result) if result.driver in value.drivers else None
            found = attribute_of(device, result.driver, value.name) if device is not None else None
            if device is not None and value.value not in single_values(found):
                return False
        return True


def _combined(parts: list[list[Domain]]) -> list[Domain]:
    """Return the intersections of one domain of each part that have nodes, in their order."""
    found = parts[0]
    for part in parts[1:]:
        found = [common for one in found for other in part if (common := other.within(one)).nodes]
    return found
