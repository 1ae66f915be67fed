"""Domains of pod groups: sets of nodes of which a group uses one, by a label of nodes or an attribute of their devices.

Annotations of a PodGroup or CompositePodGroup name what its pods must have, or should have, in common, as a rack or an
NVLink domain. They are Cathedra's own; the scheduler's plugin JointPlacement acts on them, and plans of moves respect
them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Node
from cathedra.api.resource import (
    AllocationResult,
    CELDeviceSelector,
    Device,
    DeviceAttribute,
    DeviceRequest,
    DeviceRequestAllocationResult,
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
FindDevice = Callable[[DeviceRequestAllocationResult], Device | None]
"""Returns a device that is allocated; None if no driver publishes it any more."""
FindAllocation = Callable[[ResourceClaim], AllocationResult | None]
"""Returns what is stored or decided for a claim."""


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


class DomainRules(msgspec.Struct, frozen=True):
    """Objects from which the domains of groups are found."""

    nodes: Sequence[Node]
    slices: Sequence[ResourceSlice]
    allocation_of: FindAllocation
    device_of: FindDevice

    def required(self, notes: Mapping[str, str], members: Members) -> Iterator[list[Domain]]:
        """Yield the domains for each annotation that all pods of a group must satisfy."""
        return self._parts(notes.get(SAME_LABEL), notes.get(SAME_ATTRIBUTE), members)

    def preferred(self, notes: Mapping[str, str], members: Members) -> Iterator[list[Domain]]:
        """Yield the domains for each annotation that is given up if the group does not fit."""
        return self._parts(notes.get(PREFER_LABEL), notes.get(PREFER_ATTRIBUTE), members)

    def labelled(self, key: str, members: Members) -> list[Domain]:
        """Return the domains by a label of nodes that have all nodes of a group's pods."""
        return [Domain(names) for names in domains_by_label(key, self.nodes) if names.issuperset(members.nodes)]

    def valued(self, name: str, members: Members) -> list[Domain]:
        """Return the domains by an attribute of devices that have all nodes and devices of a group's pods."""
        found = domains_by_value(name, self.slices, self.nodes)
        if takes_all(members.claims):
            # A request for all devices of a node takes those of every value, so it needs a node with a single one.
            values = values_by_node(name, self.slices, self.nodes)
            single = frozenset(node for node, there in values.items() if len(there) == 1)
            found = [(value, names & single) for value, names in found]
        return [
            Domain(names, (value,))
            for value, names in found
            if names.issuperset(members.nodes) and all(self._has(value, claim) for claim in members.claims)
        ]

    def _parts(self, key: str | None, name: str | None, members: Members) -> Iterator[list[Domain]]:
        if key:
            yield self.labelled(key, members)
        if name:
            yield self.valued(name, members)

    def _has(self, value: AttributeValue, claim: ResourceClaim) -> bool:
        """Return True if a claim has no devices of another value."""
        allocation = self.allocation_of(claim)
        for result in allocation.devices.results if allocation is not None else ():
            device = self.device_of(result) if result.driver in value.drivers else None
            found = attribute_of(device, result.driver, value.name) if device is not None else None
            if device is not None and value.value not in single_values(found):
                return False
        return True


def combined(parts: Sequence[list[Domain]]) -> list[Domain]:
    """Return the intersections of one domain of each part that have nodes, in their order."""
    found = parts[0]
    for part in parts[1:]:
        found = [common for one in found for other in part if (common := other.within(one)).nodes]
    return found


def domains_by_label(key: str, nodes: Iterable[Node]) -> Domains:
    """Return the sets of nodes with one value of a label; nodes without it are in none."""
    values: dict[str, set[str]] = {}
    for node in nodes:
        if (value := node.metadata.labels.get(key)) is not None:
            values.setdefault(value, set()).add(node.metadata.name)
    return [frozenset(names) for names in values.values()]


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


def attribute_text(attribute: DeviceAttribute) -> str:
    """Return the value of an attribute as users write it; the elements of a list are separated by commas."""
    for value in (attribute.string, attribute.version, attribute.int_, attribute.bool_):
        if value is not None:
            return str(value).lower() if isinstance(value, bool) else str(value)
    several = attribute.strings or attribute.versions or attribute.ints or attribute.bools
    return ",".join(map(str, several))


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
