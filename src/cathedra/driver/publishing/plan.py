"""What must change so that the cluster shows exactly the desired slices of a pool.

A pure function, so every rule can be tested: slices that keep their place are updated, one changed slice keeps the
generation, and anything larger gets a new one, so that no consumer ever mixes two states of a pool
(docs/spec/driver-sdk.md §11.3 to §11.5).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from cathedra.api import resource
from cathedra.api.core import meta_v1
from cathedra.api.struct import Time, replace
from cathedra.driver.publishing.layout import DesiredPool, DesiredSlice

__all__ = ["Plan", "Publisher", "adopt_taint_times", "plan"]

_TAINT_TOLERANCE = 1.0
"""Seconds by which two times of one taint may differ and still count as equal."""


class Publisher(msgspec.Struct, frozen=True):
    """Whose slices they are."""

    driver: str
    owner: meta_v1.OwnerReference | None = None
    node_name: str | None = None
    """Set on every slice; None where the slices are for several nodes."""


class Plan(msgspec.Struct, frozen=True):
    """What to do, in this order. Numbers are positions in the desired pool."""

    generation: int
    delete: tuple[resource.ResourceSlice, ...]
    update: Mapping[int, resource.ResourceSlice]
    create: Mapping[int, resource.ResourceSlice]

    @property
    def empty(self) -> bool:
        """Whether the cluster shows the desired state already."""
        return not (self.delete or self.update or self.create)


def plan(pool: DesiredPool, existing: Sequence[resource.ResourceSlice], publisher: Publisher) -> Plan:
    """How to get from ``existing`` to ``pool``."""
    count = len(pool.slices)
    width = max(5, len(f"{max(count - 1, 0):x}"))
    generation = max((s.spec.pool.generation for s in existing), default=0)
    current, obsolete = _assign(existing, count, width, generation)
    changed = {i for i, found in current.items() if not _same(found, pool, i, publisher)}
    missing = count - len(current)
    if pool.generation > generation:
        generation, everything = pool.generation, True
    elif missing == 0 and len(changed) <= 1:
        everything = False
    else:
        generation, everything = generation + 1, True
    return Plan(
        generation=generation,
        delete=tuple(obsolete),
        update={
            i: replace(found, spec=_spec(pool, i, publisher, generation, found))
            for i, found in sorted(current.items())
            if everything or i in changed
        },
        create={i: _new(pool, i, width, publisher, generation) for i in range(count) if i not in current},
    )


def _assign(
    existing: Sequence[resource.ResourceSlice], count: int, width: int, generation: int
) -> tuple[dict[int, resource.ResourceSlice], list[resource.ResourceSlice]]:
    numbered = re.compile(rf"([0-9a-f]{{{width}}})-")
    current: dict[int, resource.ResourceSlice] = {}
    obsolete: list[resource.ResourceSlice] = []
    for found in sorted(existing, key=lambda s: s.metadata.name):
        match = numbered.match(found.metadata.name)
        index = int(match[1], 16) if match else count
        if found.spec.pool.generation < generation or index >= count or index in current:
            obsolete.append(found)
            continue
        current[index] = found
    return current, obsolete


def _same(found: resource.ResourceSlice, pool: DesiredPool, index: int, publisher: Publisher) -> bool:
    # The generation is not compared: the slice has the pool's highest one, or it would be obsolete.
    return found.spec == _spec(pool, index, publisher, found.spec.pool.generation, found)


def _spec(
    pool: DesiredPool, index: int, publisher: Publisher, generation: int, found: resource.ResourceSlice | None = None
) -> resource.ResourceSliceSpec:
    desired: DesiredSlice = pool.slices[index]
    devices = desired.devices if found is None else adopt_taint_times(desired.devices, found.spec.devices)
    spec = resource.ResourceSliceSpec() if found is None else found.spec
    selects_nodes = desired.per_device_node_selection is None
    return replace(
        spec,
        driver=publisher.driver,
        pool=resource.ResourcePool(name=pool.name, generation=generation, resource_slice_count=len(pool.slices)),
        node_name=publisher.node_name if selects_nodes else None,
        node_selector=pool.node_selector if selects_nodes else None,
        all_nodes=True if pool.all_nodes and selects_nodes else None,
        devices=devices,
        per_device_node_selection=desired.per_device_node_selection,
        shared_counters=desired.shared_counters,
        skip_node_operations=pool.skip_node_operations,
        partition_type_attribute=pool.partition_type_attribute,
    )


def _new(pool: DesiredPool, index: int, width: int, publisher: Publisher, generation: int) -> resource.ResourceSlice:
    prefix = f"{index:0{width}x}-{publisher.driver}-"
    owners: tuple[meta_v1.OwnerReference, ...] = ()
    if publisher.owner is not None:
        prefix += f"{publisher.owner.name}-"
        owners = (publisher.owner,)
    return resource.ResourceSlice(
        metadata=meta_v1.ObjectMeta(generate_name=prefix, owner_references=owners),
        spec=_spec(pool, index, publisher, generation),
    )


def adopt_taint_times(
    desired: Sequence[resource.Device], present: Sequence[resource.Device]
) -> tuple[resource.Device, ...]:
    """``desired`` with the times of taints that are there already, where the driver gave none or nearly the same.

    The API server notes when a taint appeared; publishing it again must not move that moment.
    """
    known = {device.name: device.taints for device in present if device.taints}
    return tuple(_with_times(device, known.get(device.name, ())) if device.taints else device for device in desired)


def _with_times(device: resource.Device, present: Sequence[resource.DeviceTaint]) -> resource.Device:
    return replace(device, taints=tuple(_with_time(taint, present) for taint in device.taints))


def _with_time(taint: resource.DeviceTaint, present: Sequence[resource.DeviceTaint]) -> resource.DeviceTaint:
    wanted = None if taint.time_added is None else Time(round(taint.time_added.timestamp))
    for old in present:
        if (old.key, old.value, old.effect) != (taint.key, taint.value, taint.effect) or old.time_added is None:
            continue
        if wanted is None or abs(old.time_added.timestamp - wanted.timestamp) <= _TAINT_TOLERANCE:
            return replace(taint, time_added=old.time_added)
    return replace(taint, time_added=wanted)
