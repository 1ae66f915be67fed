"""Rules of one device in a slice (docs/spec/api.md §3.6 and §3.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cathedra.api import formats, resource
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check, longer_than
from cathedra.api.struct import EMPTY_LIST
from cathedra.kinds.definition import RequestContext
from cathedra.kinds.nodeselectors import validate_node_selector
from cathedra.kinds.resource.binding import validate_binding_conditions
from cathedra.kinds.resource.lists import validate_items
from cathedra.kinds.resource.names import validate_qualified_name
from cathedra.kinds.resource.slices.capacity import validate_policy
from cathedra.kinds.resource.slices.counters import validate_consumptions
from cathedra.kinds.resource.slices.defaults import BareName
from cathedra.kinds.resource.slices.node_resources import validate_mappings, validate_node_resources
from cathedra.kinds.resource.taints import validate_taint
from cathedra.releases import FeatureGates, behaviours

__all__ = ["DeviceRules", "shortened", "validate_attribute"]

MAX_PROPERTIES: Final = 32
MAX_VALUES: Final = 48
MAX_VALUE: Final = 64
MAX_TAINTS: Final = 16
MAX_TAINTS_BEFORE_135: Final = 4
SCALARS: Final = ("int", "bool", "string", "version")
LISTS: Final = ("ints", "bools", "strings", "versions")
_ATTRIBUTE_KEY: Final = 96


def shortened(key: str, limit: int) -> str:
    """A map's key as paths show it: cut in the middle if it is longer than any right one."""
    if len(key) <= limit:
        return key
    half = (limit - 3) // 2
    return f"{key[:half]}...{key[len(key) - half :]}"


class DeviceRules:
    """The rules of a device, given what the slice says for all."""

    def __init__(self, context: RequestContext, *, per_device_nodes: bool) -> None:
        self._context = context
        self._per_device_nodes = per_device_nodes

    def validate(
        self, errors: ErrorList, path: FieldPath, device: resource.Device, old: resource.Device | None
    ) -> None:
        """What is wrong with the device; ``old`` is the stored device of that name."""
        check(errors, path.child("name"), device.name, formats.dns_label)
        if isinstance(device.name, BareName) and self._context.gates.has(behaviours.DEVICES_NEED_BASIC):
            errors.required(path.child("basic"))
            return
        self._counts(errors, path, device)
        self._attributes(errors, path.child("attributes"), device.attributes)
        self._capacity(errors, path.child("capacity"), device, old)
        if not (
            old is not None
            and self._context.gates.has(behaviours.STORED_TAINTS_UNVALIDATED)
            and old.taints == device.taints
        ):
            self._taints(errors, path.child("taints"), device.taints)
        validate_consumptions(errors, path.child("consumesCounters"), device.consumes_counters, self._context.gates)
        self._nodes(errors, path, device)
        validate_binding_conditions(errors, path, device.binding_conditions, device.binding_failure_conditions)
        validate_mappings(errors, path.child("nodeAllocatableResourceMappings"), device)
        validate_node_resources(errors, path.child("nodeAllocatableResources"), device)

    @staticmethod
    def _counts(errors: ErrorList, path: FieldPath, device: resource.Device) -> None:
        properties = len(device.attributes) + len(device.capacity)
        if properties > MAX_PROPERTIES:
            errors.invalid(
                path,
                properties,
                f"the total number of attributes and capacities must not exceed {MAX_PROPERTIES}",
            )
        values = sum(_value_count(attribute) for attribute in device.attributes.values())
        if values > MAX_VALUES:
            errors.invalid(path, values, f"the total number of attribute values must not exceed {MAX_VALUES}")

    def _attributes(
        self, errors: ErrorList, path: FieldPath, attributes: Mapping[str, resource.DeviceAttribute]
    ) -> None:
        for name, attribute in sorted(attributes.items()):
            self._key(errors, path, name)
            validate_attribute(errors, path.key(shortened(name, _ATTRIBUTE_KEY)), attribute, self._context.gates)

    def _key(self, errors: ErrorList, path: FieldPath, name: str) -> None:
        """The name of an attribute or a capacity; from 1.32 to 1.35 it was reported at the value's own path."""
        gates = self._context.gates
        at_value = gates.has(behaviours.DEVICE_KEY_ERRORS_AT_VALUE)
        validate_qualified_name(errors, path.key(name) if at_value else path, name, gates)

    def _capacity(
        self, errors: ErrorList, path: FieldPath, device: resource.Device, old: resource.Device | None
    ) -> None:
        if (
            old is not None
            and self._context.gates.has(behaviours.STORED_CAPACITY_UNVALIDATED)
            and old.capacity == device.capacity
        ):
            return
        for name, capacity in sorted(device.capacity.items()):
            self._key(errors, path, name)
            policy = capacity.request_policy
            if policy is None:
                continue
            where = path.key(shortened(name, _ATTRIBUTE_KEY)).child("requestPolicy")
            if not device.allow_multiple_allocations:
                errors.forbidden(where, "allowMultipleAllocations must be true")
            else:
                validate_policy(errors, where, policy, capacity.value, self._context.gates)

    def _taints(self, errors: ErrorList, path: FieldPath, taints: tuple[resource.DeviceTaint, ...]) -> None:
        gates = self._context.gates

        def taint(where: FieldPath, item: resource.DeviceTaint) -> None:
            validate_taint(errors, where, item, gates)

        limit = MAX_TAINTS if gates.has(behaviours.SIXTEEN_TAINTS_A_DEVICE) else MAX_TAINTS_BEFORE_135
        validate_items(errors, path, taints, limit, gates, taint)

    def _nodes(self, errors: ErrorList, path: FieldPath, device: resource.Device) -> None:
        written = (device.node_name, device.node_selector, device.all_nodes)
        if not self._per_device_nodes:
            if any(value is not None for value in written):
                errors.invalid(
                    path,
                    None,
                    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` "
                    "is set to true in the ResourceSlice spec",
                )
            return
        given = []
        if device.node_name is not None:
            if not device.node_name:
                errors.invalid(path.child("nodeName"), "", "must not be empty")
            else:
                given.append("`nodeName`")
                check(errors, path.child("nodeName"), device.node_name, formats.dns_subdomain)
        if device.node_selector is not None:
            given.append("`nodeSelector`")
            validate_node_selector(errors, path.child("nodeSelector"), device.node_selector)
        if device.all_nodes:
            given.append("`allNodes`")
        elif device.all_nodes is not None:
            errors.invalid(path.child("allNodes"), False, "must be either unset or set to true")
        required = (
            "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` "
            "is set to true in the ResourceSlice spec"
        )
        if not given:
            errors.required(path, required)
        elif len(given) > 1:
            errors.invalid(path, f"{{{', '.join(given)}}}", required)


def _value_count(attribute: resource.DeviceAttribute) -> int:
    scalars = sum(value is not None for value in (attribute.int_, attribute.bool_, attribute.string, attribute.version))
    return scalars + sum(len(items) for items in _lists(attribute))


def _lists(attribute: resource.DeviceAttribute) -> tuple[tuple[Any, ...], ...]:
    return attribute.ints, attribute.bools, attribute.strings, attribute.versions


def validate_attribute(
    errors: ErrorList, path: FieldPath, attribute: resource.DeviceAttribute, gates: FeatureGates
) -> None:
    """An attribute: one value, of the form its type demands."""
    given = sum(value is not None for value in (attribute.int_, attribute.bool_, attribute.string, attribute.version))
    if attribute.string is not None and longer_than(attribute.string, MAX_VALUE):
        errors.too_long(path.child("string"), MAX_VALUE)
    if attribute.version is not None:
        _version(errors, path.child("version"), attribute.version)
    for name, items in zip(LISTS, _lists(attribute), strict=True):
        if items is EMPTY_LIST:
            errors.invalid(path.child(name), [], "must not be empty if specified")
        given += bool(items) or items is EMPTY_LIST
    for position, text in enumerate(attribute.strings):
        if longer_than(text, MAX_VALUE):
            errors.too_long(path.child("strings").index(position), MAX_VALUE)
    for position, text in enumerate(attribute.versions):
        _version(errors, path.child("versions").index(position), text)
    if given == 0 and not gates.has(behaviours.ATTRIBUTE_WITHOUT_VALUE_INVALID):
        errors.required(path, "exactly one value must be specified")
    elif given == 0:
        errors.invalid(path, "", "exactly one value must be specified")
    elif given > 1:
        errors.invalid(path, attribute, "exactly one value must be specified")


def _version(errors: ErrorList, path: FieldPath, version: str) -> None:
    check(errors, path, version, formats.semver)
    if longer_than(version, MAX_VALUE):
        errors.too_long(path, MAX_VALUE)
