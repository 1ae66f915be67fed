"""Rules of resource slices (docs/spec/api.md §3.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cathedra.api import formats, resource
from cathedra.api.field import ErrorList, ErrorType, FieldError, FieldPath
from cathedra.api.formats import check
from cathedra.api.struct import EMPTY_LIST
from cathedra.kinds.definition import RequestContext
from cathedra.kinds.nodeselectors import validate_single_term
from cathedra.kinds.resource.binding import validate_skipped_operations
from cathedra.kinds.resource.names import (
    ItemRules,
    validate_driver_name,
    validate_fully_qualified_name,
    validate_items,
    validate_pool_name,
)
from cathedra.kinds.resource.slices.counters import validate_counter_sets, validate_references
from cathedra.kinds.resource.slices.devices import DeviceRules
from cathedra.releases import behaviours

MAX_DEVICES: Final = 128
MAX_RICH_DEVICES: Final = 64
IMMUTABLE: Final = "field is immutable"
_SPEC: Final = FieldPath("spec")
_NODES: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"


def validate_slice(
    new: resource.ResourceSlice, old: resource.ResourceSlice | None, context: RequestContext
) -> ErrorList:
    """Return the errors of a slice; ``old`` is what it replaces."""
    errors = ErrorList()
    spec = new.spec
    validate_driver_name(errors, _SPEC.child("driver"), spec.driver)
    _pool(errors, _SPEC.child("pool"), spec.pool)
    if old is not None:
        for path, after, stored in (
            (_SPEC.child("driver"), spec.driver, old.spec.driver),
            (_SPEC.child("pool", "name"), spec.pool.name, old.spec.pool.name),
            (_SPEC.child("nodeName"), spec.node_name, old.spec.node_name),
        ):
            if after != stored:
                errors.invalid(path, after, IMMUTABLE)
    _nodes(errors, spec)
    if (
        context.gates.has(behaviours.COUNTERS_IN_OWN_SLICES)
        and _written(spec.devices)
        and _written(spec.shared_counters)
    ):
        errors.invalid(_SPEC, "", "only one of `sharedCounters` or `devices` is allowed")
    before = {device.name: device for device in old.spec.devices} if old is not None else {}
    # What 1.38 refuses may be stored. It stays as long as no device changes: the list is atomic.
    unchanged = old is not None and old.spec.devices == spec.devices
    rules = DeviceRules(context, per_device_nodes=bool(spec.per_device_node_selection), unchanged=unchanged)
    _devices(errors, spec, before, rules, context)
    validate_counter_sets(errors, _SPEC.child("sharedCounters"), spec.shared_counters, context.gates)
    if not context.gates.has(behaviours.COUNTERS_IN_OWN_SLICES):
        validate_references(errors, _SPEC.child("devices"), spec)
    _partition_type(errors, spec, context)
    validate_skipped_operations(errors, _SPEC.child("skipNodeOperations"), spec.skip_node_operations)
    return errors


def _written(items: tuple[Any, ...]) -> bool:
    return bool(items) or items is EMPTY_LIST


def _pool(errors: ErrorList, path: FieldPath, pool: resource.ResourcePool) -> None:
    validate_pool_name(errors, path.child("name"), pool.name)
    if pool.resource_slice_count <= 0:
        errors.invalid(path.child("resourceSliceCount"), pool.resource_slice_count, "must be greater than zero")
    if pool.generation < 0:
        errors.invalid(path.child("generation"), pool.generation, "must be greater than or equal to zero")


def _nodes(errors: ErrorList, spec: resource.ResourceSliceSpec) -> None:
    given = []
    if spec.node_name is not None:
        path = _SPEC.child("nodeName")
        if not spec.node_name:
            errors.invalid(path, "", "must be either unset or set to a non-empty string")
        else:
            given.append("`nodeName`")
            check(errors, path, spec.node_name, formats.dns_subdomain)
    if spec.node_selector is not None:
        given.append("`nodeSelector`")
        validate_single_term(errors, _SPEC.child("nodeSelector"), spec.node_selector)
    for name, value in (("allNodes", spec.all_nodes), ("perDeviceNodeSelection", spec.per_device_node_selection)):
        if value:
            given.append(f"`{name}`")
        elif value is not None:
            errors.invalid(_SPEC.child(name), False, "must be either unset or set to true")
    if not given:
        errors.required(_SPEC, _NODES)
    elif len(given) > 1:
        errors.invalid(_SPEC, f"{{{', '.join(given)}}}", f"{_NODES}, but multiple fields are set")


def _devices(
    errors: ErrorList,
    spec: resource.ResourceSliceSpec,
    before: Mapping[str, resource.Device],
    rules: DeviceRules,
    context: RequestContext,
) -> None:
    path = _SPEC.child("devices")
    limit = MAX_DEVICES
    if context.gates.has(behaviours.RICH_SLICES_SMALLER) and any(_is_rich(device) for device in spec.devices):
        limit = MAX_RICH_DEVICES

    def device(where: FieldPath, item: resource.Device) -> None:
        rules.validate(errors, where, item, before.get(item.name))

    validate_items(errors, path, spec.devices, ItemRules(limit, device, key=lambda d: d.name), context.gates)


def _is_rich(device: resource.Device) -> bool:
    return bool(device.taints or device.consumes_counters) or any(
        _written(items)
        for attribute in device.attributes.values()
        for items in (attribute.ints, attribute.bools, attribute.strings, attribute.versions)
    )


def _partition_type(errors: ErrorList, spec: resource.ResourceSliceSpec, context: RequestContext) -> None:
    attribute = spec.partition_type_attribute
    if attribute is None:
        return
    consumers = [(i, device) for i, device in enumerate(spec.devices) if device.consumes_counters]
    if not consumers:
        path = _SPEC.child("partitionTypeAttribute")
        _of_partition_type(
            errors, path, attribute, "may only be set on a slice which declares devices that consume counters"
        )
        return
    # Discarded: tags report the same errors at the same path, and one list of them must not appear twice.
    malformed = ErrorList()
    validate_fully_qualified_name(malformed, _SPEC, attribute, context.gates)
    if malformed:
        return  # tags report it, and no device can carry such a name
    domain, _, name = attribute.partition("/")
    for position, device in consumers:
        where = _SPEC.child("devices").index(position).child("attributes").key(attribute)
        value = device.attributes.get(attribute)
        if value is None and domain == spec.driver:
            value = device.attributes.get(name)
        if value is None:
            text = "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set"
            errors.required(where, text)
        elif value.string is None:
            text = "must be a string value because `partitionTypeAttribute` names this attribute"
            _of_partition_type(errors, where, value, text)


def _of_partition_type(errors: ErrorList, path: FieldPath, value: Any, detail: str) -> None:
    """An error that no tag covers, though tags have rules for the same fields."""
    errors.append(FieldError(ErrorType.INVALID, path, value, detail, origin="partitionTypeAttribute"))
