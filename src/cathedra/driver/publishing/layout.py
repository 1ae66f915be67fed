"""From pools to slices that the API server accepts.

A slice holds at most 128 devices, 64 if one of them uses an expensive feature, and counter sets live in slices of their
own; an author should not have to know. References between devices and counters are checked here, because the API server
sees one slice at a time only (docs/spec/driver-sdk.md §10 and §11.7).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from cathedra.api import resource
from cathedra.api.core import core_v1
from cathedra.driver.device import Pool
from cathedra.driver.errors import PoolError

__all__ = [
    "MAX_COUNTER_SETS",
    "MAX_DEVICES",
    "MAX_DEVICES_WITH_FEATURES",
    "DesiredPool",
    "DesiredSlice",
    "check",
    "lay_out",
]

MAX_DEVICES = 128
MAX_DEVICES_WITH_FEATURES = 64
"""If any device of the slice has taints, consumes counters or has an attribute with a list."""
MAX_COUNTER_SETS = 8


class DesiredSlice(msgspec.Struct, frozen=True):
    """What one slice is to hold."""

    devices: tuple[resource.Device, ...] = ()
    shared_counters: tuple[resource.CounterSet, ...] = ()
    per_device_node_selection: bool | None = None


class DesiredPool(msgspec.Struct, frozen=True):
    """What the cluster is to show of one pool."""

    name: str
    slices: tuple[DesiredSlice, ...]
    node_selector: core_v1.NodeSelector | None = None
    all_nodes: bool = False
    generation: int = 0
    skip_node_operations: tuple[str, ...] = ()
    partition_type_attribute: str | None = None


def lay_out(pools: Iterable[Pool], node_name: str) -> dict[str, DesiredPool]:
    """The slices of all pools. A pool without devices gets one empty slice: «no slice» would mean «no driver».

    Raises:
        PoolError: two pools of one name.
        DeviceError: a device's attribute or amount has no form in the API.
        QuantityError: a counter of a pool is no quantity.
    """
    desired: dict[str, DesiredPool] = {}
    for pool in pools:
        name = pool.name or node_name
        if name in desired:
            raise PoolError(f'pool "{name}" is given twice')
        desired[name] = DesiredPool(
            name=name,
            slices=_slices(pool),
            node_selector=pool.node_selector,
            all_nodes=pool.all_nodes,
            generation=pool.generation,
            skip_node_operations=tuple(pool.skip_node_operations),
            partition_type_attribute=pool.partition_type_attribute,
        )
    return desired


def _slices(pool: Pool) -> tuple[DesiredSlice, ...]:
    devices = tuple(device.to_api() for device in pool.devices)
    per_device = True if any(_selects_node(device) for device in devices) else None
    counters = pool.counter_sets()
    slices = [
        DesiredSlice(shared_counters=counters[i : i + MAX_COUNTER_SETS], per_device_node_selection=per_device)
        for i in range(0, len(counters), MAX_COUNTER_SETS)
    ]
    slices += [DesiredSlice(devices=part, per_device_node_selection=per_device) for part in _parts(devices)]
    return tuple(slices) or (DesiredSlice(),)


def _parts(devices: Sequence[resource.Device]) -> Iterable[tuple[resource.Device, ...]]:
    part: list[resource.Device] = []
    limit = MAX_DEVICES
    for device in devices:
        limit = min(limit, _limit(device))
        if len(part) >= limit:
            yield tuple(part)
            part, limit = [], _limit(device)
        part.append(device)
    if part:
        yield tuple(part)


def _limit(device: resource.Device) -> int:
    expensive = device.taints or device.consumes_counters or any(map(_is_list, device.attributes.values()))
    return MAX_DEVICES_WITH_FEATURES if expensive else MAX_DEVICES


def _is_list(value: resource.DeviceAttribute) -> bool:
    return bool(value.ints or value.bools or value.strings or value.versions)


def _selects_node(device: resource.Device) -> bool:
    return device.node_name is not None or device.node_selector is not None or device.all_nodes is not None


def check(pools: Iterable[DesiredPool], own_domain: str) -> None:
    """Check what the API server cannot see: names and references across the slices of a pool.

    Args:
        own_domain: the driver's name, which attributes and capacities must not spell; "" if they may.

    Raises:
        PoolError: the first contradiction; then nothing of any pool is published.
    """
    for pool in pools:
        counters = _check_counters(pool)
        names: set[str] = set()
        for device in (device for part in pool.slices for device in part.devices):
            if device.name in names:
                raise PoolError(f'pool "{pool.name}": duplicate device name "{device.name}"')
            names.add(device.name)
            _check_references(pool, device, counters)
            _check_names(pool, device, own_domain)


def _check_counters(pool: DesiredPool) -> dict[str, frozenset[str]]:
    counters: dict[str, frozenset[str]] = {}
    for counter_set in (counter_set for part in pool.slices for counter_set in part.shared_counters):
        if counter_set.name in counters:
            raise PoolError(f'pool "{pool.name}": duplicate counter set name "{counter_set.name}"')
        counters[counter_set.name] = frozenset(counter_set.counters)
    return counters


def _check_references(pool: DesiredPool, device: resource.Device, counters: dict[str, frozenset[str]]) -> None:
    for consumption in device.consumes_counters:
        name = consumption.counter_set
        if name not in counters:
            raise PoolError(f'pool "{pool.name}": counter set "{name}" referenced by device "{device.name}" not found')
        for counter in consumption.counters:
            if counter not in counters[name]:
                raise PoolError(
                    f'pool "{pool.name}": counter "{counter}" referenced by device "{device.name}" '
                    f'not found in counter set "{name}"'
                )


def _check_names(pool: DesiredPool, device: resource.Device, own_domain: str) -> None:
    if not own_domain:
        return
    for name in (*device.attributes, *device.capacity):
        if name.startswith(f"{own_domain}/"):
            raise PoolError(
                f'pool "{pool.name}": device "{device.name}": "{name}" must be written without the driver\'s own domain'
            )
