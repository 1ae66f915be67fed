"""Devices that claims hold. An allocation of what another claim holds already is refused.

The optimistic lock of a claim covers that claim alone. Two schedulers that work at the same time, or a late request of
a former leader, could therefore allocate one device to two claims: Kubernetes has no guard there. Here the write is
compared with all claims in the same turn of the loop in which it is put into the log, and the loser is answered with
409, as after any other lost race. A scheduler withdraws its decision then, and tries the pod again.

Only devices that slices publish are compared: for others there is no rule that an allocation could break.

On a store that several servers share, another one may have written an allocation that has not arrived here yet. So each
pool has a fence, a key without a value that is written in the transaction of each allocation from the pool. The
transaction fails if the fence has another revision than the one that this server has seen. The server then waits for
the revision, and compares the claim again.

The fence of a pool is removed when the pool has no slice and no claim holds a device of it. Like an allocation, the
removal is compared with the fence's revision: if another server has allocated from the pool since, nothing is removed.
From a pool without a fence no claim holds anything, so a server that has never seen the fence may allocate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from cathedra.allocation.supply.ledger import qualified
from cathedra.api.quantity import Quantity
from cathedra.api.resource import (
    AllocationResult,
    Device,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSlice,
)
from cathedra.api.scheme import GroupResource
from cathedra.api.status import conflict
from cathedra.apiserver.registry.storedobject import StoredObject, split_key
from cathedra.apiserver.registry.table import Table
from cathedra.apiserver.registry.tables import Tables
from cathedra.apiserver.registry.watching import StoredChange

FENCES: Final = "cathedra.dev/allocations/"
"""Prefix of the fences of pools in the store. Driver and pool follow."""
CLAIMS: Final = GroupResource("resource.k8s.io", "resourceclaims")
SLICES: Final = GroupResource("resource.k8s.io", "resourceslices")

_Pool = tuple[str, str]
"""Driver and name of a pool."""
_Counter = tuple[str, str]
"""Counter set and name of a counter."""
_Results = tuple[DeviceRequestAllocationResult, ...]


RetireFence = Callable[[str, Callable[[], bool]], None]
"""Removes a fence, if the function that is passed returns True when the removal is sent."""


class _Supply(msgspec.Struct, frozen=True, gc=False):
    """The newest generation of a pool."""

    devices: dict[str, Device]
    counters: dict[_Counter, Quantity]


class DeviceHolders:
    """Compares allocations with what other claims hold."""

    def __init__(self, claims: Table, slices: Table, retire: RetireFence) -> None:
        self._claims, self._slices, self._retire = claims, slices, retire
        self._held: dict[_Pool, dict[str, dict[str, _Results]]] = {}
        """Pool → device → key of a claim → what it holds of the device, or will."""
        self._under_way: dict[str, _Results] = {}
        """By key of a claim: allocations that are put into the log and not settled yet, or that failed."""
        self._published: dict[_Pool, dict[str, None]] = {}
        """The keys of the slices of each pool."""
        self._supplies: dict[_Pool, _Supply] = {}
        """Of the pools from which something was allocated since their slices last changed. Made for each allocation,
        they would cost a walk over the pool."""
        for entry in claims.entries():
            self._enter(entry.key)
        for entry in slices.entries():
            self._published.setdefault(_pool_of(entry.object), {})[entry.key] = None
        claims.observe(self._claim_changed)
        slices.observe(self._slice_changed)

    def check(self, key: str, previous: StoredObject | None, claim: Any) -> Collection[str]:
        """Compare a claim that is to be written with all others, and note its allocation as under way. Return the
        fences of the pools from which it allocates.

        Raises:
            StatusError: 409, another claim holds one of its devices, or they are more than their pool has.
        """
        # No write of the claim is under way now. What is noted is of one that failed.
        if key in self._under_way:
            self._forget_failed(key)
        former = None if previous is None else previous.object.status.allocation
        latter = claim.status.allocation
        # Fast path: most writes of a claim leave its allocation as it is, and then share the object.
        if latter is former or latter is None:
            return ()
        held = _holding(latter)
        if not held or (former is not None and _holding(former) == held):
            return ()
        self._forget_all_failed()
        by_pool: dict[_Pool, list[DeviceRequestAllocationResult]] = {}
        for one in held:
            by_pool.setdefault((one.driver, one.pool), []).append(one)
        for pool, own in by_pool.items():
            if problem := self._problem(key, pool, own):
                raise conflict(CLAIMS, split_key(key)[1], problem)
        self._under_way[key] = held
        self._hold(key, held)
        return [_fence_of(pool) for pool in by_pool]

    def retire_if_vacant(self, pool: _Pool) -> None:
        """Remove the fence of a pool that has no slice and from which no claim holds a device."""
        if self._is_vacant(pool):
            self._retire(_fence_of(pool), partial(self._is_vacant, pool))

    def _is_vacant(self, pool: _Pool) -> bool:
        if pool in self._published:
            return False
        self._forget_all_failed()
        return pool not in self._held

    def _problem(self, key: str, pool: _Pool, own: list[DeviceRequestAllocationResult]) -> str:
        supply = self._supply(pool)
        for one in own:
            device = supply.devices.get(one.device)
            if device is None:
                continue
            others = self._others(key, pool, one.device)
            for claim, results in others.items():
                if one.share_id is None or any(other.share_id is None for other in results):
                    return f"device {'/'.join((*pool, one.device))} is allocated to claim {claim}"
            if one.share_id is not None:
                parts = [other for results in others.values() for other in results]
                problem = _over_capacity(device, [*parts, *(mine for mine in own if mine.device == one.device)])
                if problem:
                    return f"device {'/'.join((*pool, one.device))} {problem}"
        # Only counters that slices publish are compared.
        return self._over_counters(key, pool, own) if supply.counters else ""

    def _over_counters(self, key: str, pool: _Pool, own: list[DeviceRequestAllocationResult]) -> str:
        supply = self._supply(pool)
        drawn = _drawn(supply, own)
        if not drawn:
            return ""
        results = [*own]
        for name in self._held.get(pool, ()):
            for parts in self._others(key, pool, name).values():
                results += parts
        total = _drawn(supply, results)
        for counter in drawn:
            there = supply.counters.get(counter)
            if there is not None and total[counter] > there.nanos:
                used = Quantity.of_nanos(total[counter], there.format)
                return f"pool {'/'.join(pool)} has {there} of counter {'/'.join(counter)}, and claims would use {used}"
        return ""

    def _others(self, key: str, pool: _Pool, device: str) -> dict[str, _Results]:
        """Return what claims other than ``key`` hold of a device, or will."""
        holders = self._held.get(pool, {}).get(device, {})
        return {claim: results for claim, results in holders.items() if claim != key}

    def _supply(self, pool: _Pool) -> _Supply:
        known = self._supplies.get(pool)
        if known is None:
            known = self._supplies[pool] = _supply_of(list(self._slices_of(pool)))
        return known

    def _slices_of(self, pool: _Pool) -> Iterator[ResourceSlice]:
        for key in self._published.get(pool, ()):
            entry = self._slices.get(key)
            if entry is not None:
                yield entry.object

    def _claim_changed(self, change: StoredChange) -> None:
        entry, previous = change.entry, change.previous
        key = entry.key
        # A later write of the claim may be under way soon, with which this note has nothing to do.
        noted = self._under_way.pop(key, ())
        former = None if previous is None else previous.object.status.allocation
        latter = None if change.deleted else entry.object.status.allocation
        # Fast path: most changes of a claim are those of its other fields.
        if former is latter and not noted:
            return
        before, after = _holding(former), _holding(latter)
        # What was noted when the write began is held already.
        if (noted or before) == after and not (noted and before):
            return
        self._leave(key, (*before, *noted))
        self._hold(key, after)
        for one in before:
            self.retire_if_vacant((one.driver, one.pool))

    def _forget_all_failed(self) -> None:
        """Forget the allocations that failed, and whose claims were not written again."""
        for key in [key for key in self._under_way if key not in self._claims.under_way]:
            self._forget_failed(key)

    def _forget_failed(self, key: str) -> None:
        """Forget the allocation of a claim that was noted as under way and failed."""
        self._leave(key, self._under_way.pop(key))
        self._enter(key)

    def _enter(self, key: str) -> None:
        """Note what a stored claim holds."""
        entry = self._claims.get(key)
        if entry is not None:
            held = _holding(entry.object.status.allocation)
            self._leave(key, held)
            self._hold(key, held)

    def _leave(self, key: str, results: _Results) -> None:
        for one in results:
            pool = one.driver, one.pool
            devices = self._held.get(pool, {})
            holders = devices.get(one.device, {})
            holders.pop(key, None)
            # Pools and devices come and go; empty entries of former ones would stay for ever.
            if not holders:
                devices.pop(one.device, None)
            if not devices:
                self._held.pop(pool, None)

    def _hold(self, key: str, results: _Results) -> None:
        for one in results:
            holders = self._held.setdefault((one.driver, one.pool), {}).setdefault(one.device, {})
            holders[key] = (*holders.get(key, ()), one)

    def _slice_changed(self, change: StoredChange) -> None:
        key = change.entry.key
        if change.previous is not None:
            former = _pool_of(change.previous.object)
            self._supplies.pop(former, None)
            keys = self._published[former]
            del keys[key]
            if not keys:
                del self._published[former]
        if not change.deleted:
            pool = _pool_of(change.entry.object)
            self._supplies.pop(pool, None)
            self._published.setdefault(pool, {})[key] = None
        if change.previous is not None:
            self.retire_if_vacant(former)


def guard_devices(tables: Tables, retire: RetireFence) -> None:
    """Check every allocation from now on, if claims and slices are served in the form of structured parameters.
    ``retire`` is called with the fences of pools that are gone."""
    claims, slices = tables.get(CLAIMS), tables.get(SLICES)
    if claims is None or slices is None:
        return
    # Releases up to 1.31 have structs of their own: up to 1.30 an allocation names no device, and the results of 1.31
    # do not show admin access, so a device that an administrator monitors would count as held twice.
    if claims.definition.type is ResourceClaim and slices.definition.type is ResourceSlice:
        holders = DeviceHolders(claims, slices, retire)
        claims.check = holders.check
        # Pools may have gone while no server ran.
        for fence in tables.unclaimed_keys(FENCES):
            driver, _, name = fence.removeprefix(FENCES).partition("/")
            holders.retire_if_vacant((driver, name))


def _holding(allocation: AllocationResult | None) -> _Results:
    """Return the results that hold devices: admin access leaves a device free."""
    return () if allocation is None else tuple([one for one in allocation.devices.results if not one.admin_access])


def _fence_of(pool: _Pool) -> str:
    return f"{FENCES}{pool[0]}/{pool[1]}"


def _pool_of(published: Any) -> _Pool:
    return published.spec.driver, published.spec.pool.name


def _supply_of(slices: list[ResourceSlice]) -> _Supply:
    newest = max((one.spec.pool.generation for one in slices), default=0)
    current = [one.spec for one in slices if one.spec.pool.generation == newest]
    times = Counter(counters.name for spec in current for counters in spec.shared_counters)
    counters = {
        (one.name, name): counter.amount
        for spec in current
        for one in spec.shared_counters
        # Up to 1.34 a set belongs to its slice, and two slices may have sets of one name: then none of them is
        # compared.
        if times[one.name] == 1
        for name, counter in one.counters.items()
    }
    return _Supply({device.name: device for spec in current for device in spec.devices}, counters)


def _drawn(supply: _Supply, results: list[DeviceRequestAllocationResult]) -> dict[_Counter, int]:
    """Return the nano-units of each counter that allocated devices of a pool consume."""
    drawn: dict[_Counter, int] = {}
    # A device draws its counters once, by however many claims it is shared.
    for name in dict.fromkeys(one.device for one in results):
        device = supply.devices.get(name)
        for consumption in device.consumes_counters if device is not None else ():
            for counter, amount in consumption.counters.items():
                place = consumption.counter_set, counter
                drawn[place] = drawn.get(place, 0) + amount.amount.nanos
    for one in results:
        for consumed in one.consumed_counters:
            for counter, taken in consumed.counters.items():
                place = consumed.counter_set, counter
                drawn[place] = drawn.get(place, 0) + taken.nanos
    return drawn


def _over_capacity(device: Device, results: list[DeviceRequestAllocationResult]) -> str:
    driver = results[0].driver
    used: dict[str, int] = {}
    for one in results:
        for name, amount in one.consumed_capacity.items():
            place = qualified(name, driver)
            used[place] = used.get(place, 0) + amount.nanos
    for name, capacity in device.capacity.items():
        if used.get(qualified(name, driver), 0) > capacity.value.nanos:
            total = Quantity.of_nanos(used[qualified(name, driver)], capacity.value.format)
            return f"has {capacity.value} of capacity {name}, and claims would use {total}"
    return ""
