"""Fields of claims, templates and claim status that closed gates take out (docs/spec/api.md §1.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any

import msgspec

from cathedra.api import resource
from cathedra.api.struct import replace
from cathedra.kinds.defaults import each
from cathedra.releases import FeatureGates, behaviours
from cathedra.remembering import IDENTITY, TEMPLATES, remembered

AnyRequest = resource.ExactDeviceRequest | resource.DeviceSubRequest


@remembered("specs of claims without closed fields", key=IDENTITY, size=TEMPLATES)
def enabled_claim_spec(
    spec: resource.ResourceClaimSpec, old: resource.ResourceClaimSpec | None, gates: FeatureGates
) -> resource.ResourceClaimSpec:
    """Return the spec without disabled fields; an empty list of requests becomes an absent one."""
    devices = spec.devices
    # The Go type has omitempty: an empty list is stored as an absent one, and the spec of an update compares equal to
    # it.
    requests = devices.requests or None
    if requests is not None and not (gates["DRAPrioritizedList"] or (old is not None and _has_alternatives(old))):
        requests = tuple(replace(r, first_available=()) if r.first_available else r for r in requests)
    cleared: dict[str, Any] = {}
    if gates.has(behaviours.TOLERATIONS_DROPPED_WITHOUT_GATE) and not (
        gates["DRADeviceTaints"] or (old is not None and _has(old, "tolerations"))
    ):
        cleared["tolerations"] = ()
    # A field stays if the stored claim has it already. Otherwise switching a gate off would make every update of such a
    # claim change its spec, which is immutable, and controllers could not even remove a finalizer.
    if not (gates.admin_access or (old is not None and uses_admin_access(old))):
        cleared["admin_access"] = None
    consumable = gates["DRAConsumableCapacity"] or (old is not None and uses_consumable_capacity(old))
    if not consumable:
        cleared["capacity"] = None
    if not (gates["DRADerivedAttributes"] or (old is not None and _has(old, "derived_attributes"))):
        cleared["derived_attributes"] = ()
    if requests is not None and cleared:
        requests = each(requests, lambda request: _cleared_requests(request, cleared))
    constraints = devices.constraints
    if not consumable and any(constraint.distinct_attribute is not None for constraint in constraints):
        constraints = tuple(replace(constraint, distinct_attribute=None) for constraint in constraints)
    # The same object if nothing was removed: claims of a template share their spec, and later memos find it by
    # identity.
    if requests is devices.requests and constraints is devices.constraints:
        return spec
    return replace(spec, devices=replace(devices, requests=requests, constraints=constraints))


def _cleared_requests(request: resource.DeviceRequest, cleared: dict[str, Any]) -> resource.DeviceRequest:
    exactly = _cleared_request(request.exactly, cleared) if request.exactly is not None else None
    alternatives = tuple(_cleared_request(alternative, cleared) for alternative in request.first_available)
    if exactly is request.exactly and all(a is b for a, b in zip(alternatives, request.first_available, strict=True)):
        return request
    return replace(request, exactly=exactly, first_available=alternatives)


def _cleared_request(request: Any, cleared: dict[str, Any]) -> Any:
    changes = {name: empty for name, empty in cleared.items() if getattr(request, name, None) not in (None, ())}
    return replace(request, **changes) if changes else request


def _requests(spec: resource.ResourceClaimSpec) -> Iterator[AnyRequest]:
    for request in spec.devices.requests or ():
        if request.exactly is not None:
            yield request.exactly
        yield from request.first_available


def _has(spec: resource.ResourceClaimSpec, name: str) -> bool:
    return any(getattr(request, name) for request in _requests(spec))


def _has_alternatives(spec: resource.ResourceClaimSpec) -> bool:
    return any(request.first_available for request in spec.devices.requests or ())


def uses_admin_access(spec: resource.ResourceClaimSpec) -> bool:
    """Return True if a request has a value for admin access, even false."""
    # "false" counts as a use: Kubernetes tests the pointer, so that a stored "adminAccess: false" is kept.
    return any(r.exactly is not None and r.exactly.admin_access is not None for r in spec.devices.requests or ())


def uses_consumable_capacity(spec: resource.ResourceClaimSpec) -> bool:
    """Return True if a request has capacity, or a constraint distinct values."""
    return any(request.capacity is not None for request in _requests(spec)) or any(
        constraint.distinct_attribute is not None for constraint in spec.devices.constraints
    )


def _results(status: resource.ResourceClaimStatus) -> tuple[resource.DeviceRequestAllocationResult, ...]:
    return status.allocation.devices.results if status.allocation is not None else ()


def enabled_claim_status(
    status: resource.ResourceClaimStatus, old: resource.ResourceClaim, gates: FeatureGates
) -> resource.ResourceClaimStatus:
    """Return the status without disabled fields, and without the devices that this update deallocates."""
    allocation = status.allocation
    # Fast path: a status that frees its claim has nothing that a gate could close.
    if allocation is None and status.devices == ():
        return status
    closed = _closed_fields(old.status, old.spec, gates)
    if allocation is not None:
        results = allocation.devices.results
        said = tuple(map(closed.said, results))
        # One comparison of tuples decides for all results. Nearly every status has none of these fields.
        if said != (closed.nothing,) * len(said):
            results = tuple(
                result if its == closed.nothing else replace(result, **closed.empty)
                for result, its in zip(results, said, strict=True)
            )
            allocation = replace(allocation, devices=replace(allocation.devices, results=results))
    devices = status.devices or ()
    # Device status that was reported while the gate was open stays writable, so that drivers can still remove it.
    if devices and not (gates["DRAResourceClaimDeviceStatus"] or old.status.devices):
        devices = ()
    if devices:
        before = _results(old.status)
        if "share_id" in closed.empty:
            devices = tuple(replace(device, share_id=None) for device in devices)
        devices = tuple(d if d.conditions or d.conditions is None else replace(d, conditions=None) for d in devices)
        # A driver may report on a device between its deallocation and the next allocation. Its entry would be refused,
        # because no result has the device; Kubernetes removes it with the allocation (KEP-4817).
        gone = {_identity(result) for result in before}
        gone -= {_identity(result) for result in (allocation.devices.results if allocation is not None else ())}
        if gone:
            devices = tuple(device for device in devices if _identity(device) not in gone)
    if allocation is status.allocation and devices is status.devices:
        return status
    return replace(status, allocation=allocation, devices=devices)


class _ClosedFields(msgspec.Struct, frozen=True):
    """Fields of results that closed gates remove: their empty values, and the complete fields with and without them."""

    empty: Mapping[str, Any]
    said: Callable[[resource.DeviceRequestAllocationResult], Any]
    nothing: Any


# By identity, because comparing a whole spec would cost more than the few tests that the memo saves.
@remembered("closed fields of results", key=IDENTITY, size=TEMPLATES)
def _closed_fields(
    old: resource.ResourceClaimStatus, spec: resource.ResourceClaimSpec, gates: FeatureGates
) -> _ClosedFields:
    """Return the fields that no result of a claim may have, by its stored status and spec. New claims have the same
    status object, and those of a template the same spec object."""
    before = _results(old)
    empty: dict[str, Any] = {}
    if not (gates.admin_access or uses_admin_access(spec) or any(r.admin_access is not None for r in before)):
        empty["admin_access"] = None
    if not (gates["DRAConsumableCapacity"] or uses_consumable_capacity(spec) or _consumes(old)):
        empty |= {"share_id": None, "consumed_capacity": {}}
    if not (
        gates["DRADeviceBindingConditions"] or any(r.binding_conditions or r.binding_failure_conditions for r in before)
    ):
        empty |= {"binding_conditions": (), "binding_failure_conditions": ()}
    if not (gates["DRAOptionalNodeOperations"] or any(r.skip_node_operations for r in before)):
        empty["skip_node_operations"] = ()
    if not (gates["DRASharedConsumableCapacity"] or any(r.consumed_counters for r in before)):
        empty["consumed_counters"] = ()
    said = attrgetter(*empty) if empty else _says_nothing
    return _ClosedFields(empty, said, said(resource.DeviceRequestAllocationResult()))


def _says_nothing(_: resource.DeviceRequestAllocationResult) -> None:
    """Return the values of empty fields."""


def _consumes(status: resource.ResourceClaimStatus) -> bool:
    return any(r.share_id is not None or r.consumed_capacity for r in _results(status)) or any(
        device.share_id is not None for device in status.devices
    )


def _identity(
    device: resource.DeviceRequestAllocationResult | resource.AllocatedDeviceStatus,
) -> tuple[str, str, str, str | None]:
    return device.driver, device.pool, device.device, device.share_id
