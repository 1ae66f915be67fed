"""Domains of pod groups: sets of nodes of which a group uses one, by a label of nodes or an attribute of their devices.

Annotations of a PodGroup or CompositePodGroup name what its pods must have, or should have, in common, as a rack or an
NVLink domain. They are Cathedra's own; the scheduler's plugin JointPlacement acts on them, and plans of moves respect
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Node
from cathedra.api.resource import (
    CELDeviceSelector,
    Device,
    DeviceAttribute,
    DeviceRequest,
    DeviceSelector,
    ResourceClaim,
    ResourceSlice,
)
from cathedra.api.selectors import node_selector_matches
from cathedra.api.struct import replace
from cathedra.remembering import IDENTITY, remembered

SAME_LABEL: Final = "scheduling.cathedra.dev/same-node-label"
SAME_ATTRIBUTE: Final = "scheduling.cathedra.dev/same-device-attribute"
PREFER_LABEL: Final = "scheduling.cathedra.dev/prefer-same-node-label"
PREFER_ATTRIBUTE: Final = "scheduling.cathedra.dev/prefer-same-device-attribute"
DOMAIN_ANNOTATIONS: Final = frozenset({SAME_LABEL, SAME_ATTRIBUTE, PREFER_LABEL, PREFER_ATTRIBUTE})
"""All of these annotations."""
_ALL: Final = "All"

Domains = list[frozenset[str]]
"""Sets of names of nodes."""


class AttributeValue(msgspec.Struct, frozen=True):
    """A value of an attribute that the devices of a group have in common."""

    name: str
    """Qualified name of the attribute."""
    value: DeviceAttribute
    """A single value. A device whose list contains it has it too."""
    drivers: tuple[str, ...]
    """Drivers that publish the attribute. Devices of all others are not compared."""
    lists: bool = False
    """True if some device has a list of values."""


def domains_by_label(key: str, nodes: Iterable[Node]) -> Domains:
    """Return the sets of nodes with one value of a label; nodes without it are in none."""
    values: dict[str, set[str]] = {}
    for node in nodes:
        if (value := node.metadata.labels.get(key)) is not None:
            values.setdefault(value, set()).add(node.metadata.name)
    return [frozenset(names) for names in values.values()]


def domains_by_attribute(name: str, slices: Iterable[ResourceSlice], nodes: Sequence[Node]) -> Domains:
    """Return the sets of nodes whose devices have one value of an attribute; nodes with several are in none."""
    by_value: dict[DeviceAttribute, set[str]] = {}
    for node, values in values_by_node(name, slices, nodes).items():
        if len(values) == 1:
            by_value.setdefault(next(iter(values)), set()).add(node)
    return [frozenset(names) for names in by_value.values()]


def domains_by_value(
    name: str, slices: Sequence[ResourceSlice], nodes: Sequence[Node]
) -> list[tuple[AttributeValue, frozenset[str]]]:
    """Return each value of an attribute with the nodes that have a device with it. A node may be in several."""
    drivers = tuple(sorted({piece.spec.driver for piece in slices if _values(piece, name)}))
    lists = any(map(_has_lists, slices, repeat(name)))
    by_value: dict[DeviceAttribute, set[str]] = {}
    for node, values in values_by_node(name, slices, nodes).items():
        for value in values:
            by_value.setdefault(value, set()).add(node)
    return [(AttributeValue(name, value, drivers, lists), frozenset(names)) for value, names in by_value.items()]


def values_by_node(
    name: str, slices: Iterable[ResourceSlice], nodes: Sequence[Node]
) -> dict[str, dict[DeviceAttribute, None]]:
    """Return the values of an attribute among the devices of each node, in order; nodes without one are left out."""
    found: dict[str, dict[DeviceAttribute, None]] = {}
    for piece in slices:
        values = _values(piece, name)
        if values:
            for node in _nodes_of(piece, nodes):
                found.setdefault(node, {}).update(values)
    return found


@remembered("values of an attribute in slices", key=IDENTITY, size=8192)
def _values(piece: ResourceSlice, name: str) -> dict[DeviceAttribute, None]:
    # A dict and not a set: the order of the domains decides which of two equal ones is used.
    return {
        value: None
        for device in piece.spec.devices or ()
        for value in single_values(attribute_of(device, piece.spec.driver, name))
    }


@remembered("lists of an attribute in slices", key=IDENTITY, size=8192)
def _has_lists(piece: ResourceSlice, name: str) -> bool:
    return any(
        attribute is not None and next(single_values(attribute), attribute) is not attribute
        for device in piece.spec.devices or ()
        for attribute in (attribute_of(device, piece.spec.driver, name),)
    )


def attribute_of(device: Device, driver: str, name: str) -> DeviceAttribute | None:
    """Return the value of an attribute by its qualified name; None if the device lacks it."""
    found = device.attributes.get(name)
    if found is not None:
        return found
    domain, _, identifier = name.rpartition("/")
    # An attribute without a domain belongs to the driver of the slice.
    return device.attributes.get(identifier) if domain == driver else None


def single_values(attribute: DeviceAttribute | None) -> Iterator[DeviceAttribute]:
    """Yield the values of an attribute: itself, or the elements of its list."""
    if attribute is None:
        return
    lists = (attribute.ints, attribute.bools, attribute.strings, attribute.versions)
    if not any(lists):
        yield attribute
    yield from (DeviceAttribute(int_=one) for one in attribute.ints)
    yield from (DeviceAttribute(bool_=one) for one in attribute.bools)
    yield from (DeviceAttribute(string=one) for one in attribute.strings)
    yield from (DeviceAttribute(version=one) for one in attribute.versions)


def _nodes_of(piece: ResourceSlice, nodes: Iterable[Node]) -> Iterator[str]:
    if piece.spec.node_name:
        yield piece.spec.node_name
        return
    for node in nodes:
        selector = piece.spec.node_selector
        if piece.spec.all_nodes or (selector is not None and node_selector_matches(selector, node)):
            yield node.metadata.name


def with_values(claim: ResourceClaim, values: Sequence[AttributeValue]) -> ResourceClaim:
    """Return a claim that accepts only devices with ``values``, as it is given to the allocator."""
    if not values:
        return claim
    selectors = tuple([DeviceSelector(cel=CELDeviceSelector(expression=_expression(one))) for one in values])
    devices = claim.spec.devices
    requests = tuple([_selecting(request, selectors) for request in devices.requests or ()])
    return replace(claim, spec=replace(claim.spec, devices=replace(devices, requests=requests)))


def _selecting(request: DeviceRequest, selectors: tuple[DeviceSelector, ...]) -> DeviceRequest:
    """Return the request with further selectors, unless it is for all devices: some of them would not be all."""
    exact = request.exactly
    if exact is not None and exact.allocation_mode != _ALL:
        exact = replace(exact, selectors=(*exact.selectors, *selectors))
    subs = tuple(
        [
            sub if sub.allocation_mode == _ALL else replace(sub, selectors=(*sub.selectors, *selectors))
            for sub in request.first_available
        ]
    )
    return replace(request, exactly=exact, first_available=subs)


def takes_all(claims: Iterable[ResourceClaim]) -> bool:
    """Return True if a request of the claims is for all devices of a node, to which no value can be given."""
    return any(
        one is not None and one.allocation_mode == _ALL
        for claim in claims
        for request in claim.spec.devices.requests or ()
        for one in (request.exactly, *request.first_available)
    )


def _expression(one: AttributeValue) -> str:
    """Return the selector of devices with a value, and of devices of drivers that do not publish the attribute."""
    domain, _, name = one.name.rpartition("/")
    attributes = f"device.attributes[{_literal(domain)}]"
    drivers = ", ".join(map(_literal, one.drivers))
    value = _value(one.value)
    has = f"{_literal(name)} in {attributes}"
    if one.lists:
        return f"!(device.driver in [{drivers}]) || ({has} && {attributes}[{_literal(name)}].includes({value}))"
    return f"!(device.driver in [{drivers}]) || ({has} && {attributes}[{_literal(name)}] == {value})"


def _value(value: DeviceAttribute) -> str:
    if value.version is not None:
        return f"semver({_literal(value.version)})"
    if value.string is not None:
        return _literal(value.string)
    if value.bool_ is not None:
        return "true" if value.bool_ else "false"
    return str(value.int_)


def _literal(text: str) -> str:
    """Return a string of CEL: escapes of JSON are escapes of CEL too."""
    return json.dumps(text, ensure_ascii=False)
