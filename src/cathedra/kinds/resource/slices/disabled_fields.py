"""Fields of slices that closed gates take out (docs/spec/api.md §1.6)."""

from __future__ import annotations

from operator import is_
from typing import Any, Final, TypeVar

from cathedra.api import resource
from cathedra.api.struct import EMPTY_LIST, replace
from cathedra.releases import FeatureGates

C = TypeVar("C", resource.CounterSet, resource.DeviceCounterConsumption)

_LISTS: Final = ("ints", "bools", "strings", "versions")


def enabled_slice_spec(
    spec: resource.ResourceSliceSpec, old: resource.ResourceSliceSpec | None, gates: FeatureGates
) -> resource.ResourceSliceSpec:
    """Return the spec without disabled fields."""
    changes, per_device = _closed(old, gates)
    result = replace(spec, **changes) if changes else spec
    devices = result.devices
    # Each of these reads the whole stored slice, so it is found out once and not for each device.
    lists, policies = _open_lists(old, gates), _open_policies(old, gates)
    if devices and (any(per_device.values()) or not lists or not policies):
        devices = tuple(_device(device, per_device, lists=lists, policies=policies) for device in devices)
    if devices and not _open_groups(old, gates):
        devices = tuple(_without_groups(device) for device in devices)
    counters = result.shared_counters
    if not _open_requests(old, gates):
        # `EMPTY_LIST` marks a list written as []. ``tuple(map(…))`` would replace it by an absent list.
        devices = devices if devices is EMPTY_LIST else tuple(map(_without_requests, devices))
        counters = counters if counters is EMPTY_LIST else tuple(map(_fixed_only, counters))
    spelled = [bool(items) or items is EMPTY_LIST for items in (devices, counters)]
    if not all(spelled):
        # A list that was spelled out empty matters beside the other one only: both together are refused.
        devices = devices if devices else ()
        counters = counters if counters else ()
    return replace(result, devices=devices, shared_counters=counters)


def _closed(old: resource.ResourceSliceSpec | None, gates: FeatureGates) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields of the spec, and fields of each device, that are to be emptied."""
    spec: dict[str, Any] = {}
    device: dict[str, Any] = {}
    # Each gate is paired with a test of the stored slice. A field in use survives although its gate was closed since:
    # otherwise the next update by an unaware driver would drop taints or counters of devices that are allocated.
    before = old.devices if old is not None else ()
    if not (gates["DRADeviceTaints"] or any(d.taints for d in before)):
        device["taints"] = ()
    if not (gates["DRAPartitionableDevices"] or (old is not None and _is_partitioned(old))):
        # All fields of a feature are emptied together. A device with counters but without its counter set would be
        # invalid.
        spec |= {"shared_counters": (), "per_device_node_selection": None}
        device |= {"consumes_counters": (), "node_name": None, "node_selector": None, "all_nodes": None}
    # Binding conditions are reported in a claim's device status, so they are useless without that gate as well.
    binding = gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]
    if not (binding or any(_binds(d) for d in before)):
        device |= {"binds_to_node": None, "binding_conditions": (), "binding_failure_conditions": ()}
    if not _open_policies(old, gates):
        device["allow_multiple_allocations"] = None
    if not (gates["DRANodeAllocatableResources"] or any(_maps(d) for d in before)):
        device |= {"node_allocatable_resources": {}, "node_allocatable_resource_mappings": {}}
    kept_type = old is not None and old.partition_type_attribute is not None
    if not (gates["DRAPartitionableDevicesType"] or kept_type):
        spec["partition_type_attribute"] = None
    if not (gates["DRAOptionalNodeOperations"] or (old is not None and old.skip_node_operations)):
        spec["skip_node_operations"] = ()
    return spec, device


def _is_partitioned(spec: resource.ResourceSliceSpec) -> bool:
    return bool(spec.shared_counters or spec.per_device_node_selection is not None) or any(
        d.consumes_counters or d.node_name is not None or d.node_selector is not None or d.all_nodes is not None
        for d in spec.devices
    )


def _binds(device: resource.Device) -> bool:
    return bool(device.binds_to_node is not None or device.binding_conditions or device.binding_failure_conditions)


def _maps(device: resource.Device) -> bool:
    return bool(device.node_allocatable_resources or device.node_allocatable_resource_mappings)


def _open_policies(old: resource.ResourceSliceSpec | None, gates: FeatureGates) -> bool:
    return gates["DRAConsumableCapacity"] or (
        old is not None
        and any(
            device.allow_multiple_allocations is not None
            or any(capacity.request_policy is not None for capacity in device.capacity.values())
            for device in old.devices
        )
    )


def _open_lists(old: resource.ResourceSliceSpec | None, gates: FeatureGates) -> bool:
    return gates["DRAListTypeAttributes"] or (
        old is not None and any(getattr(a, name) for d in old.devices for a in d.attributes.values() for name in _LISTS)
    )


def _open_groups(old: resource.ResourceSliceSpec | None, gates: FeatureGates) -> bool:
    return gates["DRADeviceCompatibilityGroups"] or (
        old is not None and any(c.compatibility_groups for d in old.devices for c in d.consumes_counters)
    )


def _open_requests(old: resource.ResourceSliceSpec | None, gates: FeatureGates) -> bool:
    """Return True if requests may determine what devices take of counters."""
    if gates["DRASharedConsumableCapacity"]:
        return True
    return old is not None and (
        any(c.request_policy is not None for one in old.shared_counters for c in one.counters.values())
        or any(
            c.value_from is not None for d in old.devices for one in d.consumes_counters for c in one.counters.values()
        )
    )


def _without_requests(device: resource.Device) -> resource.Device:
    consumed = tuple(map(_fixed_only, device.consumes_counters))
    # Compared by identity: an unchanged device is returned as it is, so that later memos keyed by identity still match.
    unchanged = all(map(is_, consumed, device.consumes_counters))
    return device if unchanged else replace(device, consumes_counters=consumed)


def _fixed_only(of: C) -> C:
    """Return a set or a consumption whose counters have values alone. A counter without one has the value 0: older
    types have no other way to leave it out."""
    if all(map(_is_fixed, of.counters.values())):
        return of
    fixed = {
        name: counter if _is_fixed(counter) else resource.Counter(value=counter.amount)
        for name, counter in of.counters.items()
    }
    return replace(of, counters=fixed)


def _is_fixed(counter: resource.Counter) -> bool:
    return counter.value is not None and counter.value_from is None and counter.request_policy is None


def _device(device: resource.Device, cleared: dict[str, Any], *, lists: bool, policies: bool) -> resource.Device:
    """Return the device with ``cleared`` fields, and without list values or request policies where those are off."""
    changes = dict(cleared)
    if not lists and device.attributes:
        empty: dict[str, Any] = dict.fromkeys(_LISTS, ())
        changes["attributes"] = {name: replace(value, **empty) for name, value in device.attributes.items()}
    if not policies and device.capacity:
        changes["capacity"] = {name: replace(value, request_policy=None) for name, value in device.capacity.items()}
    return replace(device, **changes) if changes else device


def _without_groups(device: resource.Device) -> resource.Device:
    if not any(consumption.compatibility_groups for consumption in device.consumes_counters):
        return device
    consumed = tuple(replace(consumption, compatibility_groups=()) for consumption in device.consumes_counters)
    return replace(device, consumes_counters=consumed)
