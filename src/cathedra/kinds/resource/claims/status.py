"""Rules of a claim's status (docs/spec/api.md §3.5)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from cathedra.api import formats, resource
from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check, longer_than, problems_of
from cathedra.api.jsonvalue import JSONObject
from cathedra.kinds.conditions import validate_conditions
from cathedra.kinds.definition import RequestContext
from cathedra.kinds.nodeselectors import validate_node_selector
from cathedra.kinds.resource.binding import validate_binding_conditions, validate_skipped_operations
from cathedra.kinds.resource.claims.validation import (
    EFFECTS,
    IMMUTABLE,
    RequestNames,
    admin_access_refusal,
    request_names,
    validate_configuration,
    validate_request_reference,
    validate_request_references,
)
from cathedra.kinds.resource.names import (
    ItemRules,
    validate_driver_name,
    validate_items,
    validate_opaque,
    validate_pool_name,
)
from cathedra.kinds.resource.slices.counters import validate_consumed
from cathedra.releases import FeatureGates, behaviours

MAX_RESERVED: Final = 256
MAX_RESERVED_IN_131: Final = 32
MAX_RESULTS: Final = 32
MAX_CONFIG: Final = 64
MAX_CONDITIONS: Final = 8
MAX_IPS: Final = 16
MAX_INTERFACE: Final = 256
MAX_HARDWARE: Final = 128
SOURCES: Final = ("FromClaim", "FromClass")
_STATUS: Final = FieldPath("status")
_with_admin_access: Final = attrgetter("admin_access")
Identity = tuple[str, str, str, str | None]


def validate_status_update(
    new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
) -> ErrorList:
    """Return the errors of a claim's new status."""
    errors = ErrorList()
    _admin_access(errors, new, old, context)
    _consumers(errors, new.status.reserved_for, context.gates)
    if new.status.devices:
        _devices(errors, new.status, {_identity(result) for result in _results(new.status)}, context.gates)
    _reservations(errors, new, old)
    before, after = old.status.allocation, new.status.allocation
    if after is not None and (before is None or not context.gates.has(behaviours.STORED_ALLOCATION_UNVALIDATED)):
        _allocation(errors, _STATUS.child("allocation"), after, request_names(new.spec), context)
    # An allocation never changes: drivers may have prepared it. It is removed when no consumer is left, and a new one
    # is written.
    if after is not None and before is not None and after != before:
        errors.invalid(_STATUS.child("allocation"), after, IMMUTABLE)
    return errors


def is_usual(
    allocation: resource.AllocationResult, consumers: Sequence[resource.ResourceClaimConsumerReference]
) -> bool:
    """Return True if places, nodes and consumers, which differ between claims of one template, have the usual form,
    which breaks no rule of `validate_status_update`.

    Called for each status, even if one like it was valid before (`cathedra.kinds.resource.claims.strategy`).
    """
    for result in allocation.devices.results:
        if problems_of(formats.dns_subdomain, result.pool) or problems_of(formats.dns_label, result.device):
            return False
    for consumer in consumers:
        if not (consumer.resource and consumer.name and consumer.uid):
            return False
    node = "" if allocation.node_selector is None else only_node(allocation.node_selector)
    return allocation.node_selector is None or not problems_of(formats.dns_subdomain, node)


def only_node(selector: core_v1.NodeSelector) -> str:
    """Return the only node that a selector matches, or "" if it is not limited to one by name."""
    if len(selector.node_selector_terms or ()) != 1:
        return ""
    term = selector.node_selector_terms[0]
    # Any further term or expression could match other nodes, and the node's token is bound to exactly one.
    if term.match_expressions or len(term.match_fields) != 1:
        return ""
    field = term.match_fields[0]
    if field.key != "metadata.name" or field.operator != "In" or len(field.values) != 1:
        return ""
    return field.values[0]


def _place(errors: ErrorList, path: FieldPath, result: resource.DeviceRequestAllocationResult) -> None:
    """Validate the pool and the device of a result."""
    validate_pool_name(errors, path.child("pool"), result.pool)
    for problem in problems_of(formats.dns_label, result.device):
        errors.invalid(path.child("device"), result.device, problem)


def _nodes(errors: ErrorList, path: FieldPath, allocation: resource.AllocationResult) -> None:
    if allocation.node_selector is not None:
        validate_node_selector(errors, path.child("nodeSelector"), allocation.node_selector)


def _consumer(errors: ErrorList, path: FieldPath, consumer: resource.ResourceClaimConsumerReference) -> None:
    if consumer.resource and consumer.name and consumer.uid:
        return
    for name, value in (("resource", consumer.resource), ("name", consumer.name), ("uid", consumer.uid)):
        if not value:
            errors.required(path.child(name))


def _results(status: resource.ResourceClaimStatus) -> tuple[resource.DeviceRequestAllocationResult, ...]:
    return status.allocation.devices.results if status.allocation is not None else ()


def _identity(
    device: resource.DeviceRequestAllocationResult | resource.AllocatedDeviceStatus,
) -> Identity:
    return device.driver, device.pool, device.device, device.share_id


def _admin_access(
    errors: ErrorList, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
) -> None:
    given = list(map(_with_admin_access, _results(new.status)))
    # Only the first allocation with admin access is checked. The namespace may lose its label later, and the consumers
    # of the claim must still be able to finish.
    if not any(given) or any(map(_with_admin_access, _results(old.status))):
        return
    if refusal := admin_access_refusal(new.metadata.namespace, context):
        path = _STATUS.child("allocation", "devices", "results")
        first = next(position for position, is_given in enumerate(given) if is_given)
        errors.forbidden(path.index(first).child("adminAccess"), refusal)


def most_consumers(gates: FeatureGates) -> int:
    """Return the largest number of pods that a claim can be reserved for."""
    return MAX_RESERVED if gates.has(behaviours.CONSUMERS_256) else MAX_RESERVED_IN_131


def _consumers(
    errors: ErrorList, consumers: Sequence[resource.ResourceClaimConsumerReference], gates: FeatureGates
) -> None:
    def consumer(where: FieldPath, item: resource.ResourceClaimConsumerReference) -> None:
        _consumer(errors, where, item)

    if not consumers:
        return
    # The UID and not the name identifies a consumer: a pod that was recreated under its name is another one.
    rules = ItemRules(most_consumers(gates), consumer, key=lambda c: c.uid)
    validate_items(errors, _STATUS.child("reservedFor"), consumers, rules, gates)


def _reservations(errors: ErrorList, new: resource.ResourceClaim, old: resource.ResourceClaim) -> None:
    path = _STATUS.child("reservedFor")
    reserved = new.status.reserved_for
    if not reserved:
        return
    if new.status.allocation is None:
        # A reservation without an allocation would let the kubelet start a pod whose devices are not allocated.
        errors.forbidden(path, "may not be specified when `allocated` is not set")
        return
    # Otherwise a pod could start to use devices of a claim that is about to be deallocated. Existing consumers may stay
    # until they end.
    if new.metadata.deletion_timestamp is not None and set(reserved) - set(old.status.reserved_for):
        errors.forbidden(
            path, "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        )


def _devices(
    errors: ErrorList, status: resource.ResourceClaimStatus, allocated: set[Identity], gates: FeatureGates
) -> None:
    path = _STATUS.child("devices")
    for position, device in enumerate(status.devices):
        _device(errors, path.index(position), device, allocated, gates)
    seen: set[Identity] = set()
    for position, device in enumerate(status.devices):
        if _identity(device) in seen:
            errors.duplicate(path.index(position), _shown(device))
        seen.add(_identity(device))


def _shown(device: resource.AllocatedDeviceStatus) -> JSONObject:
    return {
        "Driver": device.driver,
        "Pool": device.pool,
        "Device": device.device,
        "ShareID": device.share_id or "",
    }


def _device(
    errors: ErrorList,
    path: FieldPath,
    device: resource.AllocatedDeviceStatus,
    allocated: set[Identity],
    gates: FeatureGates,
) -> None:
    validate_driver_name(errors, path.child("driver"), device.driver)
    validate_pool_name(errors, path.child("pool"), device.pool)
    check(errors, path.child("device"), device.device, formats.dns_label)
    if device.share_id is not None:
        check(errors, path.child("shareID"), device.share_id, formats.uuid)
    # A driver may report late, when the device is allocated to another claim already. Its report must not appear there.
    if _identity(device) not in allocated:
        errors.invalid(path, _shown(device), "must be an allocated device in the claim")
    conditions = device.conditions or ()
    if len(conditions) > MAX_CONDITIONS:
        errors.too_many(path.child("conditions"), len(conditions), MAX_CONDITIONS)
    validate_conditions(errors, path.child("conditions"), conditions, gates)
    # Never treated as stored: drivers replace the data as a whole, so its limit always holds.
    validate_opaque(errors, path.child("data"), device.data, stored=False, required=False)
    if device.network_data is not None:
        _network(errors, path.child("networkData"), device.network_data, gates)


def _network(errors: ErrorList, path: FieldPath, data: resource.NetworkDeviceData, gates: FeatureGates) -> None:
    if longer_than(data.interface_name, MAX_INTERFACE):
        errors.too_long(path.child("interfaceName"), MAX_INTERFACE)
    if longer_than(data.hardware_address, MAX_HARDWARE):
        errors.too_long(path.child("hardwareAddress"), MAX_HARDWARE)

    newer = gates.has(behaviours.INTERFACE_ADDRESSES_CANONICAL)

    def address(where: FieldPath, text: str) -> None:
        check(errors, where, text, formats.interface_address if newer else formats.lenient_cidr)

    # Older releases accept several notations of one address, so that duplicates show only in a canonical form.
    key = str if newer else formats.canonical_interface
    validate_items(errors, path.child("ips"), data.ips, ItemRules(MAX_IPS, address, key=key), gates)


def _allocation(
    errors: ErrorList,
    path: FieldPath,
    allocation: resource.AllocationResult,
    names: RequestNames,
    context: RequestContext,
) -> None:
    def result(where: FieldPath, item: resource.DeviceRequestAllocationResult) -> None:
        _result(errors, where, item, names, context)

    def config(where: FieldPath, item: resource.DeviceAllocationConfiguration) -> None:
        _config(errors, where, item, names, gates)

    gates, given, devices = context.gates, allocation.devices, path.child("devices")
    validate_items(errors, devices.child("results"), given.results, ItemRules(MAX_RESULTS, result), gates)
    # The usual allocation has no configuration; building the rules for an empty list is measurable per claim.
    if given.config:
        validate_items(errors, devices.child("config"), given.config, ItemRules(MAX_CONFIG, config), gates)
    _nodes(errors, path, allocation)


def _result(
    errors: ErrorList,
    path: FieldPath,
    result: resource.DeviceRequestAllocationResult,
    names: RequestNames,
    context: RequestContext,
) -> None:
    validate_request_reference(errors, path.child("request"), result.request, names)
    validate_driver_name(errors, path.child("driver"), result.driver)
    _place(errors, path, result)
    if result.binding_conditions or result.binding_failure_conditions:
        validate_binding_conditions(errors, path, result.binding_conditions, result.binding_failure_conditions)
    if result.share_id is not None:
        check(errors, path.child("shareID"), result.share_id, formats.uuid)
    validate_consumed(errors, path.child("consumedCounters"), result.consumed_counters)
    if result.skip_node_operations:
        validate_skipped_operations(errors, path.child("skipNodeOperations"), result.skip_node_operations)
    if result.tolerations and context.gates.has(behaviours.RESULT_TOLERATIONS_VALIDATED):
        for position, toleration in enumerate(result.tolerations):
            where = path.child("tolerations").index(position)
            if toleration.key:
                check(errors, where.child("key"), toleration.key, formats.label_key)
            if toleration.operator not in ("Equal", "Exists"):
                errors.not_supported(where.child("operator"), toleration.operator, ("Equal", "Exists"))
            if toleration.effect and toleration.effect not in EFFECTS:
                errors.not_supported(where.child("effect"), toleration.effect, EFFECTS)


def _config(
    errors: ErrorList,
    path: FieldPath,
    config: resource.DeviceAllocationConfiguration,
    names: RequestNames,
    gates: FeatureGates,
) -> None:
    if not config.source:
        errors.required(path.child("source"))
    elif config.source not in SOURCES:
        errors.not_supported(path.child("source"), config.source, SOURCES)
    validate_request_references(errors, path.child("requests"), config.requests, names, gates)
    validate_configuration(errors, path, config.opaque, gates, stored=False)
