"""What the ledger leaves of a pool: the part of a node's view that changes with every claim."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from cathedra.allocation.supply.devices import DeviceRecord, groups_of
from cathedra.allocation.supply.ledger import PoolLedger

if TYPE_CHECKING:
    from cathedra.allocation.supply.pools import PoolView

__all__ = ["PoolState", "StateKey"]


class StateKey(msgspec.Struct, frozen=True, cache_hash=True):
    """All that tells one state of a pool from another; compared for every pool of every node, so its hash is kept."""

    taken: int
    shared: int
    capacity: tuple[Any, ...]
    available: tuple[int, ...]
    groups: tuple[Any, ...]


class PoolState:
    """What the ledger leaves of one pool: masks over the pool's devices, capacity in use, counters available."""

    __slots__ = ("available", "capacity", "groups", "key", "shared", "taken")

    def __init__(self, pool: PoolView, ledger: PoolLedger, *, shares: bool) -> None:
        self.taken = 0
        self.shared = 0
        self.capacity: dict[int, dict[str, int]] = {}
        held = ledger.holdings
        if held:
            for position, record in enumerate(pool.devices):
                if record.name in held:
                    holdings = held[record.name]
                    if len(holdings) == 1 and holdings[0].share_id is None:
                        # Nearly all are dedicated to one claim, and there may be hundreds in a pool.
                        self.taken |= 1 << position
                    else:
                        self._enter(position, holdings, shares=shares)
        self.available = dict(pool.counters)
        self.groups: dict[str, frozenset[str]] = {}
        if pool.counters and held:
            for record in (*pool.devices, *pool.others):
                if record.name in held:
                    self._charge(record)
        self.key: StateKey | None = None
        if held:
            # Most pools have neither shared devices nor counters.
            capacity = self._capacity_key() if self.capacity else ()
            available = tuple(self.available.values()) if self.available else ()
            groups = self._groups_key() if self.groups else ()
            self.key = StateKey(self.taken, self.shared, capacity, available, groups)

    def _capacity_key(self) -> tuple[Any, ...]:
        return tuple([(at, tuple(sorted(used.items()))) for at, used in sorted(self.capacity.items())])

    def _groups_key(self) -> tuple[Any, ...]:
        return tuple(sorted([(name, tuple(sorted(of))) for name, of in self.groups.items()]))

    def _enter(self, position: int, holdings: Iterable[Any], *, shares: bool) -> None:
        for holding in holdings:
            if holding.share_id is None or not shares:
                self.taken |= 1 << position
                continue
            self.shared |= 1 << position
            if holding.consumed:
                used = self.capacity.setdefault(position, {})
                for name, amount in holding.consumed:
                    used[name] = used.get(name, 0) + amount

    def _charge(self, record: DeviceRecord) -> None:
        for consumption in record.device.consumes_counters:
            for name, counter in consumption.counters.items():
                key = (consumption.counter_set, name)
                self.available[key] = self.available.get(key, 0) - counter.value.nanos
            groups = frozenset(groups_of(consumption))
            before = self.groups.get(consumption.counter_set)
            self.groups[consumption.counter_set] = groups if before is None else before & groups
