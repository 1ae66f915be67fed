"""What is allocated, and what is left: the ledger of the cluster's devices.

The scheduler asks for the free part of a pool thousands of times a second, while claims change one by one. So the
ledger is kept incrementally: a claim costs the pools it touches, a snapshot costs one shallow copy, and reading costs
nothing. It knows no slices; an allocated device that has vanished from its slice stays here until its claim lets
go (spec: allocation.md, section 3). Allocations that are decided but not yet written are *assumed*.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Final

import msgspec

from cathedra.allocation.supply.devices import PoolID
from cathedra.api.resource import AllocationResult, DeviceRequestAllocationResult, ResourceClaim
from cathedra.api.struct import replace

__all__ = ["NOTHING", "Holding", "Ledger", "LedgerSnapshot", "PoolLedger"]


class Holding(msgspec.Struct, frozen=True):
    """One share or the whole of a device, held by ``claim`` («namespace/name»)."""

    claim: str
    uid: str
    share_id: str | None = None
    consumed: tuple[tuple[str, int], ...] = ()
    """Qualified capacity name and nano-units."""


class PoolLedger(msgspec.Struct, frozen=True, eq=False):
    """What is held of one pool: device name → holdings. Immutable; a change makes another one."""

    holdings: Mapping[str, tuple[Holding, ...]] = msgspec.field(default_factory=dict)


NOTHING: Final = PoolLedger()


class LedgerSnapshot:
    """The ledger at one moment. Immutable.

    ``changed`` names the pools in which it differs from the snapshot before, which `follows` tells.
    """

    __slots__ = ("__weakref__", "_before", "changed", "pools")

    def __init__(
        self,
        pools: Mapping[PoolID, PoolLedger],
        before: LedgerSnapshot | None = None,
        changed: frozenset[PoolID] = frozenset(),
    ) -> None:
        self.pools = pools
        self.changed = changed
        # Weak, or every snapshot would keep all that went before.
        self._before = None if before is None else weakref.ref(before)

    def follows(self, other: LedgerSnapshot) -> bool:
        """Whether ``other`` is the snapshot right before this one."""
        return self._before is not None and self._before() is other

    def pool(self, pool: PoolID) -> PoolLedger:
        """What is held of ``pool``."""
        return self.pools.get(pool, NOTHING)

    def holders(self, driver: str, pool: str, device: str) -> tuple[Holding, ...]:
        """Who holds a device."""
        return self.pool((driver, pool)).holdings.get(device, ())


class Ledger:
    """Devices that claims hold. Admin access is never entered: it takes nothing away from anybody.

    A claim is known by its UID, or by namespace and name if it has none. Entering a claim again replaces what it held.
    """

    __slots__ = ("_assumed", "_changed", "_entered", "_pools", "_snapshot")

    def __init__(self) -> None:
        self._pools: dict[PoolID, PoolLedger] = {}
        self._entered: dict[str, tuple[tuple[PoolID, str, Holding], ...]] = {}
        self._assumed: set[str] = set()
        self._snapshot: LedgerSnapshot | None = None
        self._changed: set[PoolID] = set()

    def add(self, claim: ResourceClaim) -> None:
        """Enter what ``claim`` holds, instead of what it held before.

        A claim without an allocation holds nothing, unless one is assumed: then the assumption stays.
        """
        uid = key_of(claim)
        if claim.status.allocation is None:
            if uid not in self._assumed:
                self._leave(uid)
            return
        self._assumed.discard(uid)
        self._enter(uid, claim, claim.status.allocation)

    update = add

    def remove(self, claim: ResourceClaim) -> None:
        """Forget everything about ``claim``: it was deleted or deallocated."""
        uid = key_of(claim)
        self._assumed.discard(uid)
        self._leave(uid)

    def assume(self, claim: ResourceClaim, allocation: AllocationResult) -> None:
        """Enter an allocation that is decided but not yet written to the API."""
        uid = key_of(claim)
        self._assumed.add(uid)
        self._enter(uid, claim, allocation)

    def forget(self, claim: ResourceClaim) -> None:
        """Withdraw what was assumed for ``claim``; an allocation that was confirmed meanwhile stays."""
        uid = key_of(claim)
        if uid in self._assumed:
            self._assumed.discard(uid)
            self._leave(uid)

    def is_assumed(self, claim: ResourceClaim) -> bool:
        """Whether an allocation of ``claim`` is assumed and not yet confirmed."""
        return key_of(claim) in self._assumed

    def snapshot(self) -> LedgerSnapshot:
        """The state of this moment; the same object as long as nothing changes."""
        if self._snapshot is None or self._changed:
            self._snapshot = LedgerSnapshot(dict(self._pools), self._snapshot, frozenset(self._changed))
            self._changed.clear()
        return self._snapshot

    def copy(self) -> Ledger:
        """Another ledger with the same entries, to try things out."""
        other = Ledger()
        other._pools, other._entered, other._assumed = dict(self._pools), dict(self._entered), set(self._assumed)
        return other

    def statistics(self) -> dict[str, int]:
        """How many claims hold something, how many of them are assumed, and how many pools are touched."""
        return {"claims": len(self._entered), "assumed": len(self._assumed), "pools": len(self._pools)}

    def _enter(self, uid: str, claim: ResourceClaim, allocation: AllocationResult) -> None:
        name = f"{claim.metadata.namespace}/{claim.metadata.name}"
        entries = tuple(
            ((result.driver, result.pool), result.device, _holding(name, uid, result))
            for result in allocation.devices.results
            if not result.admin_access
        )
        if self._entered.get(uid, ()) == entries:
            return
        self._leave(uid)
        if not entries:
            return
        self._entered[uid] = entries
        self._change(entries, uid, entering=True)

    def _leave(self, uid: str) -> None:
        entries = self._entered.pop(uid, ())
        if entries:
            self._change(entries, uid, entering=False)

    def _change(self, entries: tuple[tuple[PoolID, str, Holding], ...], uid: str, *, entering: bool) -> None:
        for pool in {entry[0] for entry in entries}:
            self._changed.add(pool)
            holdings = dict(self._pools.get(pool, NOTHING).holdings)
            for device in {entry[1] for entry in entries if entry[0] == pool}:
                kept = tuple(holding for holding in holdings.pop(device, ()) if holding.uid != uid)
                if entering:
                    kept += tuple(entry[2] for entry in entries if entry[0] == pool and entry[1] == device)
                    # The same claims in another order must give the same ledger.
                    kept = tuple(sorted(kept, key=lambda holding: (holding.uid, holding.share_id or "")))
                if kept:
                    holdings[device] = kept
            if holdings:
                self._pools[pool] = PoolLedger(holdings)
            else:
                self._pools.pop(pool, None)


def key_of(claim: ResourceClaim) -> str:
    """What the ledger knows ``claim`` by."""
    return claim.metadata.uid or f"{claim.metadata.namespace}/{claim.metadata.name}"


def _holding(claim: str, uid: str, result: DeviceRequestAllocationResult) -> Holding:
    consumed = tuple(
        sorted((qualified(name, result.driver), amount.nanos) for name, amount in result.consumed_capacity.items())
    )
    return Holding(claim, uid, result.share_id, consumed)


def qualified(name: str, driver: str) -> str:
    """A capacity's or attribute's full name: a bare one belongs to the driver."""
    return name if "/" in name else f"{driver}/{name}"


def with_allocation(claim: ResourceClaim, allocation: AllocationResult) -> ResourceClaim:
    """``claim`` as it looks once ``allocation`` is written."""
    return replace(claim, status=replace(claim.status, allocation=allocation))
