"""JointPlacement: all pods of a gang are placed together, and near each other. A plugin of Cathedra, off by default.

It is enabled in a profile of the configuration. Annotations of a PodGroup or CompositePodGroup name what its pods must
have, or should have, in common: a label of their nodes, or an attribute of the devices there, as a rack or an NVLink
domain. Each set of nodes with one value is tried, as Kubernetes does with topology constraints.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import ResourceSlice
from cathedra.client.store import Store
from cathedra.scheduler.framework.plugin import Plugin
from cathedra.scheduler.state.snapshot import Snapshot
from cathedra.semantics.groupdomains import (
    PREFER_ATTRIBUTE,
    PREFER_LABEL,
    SAME_ATTRIBUTE,
    SAME_LABEL,
    domains_by_attribute,
    domains_by_label,
)

Group = PodGroup | CompositePodGroup
Sets = list[frozenset[str]]


class Placements(msgspec.Struct, frozen=True):
    """Sets of nodes that are tried for a group."""

    sets: Sets
    others: bool = False
    """True if all nodes are tried if no set will do."""


class JointPlacement(Plugin):
    """Supplies the bound of the joint search, and the sets of nodes of groups with annotations."""

    name = "JointPlacement"

    def __init__(self, slices: Store[ResourceSlice], most_trials: int) -> None:
        self._slices = slices
        self.most_trials = most_trials

    def without_search(self) -> JointPlacement:
        """Return the plugin without the search, for trials of a preemption, which are many."""
        return JointPlacement(self._slices, 0)

    def has_common_devices(self) -> bool:
        """Return True if some devices can be used on several nodes."""
        return any(piece.spec.devices and not piece.spec.node_name for piece in self._slices.list())

    def placements(
        self, group: Group, snapshot: Snapshot, within: frozenset[str] | None, placed: Collection[str]
    ) -> Placements | None:
        """Return the sets of nodes of a group; None if it has no annotation of the plugin."""
        notes = group.metadata.annotations
        required = list(self._sets(notes, SAME_LABEL, SAME_ATTRIBUTE, snapshot))
        preferred = list(self._sets(notes, PREFER_LABEL, PREFER_ATTRIBUTE, snapshot))
        if not required and not preferred:
            return None
        every = frozenset(info.name for info in snapshot.nodes) if within is None else within
        must = _combined([[every], *required])
        if not preferred:
            return Placements([one for one in must if one.issuperset(placed)])
        wished = [one for one in _combined([must, *preferred]) if one.issuperset(placed)]
        if not required:
            return Placements(wished, others=True)
        # The sets of what is required come last: they are tried if none of those that are preferred will do.
        return Placements([*wished, *(one for one in must if one.issuperset(placed))])

    def _sets(self, notes: dict[str, str], label: str, attribute: str, snapshot: Snapshot) -> Iterator[Sets]:
        nodes = [info.node for info in snapshot.nodes]
        if key := notes.get(label):
            yield domains_by_label(key, nodes)
        if name := notes.get(attribute):
            yield domains_by_attribute(name, self._slices.list(), nodes)


def _combined(parts: list[Sets]) -> Sets:
    """Return the intersections of one set of each part that are not empty, in their order."""
    sets = parts[0]
    for part in parts[1:]:
        sets = [common for one in sets for other in part if (common := one & other)]
    return sets
