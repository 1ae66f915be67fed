"""Domains of pod groups: sets of nodes of which a group uses one, by a label of nodes or an attribute of their devices.

Annotations of a PodGroup or CompositePodGroup name what its pods must have, or should have, in common, as a rack or an
NVLink domain. They are Cathedra's own; the scheduler's plugin JointPlacement acts on them, and plans of moves respect
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from cathedra.api.core.core_v1 import Node
from cathedra.api.resource import ResourceSlice
from cathedra.api.selectors import node_selector_matches
from cathedra.api.struct import encode
from cathedra.remembering import IDENTITY, remembered

SAME_LABEL: Final = "scheduling.cathedra.dev/same-node-label"
SAME_ATTRIBUTE: Final = "scheduling.cathedra.dev/same-device-attribute"
PREFER_LABEL: Final = "scheduling.cathedra.dev/prefer-same-node-label"
PREFER_ATTRIBUTE: Final = "scheduling.cathedra.dev/prefer-same-device-attribute"

Domains = list[frozenset[str]]
"""Sets of names of nodes."""


def domains_by_label(key: str, nodes: Iterable[Node]) -> Domains:
    """Return the sets of nodes with one value of a label; nodes without it are in none."""
    values: dict[str, set[str]] = {}
    for node in nodes:
        if (value := node.metadata.labels.get(key)) is not None:
            values.setdefault(value, set()).add(node.metadata.name)
    return [frozenset(names) for names in values.values()]


def domains_by_attribute(name: str, slices: Iterable[ResourceSlice], nodes: Sequence[Node]) -> Domains:
    """Return the sets of nodes whose devices have one value of an attribute; nodes with several are in none."""
    by_value: dict[bytes, set[str]] = {}
    for node, values in values_by_node(name, slices, nodes).items():
        if len(values) == 1:
            by_value.setdefault(next(iter(values)), set()).add(node)
    return [frozenset(names) for names in by_value.values()]


def values_by_node(name: str, slices: Iterable[ResourceSlice], nodes: Sequence[Node]) -> dict[str, set[bytes]]:
    """Return the values of an attribute among the devices of each node, encoded; nodes without one are left out."""
    found: dict[str, set[bytes]] = {}
    for piece in slices:
        values = _values(piece, name)
        if values:
            for node in _nodes_of(piece, nodes):
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


def _nodes_of(piece: ResourceSlice, nodes: Iterable[Node]) -> Iterator[str]:
    if piece.spec.node_name:
        yield piece.spec.node_name
        return
    for node in nodes:
        selector = piece.spec.node_selector
        if piece.spec.all_nodes or (selector is not None and node_selector_matches(selector, node)):
            yield node.metadata.name
