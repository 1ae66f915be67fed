"""Placement of the counter sets of a pool: in slices of their own, or beside the devices that consume them.

From Kubernetes 1.35 on, counter sets are in slices without devices. Before, a device consumes counters of its own slice
alone, and a slice has no more than 32 counters (docs/spec/driver-sdk.md §10). `layout` makes the first form; the
controller of slices changes it to the form of the server just before it writes, because a server can be upgraded while
the driver runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from cathedra.api import resource
from cathedra.driver.publishing.layout import MAX_DEVICES, DesiredPool, DesiredSlice, slices_of

MAX_COUNTERS_OF_SLICE: Final = 32
"""Number of counters in all sets of a slice up to Kubernetes 1.34."""


def counters_apart(pool: DesiredPool) -> DesiredPool:
    """Return the pool with counter sets in slices of their own; the same object if it is so already."""
    if not any(part.shared_counters and part.devices for part in pool.slices):
        return pool
    devices = tuple(device for part in pool.slices for device in part.devices)
    counters = tuple(one for part in pool.slices for one in part.shared_counters)
    return msgspec.structs.replace(pool, slices=slices_of(devices, counters, pool.slices[0].per_device_node_selection))


def counters_at_devices(pool: DesiredPool) -> DesiredPool:
    """Return the pool with each counter set in the slice of the devices that consume it; the same object if it has no
    counters, or is so already.

    Devices of one set stay together and keep their order. A set with more devices than a slice holds cannot be
    published to such a server, which then refuses the slice.
    """
    if not any(part.shared_counters for part in pool.slices):
        return pool
    per_device = pool.slices[0].per_device_node_selection
    slices = tuple(DesiredSlice(tuple(one.devices), tuple(one.counters), per_device) for one in _packed(_groups(pool)))
    return pool if slices == pool.slices else msgspec.structs.replace(pool, slices=slices)


@dataclass(slots=True)
class _SliceGroup:
    """Devices and counter sets that must be in one slice."""

    devices: list[resource.Device] = field(default_factory=list)
    counters: list[resource.CounterSet] = field(default_factory=list)

    def has_room(self, other: _SliceGroup) -> bool:
        """Return True if the devices and counters of ``other`` fit into the same slice."""
        total = sum(len(one.counters) for one in (*self.counters, *other.counters))
        return len(self.devices) + len(other.devices) <= MAX_DEVICES and total <= MAX_COUNTERS_OF_SLICE


def _groups(pool: DesiredPool) -> Sequence[_SliceGroup]:
    """Return the devices that share counter sets, directly or by others, in the order of their first device."""
    sets = {one.name: one for part in pool.slices for one in part.shared_counters}
    group_of: dict[str, _SliceGroup] = {}
    groups: list[_SliceGroup] = []
    for device in (device for part in pool.slices for device in part.devices):
        names = [one.counter_set for one in device.consumes_counters if one.counter_set in sets]
        met = _distinct(group_of[name] for name in names if name in group_of)
        group, *others = met or [_SliceGroup()]
        if not met:
            groups.append(group)
        for other in others:
            # This device consumes from two groups, which are one from here on.
            group.devices += other.devices
            group.counters += other.counters
            groups = [one for one in groups if one is not other]
        group.devices.append(device)
        group.counters += [sets[name] for name in dict.fromkeys(names) if name not in group_of]
        group_of |= {one.name: group for one in group.counters}
    groups += [_SliceGroup(counters=[one]) for name, one in sets.items() if name not in group_of]
    return groups


def _distinct(groups: Iterable[_SliceGroup]) -> list[_SliceGroup]:
    return list({id(group): group for group in groups}.values())


def _packed(groups: Iterable[_SliceGroup]) -> Iterator[_SliceGroup]:
    """Yield slices that hold as many groups as fit, in their order."""
    part: _SliceGroup | None = None
    for group in groups:
        if part is not None and part.has_room(group):
            part.devices += group.devices
            part.counters += group.counters
            continue
        if part is not None:
            yield part
        part = group
    if part is not None:
        yield part
