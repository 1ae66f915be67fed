"""Ledger of allocated devices.

The scheduler reads the free part of a pool thousands of times a second, while claims change one by one. The ledger is
therefore incremental: a claim costs the pools that it touches, a snapshot costs one shallow copy, and reading costs
nothing. It does not know slices: an allocated device that has vanished from its slice stays here until its claim is
deallocated (docs/spec/allocation.md §3). Allocations that are decided but not yet written are *assumed*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from itertools import compress, count, repeat
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cathedra.allocation.supply.devices import DeviceID, PoolID, groups_of
from cathedra.allocation.supply.snapshots import Changelog, Mark, SharedMap
from cathedra.api.resource import AllocationResult, DeviceRequestAllocationResult, ResourceClaim

if TYPE_CHECKING:
    from cathedra.allocation.supply.pools import PoolSupply


class Holding(msgspec.Struct, frozen=True, gc=False):
    """One share or the whole of a device, held by ``claim`` («namespace/name»)."""

    claim: str
    uid: str
    share_id: str | None = None
    consumed: tuple[tuple[str, int], ...] = ()
    """Qualified capacity name and nano-units."""
    counters: tuple[tuple[tuple[str, str], int], ...] = ()
    """Counter set and counter, and the nano-units that the request took of it."""


class PoolLedger(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Holdings in one pool: device name → holdings. Immutable; a change makes a new one."""

    holdings: Mapping[str, tuple[Holding, ...]] = msgspec.field(default_factory=dict)
    has_shares: bool = False
    """False if no device is held in shares."""


NOTHING: Final = PoolLedger()


class LedgerSnapshot(msgspec.Struct, frozen=True, eq=False):
    """The ledger at one moment. ``mark`` returns the changes since an earlier one."""

    pools: Mapping[PoolID, PoolLedger]
    mark: Mark[DeviceID]

    def pool(self, pool: PoolID) -> PoolLedger:
        """Return the holdings in ``pool``."""
        return self.pools.get(pool, NOTHING)

    def holders(self, driver: str, pool: str, device: str) -> tuple[Holding, ...]:
        """Return the holders of a device."""
        return self.pool((driver, pool)).holdings.get(device, ())


class Ledger:
    """Devices that claims hold. Admin access is never recorded, because it leaves the device free.

    A claim is identified by its UID, or by namespace and name if it has none. Adding a claim again replaces its
    holdings.
    """

    __slots__ = ("_assumed", "_changelog", "_large", "_pools", "_results", "_sharing", "_snapshot")

    def __init__(self) -> None:
        self._pools: SharedMap[PoolID, PoolLedger] = SharedMap()
        self._large: dict[PoolID, SharedMap[str, tuple[Holding, ...]]] = {}
        self._results: dict[str, tuple[DeviceRequestAllocationResult, ...]] = {}
        """Claim → its results, those with admin access too."""
        self._assumed: set[str] = set()
        self._sharing: set[PoolID] = set()
        """Pools in which a share was entered since nothing was held of them."""
        self._changelog: Changelog[DeviceID] = Changelog()
        self._snapshot: LedgerSnapshot | None = None

    def add(self, claim: ResourceClaim) -> None:
        """Record the devices of ``claim``, and replace its former record.

        A claim without an allocation holds nothing, unless one is assumed: then the assumption stays.
        """
        uid = key_of(claim)
        if claim.status.allocation is None:
            # The informer may send the claim as it was before the allocation was written. Dropping the assumption then
            # would free devices that are about to be used.
            if uid not in self._assumed:
                self._leave(uid)
            return
        self._assumed.discard(uid)
        self._enter(uid, _name_of(claim), claim.status.allocation.devices.results)

    update = add

    def hold(self, claim: ResourceClaim, allocation: AllocationResult) -> None:
        """Record ``allocation`` for ``claim``, whatever its status has, and replace its former record."""
        uid = key_of(claim)
        if self._assumed:
            self._assumed.discard(uid)
        self._enter(uid, _name_of(claim), allocation.devices.results)

    def hold_for(self, key: str, holder: str, results: tuple[DeviceRequestAllocationResult, ...]) -> None:
        """Record devices for a holder that is no claim, and replace its former record; `release` frees them."""
        self._enter(key, holder, results)

    def release(self, key: str) -> None:
        """Remove the record of `hold_for` under ``key``."""
        self._leave(key)

    def remove(self, claim: ResourceClaim) -> None:
        """Remove all records of ``claim``: it was deleted or deallocated."""
        uid = key_of(claim)
        self._assumed.discard(uid)
        self._leave(uid)

    def assume(self, claim: ResourceClaim, allocation: AllocationResult) -> None:
        """Enter an allocation that is decided but not yet written to the API."""
        uid = key_of(claim)
        self._assumed.add(uid)
        self._enter(uid, _name_of(claim), allocation.devices.results)

    def forget(self, claim: ResourceClaim) -> None:
        """Withdraw the assumed allocation of ``claim``; one that was confirmed meanwhile stays."""
        uid = key_of(claim)
        if uid in self._assumed:
            self._assumed.discard(uid)
            self._leave(uid)

    def is_assumed(self, claim: ResourceClaim) -> bool:
        """Return True if an allocation of ``claim`` is assumed and not yet confirmed."""
        return key_of(claim) in self._assumed

    def snapshot(self) -> LedgerSnapshot:
        """Return the state of this moment; the same object as long as nothing changes."""
        if self._snapshot is None:
            self._snapshot = LedgerSnapshot(self._pools.snapshot(), self._changelog.mark())
        return self._snapshot

    def copy(self) -> Ledger:
        """Another ledger with the same entries, to try things out."""
        other = Ledger()
        # Shared maps copy on write, so this costs references only.
        other._pools, other._results = self._pools.copy(), dict(self._results)
        other._assumed, other._sharing = set(self._assumed), set(self._sharing)
        other._large = {pool: holdings.copy() for pool, holdings in self._large.items()}
        return other

    def statistics(self) -> dict[str, int]:
        """Return the numbers of claims with holdings, of assumed claims, and of touched pools."""
        holding = sum(not all(one.admin_access for one in results) for results in self._results.values())
        return {"claims": holding, "assumed": len(self._assumed), "pools": len(self._pools)}

    def _enter(self, uid: str, name: str, results: tuple[DeviceRequestAllocationResult, ...]) -> None:
        before = self._results.get(uid)
        # Fast path: every update of a claim comes here, and most change something else.
        if before == results:
            return
        if before is not None:
            self._change(before, uid, None)
        self._results[uid] = results
        self._change(results, uid, name)

    def _leave(self, uid: str) -> None:
        results = self._results.pop(uid, None)
        if results is not None:
            self._change(results, uid, None)

    def _change(self, results: tuple[DeviceRequestAllocationResult, ...], uid: str, entering: str | None) -> None:
        """Add the devices of a claim under its name, or remove them if no name is given."""
        changed: dict[PoolID, dict[str, tuple[Holding, ...]] | SharedMap[str, tuple[Holding, ...]]] = {}
        for result in results:
            if result.admin_access:
                continue
            driver, pool_name, device = place = (result.driver, result.pool, result.device)
            pool = (driver, pool_name)
            holdings = changed.get(pool)
            if holdings is None:
                holdings = changed[pool] = self._changeable(pool)
            before = holdings.pop(device, ())
            if entering is None:
                after = _left(before, uid)
            else:
                made = _holding(entering, uid, result)
                after = _entered(before, made) if before else (made,)
                if made.share_id is not None:
                    self._sharing.add(pool)
            if after:
                holdings[device] = after
            self._changelog.note(place)
        for pool, holdings in changed.items():
            self._snapshot = None
            if holdings:
                now = holdings.snapshot() if isinstance(holdings, SharedMap) else holdings
                self._pools[pool] = PoolLedger(now, pool in self._sharing)
            else:
                self._pools.pop(pool, None)
                self._sharing.discard(pool)
                self._large.pop(pool, None)

    def _changeable(self, pool: PoolID) -> dict[str, tuple[Holding, ...]] | SharedMap[str, tuple[Holding, ...]]:
        """Return a copy of the holdings in a pool, to be changed and set."""
        if self._large and (large := self._large.get(pool)) is not None:
            return large
        known = (self._pools.get(pool) or NOTHING).holdings
        if len(known) <= _LARGE:
            return dict(known)
        # A pool that spans a cluster: copying it would cost more than the claim.
        large = self._large[pool] = SharedMap()
        for device, holding in known.items():
            large[device] = holding
        return large


_LARGE: Final = 1024


def _entered(before: tuple[Holding, ...], made: Holding) -> tuple[Holding, ...]:
    """Return the holders of a device after ``made`` is added."""
    if all(holding.uid == made.uid for holding in before):
        return (*before, made)
    # The same claims in another order must give the same ledger.
    return tuple(sorted([*before, made], key=lambda holding: (holding.uid, holding.share_id or "")))


def _left(before: tuple[Holding, ...], uid: str) -> tuple[Holding, ...]:
    """Return the holders of a device after ``uid`` is removed."""
    if len(before) == 1 and before[0].uid == uid:
        return ()
    return tuple([holding for holding in before if holding.uid != uid])


def key_of(claim: ResourceClaim) -> str:
    """Return the key of ``claim`` in the ledger."""
    return claim.metadata.uid or f"{claim.metadata.namespace}/{claim.metadata.name}"


def _name_of(claim: ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def _holding(claim: str, uid: str, result: DeviceRequestAllocationResult) -> Holding:
    if not result.consumed_capacity and not result.consumed_counters:
        return Holding(claim, uid, result.share_id, ())
    consumed = tuple(
        sorted((qualified(name, result.driver), amount.nanos) for name, amount in result.consumed_capacity.items())
    )
    counters = tuple(
        ((one.counter_set, name), amount.nanos)
        for one in result.consumed_counters
        for name, amount in sorted(one.counters.items())
    )
    return Holding(claim, uid, result.share_id, consumed, counters)


def qualified(name: str, driver: str) -> str:
    """Return the full name of a capacity or attribute; a bare name belongs to the driver."""
    return name if "/" in name else f"{driver}/{name}"


# --- state of a pool


class StateKey(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Key of a pool's state. It is compared for every pool of every node, so its hash is cached."""

    taken: int
    shared: int
    capacity: tuple[Any, ...]
    available: tuple[int, ...]
    groups: tuple[Any, ...]


_FEW_DEVICES: Final = 64
"""Devices of a pool up to which the bits of all of them are kept."""
_ZEROS: Final = repeat(0)
_name: Final = attrgetter("name")
_EMPTY: Final[Mapping[Any, Any]] = MappingProxyType({})


class PoolState(msgspec.Struct, eq=False, gc=False):
    """State of one pool: masks over its devices, capacity in use, and counters that are left."""

    # Most pools have neither shared devices nor counters. They share an empty mapping: three dictionaries for each pool
    # of each node are felt by the garbage collector.
    taken: int = 0
    shared: int = 0
    capacity: Mapping[int, Mapping[str, int]] = _EMPTY
    available: Mapping[tuple[str, str], int] = _EMPTY
    groups: Mapping[str, frozenset[str]] = _EMPTY
    key: StateKey | int | None = None
    """Equal for equal states of equal pools; None if nothing is held."""

    @staticmethod
    def of(pool: PoolSupply, ledger: PoolLedger, *, shares: bool) -> PoolState:
        """Return the state of a pool in which the devices of ``ledger`` are held."""
        held = ledger.holdings
        if not held:
            return PoolState(available=pool.counters or _EMPTY)
        if len(pool.devices) <= _FEW_DEVICES and not (shares and ledger.has_shares):
            # Fast path: as usual, every device is held as a whole.
            taken = sum(map(pool.bits.get, held, _ZEROS))
            if not pool.counters:
                return PoolState(taken, key=taken)
            state = PoolState(taken)
        else:
            state = PoolState()
            state._take(pool, held, shares=shares)
        if pool.counters:
            state.available, state.groups = _charged(pool, held)
        elif not state.shared:
            state.key = state.taken
            return state
        state.key = StateKey(
            state.taken,
            state.shared,
            state._capacity_key() if state.capacity else (),
            tuple(state.available.values()) if pool.counters else (),
            state._groups_key() if state.groups else (),
        )
        return state

    def without(self, devices: int) -> PoolState:
        """Return the state in which some devices are withheld, without consuming their counters."""
        if not devices:
            return self
        other = copy(self)
        other.taken |= devices
        # A key of its own is not needed: results for such a state are not kept.
        other.key = None
        return other

    def _capacity_key(self) -> tuple[Any, ...]:
        return tuple([(at, tuple(sorted(used.items()))) for at, used in sorted(self.capacity.items())])

    def _groups_key(self) -> tuple[Any, ...]:
        return tuple(sorted([(name, tuple(sorted(of))) for name, of in self.groups.items()]))

    def _take(self, pool: PoolSupply, held: Mapping[str, tuple[Holding, ...]], *, shares: bool) -> None:
        dedicated = 0
        capacity: dict[int, dict[str, int]] = {}
        # No loop over the devices that are free: there may be hundreds, and this is done for each allocation.
        names = list(map(_name, pool.devices))
        for position in compress(count(), map(held.__contains__, names)):
            holdings = held[names[position]]
            if len(holdings) == 1 and holdings[0].share_id is None:  # as nearly all
                dedicated |= 1 << position
            else:
                self._enter(position, holdings, capacity, shares=shares)
        self.taken |= dedicated
        self.capacity = capacity or _EMPTY

    def _enter(
        self, position: int, holdings: Iterable[Any], capacity: dict[int, dict[str, int]], *, shares: bool
    ) -> None:
        for holding in holdings:
            if holding.share_id is None or not shares:
                self.taken |= 1 << position
                continue
            self.shared |= 1 << position
            if holding.consumed:
                used = capacity.setdefault(position, {})
                for name, amount in holding.consumed:
                    used[name] = used.get(name, 0) + amount


def _charged(
    pool: PoolSupply, held: Mapping[str, tuple[Holding, ...]]
) -> tuple[dict[tuple[str, str], int], dict[str, frozenset[str]]]:
    """Return what the held devices of a pool leave of its counters, and the compatibility groups that remain."""
    available, remaining = dict(pool.counters), dict[str, frozenset[str]]()
    for record in (*pool.devices, *pool.others):
        if record.name not in held:
            continue
        for holding in held[record.name]:
            # The amount at the time of the allocation: the driver may have changed the policy since.
            for place, taken in holding.counters:
                available[place] = available.get(place, 0) - taken
        for consumption in record.device.consumes_counters:
            for name, counter in consumption.counters.items():
                key = (consumption.counter_set, name)
                available[key] = available.get(key, 0) - counter.amount.nanos
            groups = frozenset(groups_of(consumption))
            before = remaining.get(consumption.counter_set)
            remaining[consumption.counter_set] = groups if before is None else before & groups
    return available, remaining
