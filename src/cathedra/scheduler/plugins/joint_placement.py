"""JointPlacement: all pods of a gang are placed together, and near each other. A plugin of Cathedra, off by default.

It is enabled in a profile of the configuration. Annotations of a PodGroup or CompositePodGroup name what its pods must
have, or should have, in common: a label of their nodes, or an attribute of the devices there, as a rack or an NVLink
domain. Each set of nodes with one value is tried, as Kubernetes does with topology constraints.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

import msgspec

from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import ResourceSlice
from cathedra.api.selectors import node_selector_matches
from cathedra.api.struct import encode
from cathedra.client.store import Store
from cathedra.remembering import IDENTITY, remembered
from cathedra.scheduler.framework.plugin import Plugin
from cathedra.scheduler.state.snapshot import Snapshot

SAME_LABEL: Final = "scheduling.cathedra.dev/same-node-label"
SAME_ATTRIBUTE: Final = "scheduling.cathedra.dev/same-device-attribute"
PREFER_LABEL: Final = "scheduling.cathedra.dev/prefer-same-node-label"
PREFER_ATTRIBUTE: Final = "scheduling.cathedra.dev/prefer-same-device-attribute"

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
        if key := notes.get(label):
            values: dict[str, set[str]] = {}
            for info in snapshot.nodes:
                if (value := info.node.metadata.labels.get(key)) is not None:
                    values.setdefault(value, set()).add(info.name)
            yield [frozenset(names) for names in values.values()]
        if name := notes.get(attribute):
            yield self._by_attribute(name, snapshot)

    def _by_attribute(self, name: str, snapshot: Snapshot) -> Sets:
        """Return the sets of nodes whose devices have one value of an attribute; nodes with several are in none."""
        by_value: dict[bytes, set[str]] = {}
        for node, values in domains_of_nodes(self._slices.list(), name, snapshot).items():
            if len(values) == 1:
                by_value.setdefault(next(iter(values)), set()).add(node)
        return [frozenset(names) for names in by_value.values()]


def domains_of_nodes(pieces: Iterable[ResourceSlice], name: str, snapshot: Snapshot) -> dict[str, set[bytes]]:
    """Return the values of an attribute among the devices of each node, encoded; nodes without one are left out."""
    found: dict[str, set[bytes]] = {}
    for piece in pieces:
        values = _values(piece, name)
        if values:
            for node in _nodes_of(piece, snapshot):
                found.setdefault(node, set()).update(values)
    return found


@remembered("values of an attribute in slices", key=IDENTITY, size=8192)
def _values(piece: ResourceSlice, name: str) -> frozenset[bytes]:
    driver, _, identifier = name.rpartition("/")
    return frozenset(
        encode(value)
        for device in piece.spec.devices or ()
        for key, value in device.attributes.items()
        # An attribute without a domain belongs to the driver of the slice.
        if key == name or (key == identifier and piece.spec.driver == driver)
    )


def _nodes_of(piece: ResourceSlice, snapshot: Snapshot) -> Iterator[str]:
    if piece.spec.node_name:
        yield piece.spec.node_name
        return
    for info in snapshot.nodes:
        selector = piece.spec.node_selector
        if piece.spec.all_nodes or (selector is not None and node_selector_matches(selector, info.node)):
            yield info.name


def _combined(parts: list[Sets]) -> Sets:
    """Return the intersections of one set of each part that are not empty, in their order."""
    sets = parts[0]
    for part in parts[1:]:
        sets = [common for one in sets for other in part if (common := one & other)]
    return sets
