"""JointPlacement: all pods of a gang are placed together, and near each other. A plugin of Cathedra, off by default.

It is enabled in a profile of the configuration. Annotations of a PodGroup or CompositePodGroup name what its pods must
have, or should have, in common: a label of their nodes or an attribute of their devices, such as a rack or an NVLink
domain. A domain is a set of nodes and the values that devices must have there. Domains are tried as by Kubernetes for
topology constraints.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import ResourceSlice
from cathedra.client.store import Store
from cathedra.scheduler.framework.plugin import Plugin
from cathedra.scheduler.state.snapshot import Snapshot
from cathedra.semantics.groupdomains import (
    DOMAIN_ANNOTATIONS,
    Domain,
    DomainRules,
    FindAllocation,
    FindDevice,
    Members,
    combined,
)

Group = PodGroup | CompositePodGroup


class Placements(msgspec.Struct, frozen=True):
    """Domains that are tried for a group."""

    domains: list[Domain]
    others: bool = False
    """True if all nodes are tried after every domain has failed."""


class JointPlacement(Plugin):
    """Supplies the bound of the joint search, and the sets of nodes of groups with annotations."""

    name = "JointPlacement"

    def __init__(
        self,
        slices: Store[ResourceSlice],
        allocation_of: FindAllocation,
        device_of: FindDevice,
        most_trials: int,
    ) -> None:
        """``most_trials``: the bound on the trials of a joint search."""
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
        there, nodes = members(), [info.node for info in snapshot.nodes]
        rules = DomainRules(nodes, self._slices.list(), self._allocation_of, self._device_of)
        required = list(rules.required(notes, there))
        preferred = list(rules.preferred(notes, there))
        if not required and not preferred:
            return None
        every = Domain(frozenset(info.name for info in snapshot.nodes)) if within is None else within
        must = combined([[every], *required])
        if not preferred:
            return Placements(must)
        wished = combined([must, *preferred])
        if not required:
            return Placements(wished, others=True)
        # Required domains come last: they are tried if every preferred domain fails.
        return Placements([*wished, *must])
