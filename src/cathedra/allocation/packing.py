"""Choice of devices within a node so that large ones stay free: partitions and shares of devices already in use.

Kubernetes takes the first suitable device of the slices. Here further allocations are tried, with some devices
withheld, and the one that leaves most is chosen. A *unit* is the whole of which partitions and shares are parts: a
counter set, or a device that may be allocated several times. First, units in use are tried, the fullest one alone, then
the two fullest, and so on. Of the partitions that may be taken there, the one is chosen after which the largest
partitions are still available. The number of trials is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from cathedra.allocation.allocator import PreparedRequests
from cathedra.allocation.answers import Allocation
from cathedra.allocation.errors import AllocationError
from cathedra.allocation.supply.ledger import PoolLedger, PoolState, qualified
from cathedra.allocation.supply.pools import PoolSupply
from cathedra.api.core.core_v1 import Node

MOST_UNITS: Final = 16
"""Maximum number of units in use that are tried."""
MOST_ALTERNATIVES: Final = 16
"""Largest number of partitions that are compared."""
_WHOLE: Final = 1000


class DeviceUnit(msgspec.Struct, frozen=True):
    """A device as a whole, with its partitions or shares."""

    pool: int
    """Place among the usable pools of the node."""
    devices: int
    """Mask of the devices that are parts of it."""
    used: float
    """Share that is in use, between 0 and 1; of several counters or capacities the mean."""


def units_of(place: int, pool: PoolSupply, state: PoolState) -> Iterator[DeviceUnit]:
    """Yield the units of a pool. A device that belongs to one claim and uses no counters is in none."""
    sets: dict[str, int] = {}
    for at, record in enumerate(pool.devices):
        consumed = {one.counter_set for one in record.device.consumes_counters}
        for name in consumed:
            sets[name] = sets.get(name, 0) | 1 << at
        if not consumed and record.shareable:
            totals = {qualified(name, pool.id[0]): one.value.nanos for name, one in record.device.capacity.items()}
            used = _used(totals, state.capacity.get(at, {}), bool(state.shared >> at & 1))
            # A device that can be shared and is held by one claim alone is full.
            yield DeviceUnit(place, 1 << at, 1.0 if state.taken >> at & 1 else used)
    for name, devices in sets.items():
        totals = {counter: amount for (of, counter), amount in pool.counters.items() if of == name}
        left = {counter: amount for (of, counter), amount in state.available.items() if of == name}
        taken = {counter: amount - left.get(counter, amount) for counter, amount in totals.items()}
        yield DeviceUnit(place, devices, _used(totals, taken, False))


def room_of(pool: PoolSupply, ledger: PoolLedger) -> tuple[int, int]:
    """Return the devices of a pool and those in use, in thousandths; a unit counts as one device."""
    # Fast path: most pools have neither partitions nor shares, and this runs for every node that is scored.
    if not pool.counters and not pool.shareable:
        return _WHOLE * len(pool.devices), _WHOLE * len(ledger.holdings)
    state = pool.state(ledger, shares=True)
    units = list(units_of(0, pool, state))
    parts = 0
    for unit in units:
        parts |= unit.devices
    others = len(pool.devices) - parts.bit_count()
    used = sum(round(_WHOLE * min(max(unit.used, 0.0), 1.0)) for unit in units)
    return _WHOLE * (others + len(units)), used + _WHOLE * (state.taken & ~parts).bit_count()


def _used(totals: Mapping[str, int], taken: Mapping[str, int], is_shared: bool) -> float:
    # A share that takes no capacity uses the device nevertheless.
    return max(_share(totals, taken), 0.001 if is_shared else 0.0)


def _share(totals: Mapping[Any, int], taken: Mapping[Any, int]) -> float:
    """Return the mean of the shares of all counters or capacities: partitions often have a counter for each place."""
    return sum(taken.get(key, 0) / total for key, total in totals.items() if total) / max(len(totals), 1)


def packed(prepared: PreparedRequests, node: Node) -> Allocation | None:
    """Return the allocation that leaves most of the node's units whole; None if they do not matter there, or nothing
    is found."""
    pools, states = prepared.pools_on(node)
    units = [unit for place, pool in enumerate(pools) for unit in units_of(place, pool, states[place])]
    if not units:
        return None
    try:
        found, withheld = _in_fullest_units(prepared, node, len(pools), units)
        if found is None:
            return None
        return _with_largest_left(prepared, node, pools, states, (found, withheld))
    except AllocationError:
        return None


def _in_fullest_units(
    prepared: PreparedRequests, node: Node, pools: int, units: Sequence[DeviceUnit]
) -> tuple[Allocation | None, tuple[int, ...]]:
    """Return the allocation in the fewest of the fullest units, and the devices that were withheld for it."""
    begun = sorted((unit for unit in units if unit.used), key=lambda unit: -unit.used)[:MOST_UNITS]
    for number in range(1, len(begun) + 1):
        allowed = [0] * pools
        for unit in begun[:number]:
            allowed[unit.pool] |= unit.devices
        withheld = [0] * pools
        for unit in units:
            withheld[unit.pool] |= unit.devices & ~allowed[unit.pool]
        found = prepared.on_without(node, withheld)
        if found is not None:
            return found, tuple(withheld)
    nothing = (0,) * pools
    return prepared.on_without(node, nothing), nothing


def _with_largest_left(
    prepared: PreparedRequests,
    node: Node,
    pools: Sequence[PoolSupply],
    states: Sequence[PoolState],
    first: tuple[Allocation, tuple[int, ...]],
) -> Allocation:
    """Return the allocation after which the largest partition is left, among those that differ in one partition."""
    best, withheld = first
    partition = _only_partition(best, pools)
    if partition is None:
        return best
    score = _left(best, pools, states)
    masks = list(withheld)
    for _ in range(MOST_ALTERNATIVES):
        if partition is None:
            break
        place, at = partition
        masks[place] |= 1 << at
        other = prepared.on_without(node, masks)
        if other is None:
            break
        left = _left(other, pools, states)
        if left > score:
            best, score = other, left
        partition = _only_partition(other, pools)
    return best


def _only_partition(allocation: Allocation, pools: Sequence[PoolSupply]) -> tuple[int, int] | None:
    """Return pool and place of the partition of an allocation; None if it has none or several."""
    found = [
        (place, at) for place, at in _places(allocation, pools) if pools[place].devices[at].device.consumes_counters
    ]
    return found[0] if len(found) == 1 else None


def _places(allocation: Allocation, pools: Sequence[PoolSupply]) -> Iterator[tuple[int, int]]:
    names = {(one.driver, one.pool, one.device) for result in allocation.results for one in result.devices.results}
    for place, pool in enumerate(pools):
        for at, record in enumerate(pool.devices):
            if (*pool.id, record.name) in names:
                yield place, at


def _left(allocation: Allocation, pools: Sequence[PoolSupply], states: Sequence[PoolState]) -> list[float]:
    """Return the sizes of the partitions that are left, as shares of their counters, the largest first.

    Lists are compared from their beginning: a large partition is worth more than any number of smaller ones.
    """
    taken: dict[int, list[int]] = {}
    for place, at in _places(allocation, pools):
        taken.setdefault(place, []).append(at)
    sizes = [size for place, ats in taken.items() for size in _sizes_left(pools[place], states[place], ats)]
    return sorted(sizes, reverse=True)


def _sizes_left(pool: PoolSupply, state: PoolState, taken: Sequence[int]) -> Iterator[float]:
    left = dict(state.available)
    for at in taken:
        for key, amount in _consumed(pool, at).items():
            left[key] = left.get(key, 0) - amount
    for at in range(len(pool.devices)):
        consumed = _consumed(pool, at)
        if not consumed or at in taken or state.taken >> at & 1:
            continue
        if all(left.get(key, 0) >= amount for key, amount in consumed.items()):
            sets = {name for name, _ in consumed}
            yield _share({key: total for key, total in pool.counters.items() if key[0] in sets}, consumed)


def _consumed(pool: PoolSupply, at: int) -> dict[tuple[str, str], int]:
    return {
        (one.counter_set, name): counter.amount.nanos
        for one in pool.devices[at].device.consumes_counters
        for name, counter in one.counters.items()
    }
