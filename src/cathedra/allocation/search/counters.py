"""Counters and compatibility groups for the fast search: which devices are blocked, as a mask
(docs/spec/allocation.md §11.1 and §11.2).

What a call has consumed of a pool is a small tuple; the devices that it blocks depend on nothing else, so they are
computed once per tuple.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import compress
from operator import is_not
from typing import Any, Final, NamedTuple, TypeAlias

from cathedra.allocation.claims.problem import Problem
from cathedra.allocation.claims.requests import RequestOption
from cathedra.allocation.claims.tables import MANY_POOLS
from cathedra.allocation.search.matching import positions
from cathedra.allocation.supply.caches import CacheSlot, LRUCache
from cathedra.allocation.supply.devices import groups_of
from cathedra.allocation.supply.ledger import PoolState
from cathedra.allocation.supply.pools import NodeSupply, PoolSupply

Consumption: TypeAlias = tuple[tuple[int, int], ...]
"""Index of a counter and nano-units."""
Groups: TypeAlias = tuple[tuple[str, frozenset[str]], ...]


class _Consumers:
    """Consumers of the counters of a pool, by position in it. Pools of equal shape share it."""

    __slots__ = ("ascending", "by_place", "kinds", "names")

    def __init__(self, pool: PoolSupply, *, with_groups: bool) -> None:
        self.names = sorted(pool.counters)
        """Counter set and counter, in the order of the amounts."""
        index = {name: at for at, name in enumerate(self.names)}
        self.by_place: dict[int, tuple[Consumption, Groups]] = {}
        self.kinds: dict[tuple[Consumption, Groups], int] = {}
        """Equal consumers as a mask."""
        for place, record in enumerate(pool.devices):
            entries = record.device.consumes_counters
            if not entries:
                continue
            totals: dict[int, int] = {}
            for entry in entries:
                for name, counter in entry.counters.items():
                    at = index[entry.counter_set, name]
                    totals[at] = totals.get(at, 0) + counter.amount.nanos
            groups: Groups = ()
            if with_groups:
                groups = tuple([(entry.counter_set, frozenset(groups_of(entry))) for entry in entries])
            found = self.by_place[place] = (tuple(sorted(totals.items())), groups)
            self.kinds[found] = self.kinds.get(found, 0) | 1 << place
        self.ascending: list[list[tuple[int, int]]] = [
            sorted((dict(needs).get(at, 0), mask) for (needs, _), mask in self.kinds.items())
            for at in range(len(self.names))
        ]
        """Per counter the consumers by amount: amount and mask."""


_CONSUMERS: Final[CacheSlot[dict[tuple[int, bool], _Consumers]]] = CacheSlot("consumers of counters", dict)


def _consumers_of(pool: PoolSupply, problem: Problem) -> _Consumers:
    with_groups = problem.features.compatibility_groups
    cache = problem.supply.caches.of(_CONSUMERS)
    # Pools of one shape have equal consumers at equal positions, so nodes of one model share them.
    key = (pool.shape, with_groups)
    found = cache.get(key)
    if found is None:
        if len(cache) >= _SHAPES:
            cache.clear()
        found = cache[key] = _Consumers(pool, with_groups=with_groups)
    return found


_STATES: Final = 4_096
"""Largest number of pool states for which the blocked devices are cached."""
_SHAPES: Final = 20_000
"""Largest number of pool shapes for which consumers are cached."""


class _Pool:
    """The counters of one pool on one node."""

    __slots__ = ("available", "blocked", "consumers", "everyone", "groups", "offset")

    def __init__(self, consumers: _Consumers, state: PoolState, offset: int, *, with_groups: bool) -> None:
        self.consumers = consumers
        self.offset = offset
        self.available = [state.available[name] for name in consumers.names]
        self.groups: Mapping[str, frozenset[str]] = state.groups if with_groups else {}
        self.everyone = sum(consumers.kinds.values()) << offset
        self.blocked: dict[Any, int] = {}

    def blocked_after(self, state: Any) -> int:
        """Return the devices that can no longer be allocated once ``state`` is consumed of the pool."""
        known = self.blocked.get(state)
        if known is None:
            if len(self.blocked) >= _STATES:
                self.blocked.clear()
            known = self.blocked[state] = self._compute(state)
        return known

    def _compute(self, state: Any) -> int:
        amounts, groups = state
        room = [limit - amount for limit, amount in zip(self.available, amounts, strict=True)]
        # Counters can be overdrawn by allocations of older releases, which did not check them. Then no device of the
        # pool can be used.
        if any(amount < 0 for amount in room):
            return self.everyone
        present = dict(groups)
        blocked = 0
        for (needs, own), mask in self.consumers.kinds.items():
            if any(room[index] < amount for index, amount in needs) or (own and not _admitted(present, own)):
                blocked |= mask
        return blocked << self.offset


class _NodeCounters:
    """The counters of all pools of a node as they stood in the last search: since then few pools have changed."""

    __slots__ = ("_numbers", "_parts", "_states", "blocked", "consumption", "largest", "pools", "start")

    def __init__(self, problem: Problem) -> None:
        supply = problem.supply
        self.largest = 0
        """The most consumers of one pool."""
        self.consumption: dict[int, tuple[int, Consumption, Groups]] = {}
        self.pools: list[_Pool] = []
        """Pools with counters, in the order of the supply."""
        self.start: list[Any] = []
        self.blocked = 0
        """The devices that cannot be had before anything is placed."""
        self._parts: list[int] = []
        """Of ``blocked`` what lies in each pool."""
        self._numbers: dict[int, int] = {}
        """Place among the usable pools → place in ``pools``."""
        self._states = problem.states
        for at, (pool, offset) in enumerate(zip(supply.usable, supply.offsets, strict=True)):
            if not pool.counters:
                continue
            by_place = _consumers_of(pool, problem).by_place
            self.largest = max(self.largest, len(by_place))
            for place, (needs, groups) in by_place.items():
                self.consumption[offset + place] = (len(self.pools), needs, groups)
            self._numbers[at] = len(self.pools)
            made, start, blocked = _pool_counters(problem, at)
            self.pools.append(made)
            self.start.append(start)
            self._parts.append(blocked)
            self.blocked |= blocked

    def follow(self, problem: Problem) -> None:
        """Take over how the pools stand now."""
        for at in compress(range(len(self._states)), map(is_not, problem.states, self._states)):
            number = self._numbers.get(at)
            if number is not None:
                made, start, blocked = _pool_counters(problem, at)
                self.blocked = self.blocked & ~self._parts[number] | blocked
                self.pools[number], self.start[number], self._parts[number] = made, start, blocked
        self._states = problem.states


def _pool_counters(problem: Problem, at: int) -> tuple[_Pool, Any, int]:
    """Return a pool with counters, its state before anything is placed, and the devices that this state blocks."""
    supply, with_groups = problem.supply, problem.features.compatibility_groups
    consumers = _consumers_of(supply.usable[at], problem)
    made = _Pool(consumers, problem.states[at], supply.offsets[at], with_groups=with_groups)
    start = ((0,) * len(made.available), tuple(sorted(made.groups.items(), key=lambda item: item[0])))
    return made, start, made.blocked_after(start)


_NODE_COUNTERS: Final[CacheSlot[LRUCache[tuple[NodeSupply, bool], _NodeCounters]]] = CacheSlot(
    "before of counters", lambda: LRUCache(_RECENT)
)
_RECENT: Final = 4


def _node_counters(problem: Problem) -> _NodeCounters:
    if len(problem.supply.usable) < MANY_POOLS:
        return _NodeCounters(problem)
    key = (problem.supply, problem.features.compatibility_groups)
    found = problem.supply.caches.of(_NODE_COUNTERS).get(key, lambda: _NodeCounters(problem))
    found.follow(problem)
    return found


class CounterState(NamedTuple):
    """Amounts that are consumed of the counters of a node's pools."""

    pools: tuple[Any, ...]
    """Per pool what is consumed, and which compatibility groups are present."""
    blocked: int
    """Devices that their counters or compatibility groups no longer allow."""
    shared: int
    """Shareable devices in use, by this call or before it: they are charged once, for all their shares."""


class Counters:
    """The counters of all pools of a node. A `Restriction` whose state is a `CounterState`."""

    __slots__ = ("_consumption", "_largest", "_pools", "_shareable", "first")

    def __init__(self, problem: Problem, shareable: int, shared_before: int) -> None:
        before = _node_counters(problem)
        self._shareable = shareable
        # Copied, because a search may lie between two steps of this one.
        self._pools = list(before.pools)
        self._consumption = before.consumption
        self._largest = before.largest
        self.first = CounterState(tuple(before.start), before.blocked & ~shared_before, shared_before & shareable)

    def consumption(self, position: int) -> Any:
        """Return a key that is equal for devices with equal consumption."""
        return self._consumption.get(position)

    def admitted(self, option: RequestOption, state: CounterState, left: int) -> int:
        """Return those of ``left`` whose counters suffice and whose groups are compatible."""
        return left & ~state.blocked

    def after(self, option: RequestOption, state: CounterState, position: int) -> CounterState:
        """Return the state after the device at ``position`` is charged. A device with a share in use is not charged
        again."""
        bit = 1 << position
        # The first share of a device is charged for the whole device; further shares are free.
        if state.shared & bit:
            return state
        shared = state.shared | bit & self._shareable
        found = self._consumption.get(position)
        if found is None:
            return CounterState(state.pools, state.blocked, shared)
        at, needs, groups = found
        pools = state.pools
        amounts = list(pools[at][0])
        for index, amount in needs:
            amounts[index] += amount
        present = dict(pools[at][1])
        for name, own in groups:
            present[name] = present[name] & own if name in present else own
        after = (tuple(amounts), tuple(sorted(present.items(), key=lambda item: item[0])))
        # Only this pool has changed: its part of the mask is replaced.
        blocked = state.blocked & ~self._pools[at].everyone | self._pools[at].blocked_after(after)
        return CounterState((*pools[:at], after, *pools[at + 1 :]), blocked & ~shared, shared)

    def suffices(self, option: RequestOption, state: CounterState, left: int, needed: int) -> bool:
        """Return True if the counters could serve ``needed`` devices of ``left``; those already in use are not
        charged."""
        return self._serves(state, left, needed)

    def _serves(self, state: CounterState, left: int, needed: int) -> bool:
        # Fast path: even without the largest pool there are enough devices.
        if left.bit_count() - self._largest >= needed - 1:
            return True  # no pool is needed for more than one
        for at in self._charged_pools(left):
            pool = self._pools[at]
            charged = left & ~state.shared & pool.everyone
            minimum = needed - (left & ~charged).bit_count()
            # A single device suffices or none is charged, and each admitted device fits by itself.
            if minimum <= 1 or not charged:
                continue
            for index, limit in enumerate(pool.available):
                if not self._suffices(pool, index, limit - state.pools[at][0][index], charged, minimum):
                    return False
        return True

    def most(self, state: CounterState, left: int) -> int:
        """Of how many devices of ``left`` at most `suffices` admits that they are placed together."""
        low, high = 0, left.bit_count()
        # Bisection: if some number fits, every smaller one does.
        while low < high:
            middle = (low + high + 1) // 2
            if self._serves(state, left, middle):
                low = middle
            else:
                high = middle - 1
        return low

    def entangled(self, devices: int) -> int:
        """Return these devices, and all devices that consume counters of the same pools."""
        for pool in self._pools:
            if pool.everyone & devices:
                devices |= pool.everyone
        return devices

    def _charged_pools(self, left: int) -> Iterable[int]:
        """Return the places of the pools to which consumers among ``left`` belong, and perhaps of others."""
        # Looking at every pool is cheaper than looking at every device.
        if left.bit_count() >= len(self._pools):
            return range(len(self._pools))
        consumption = self._consumption
        return {consumption[position][0] for position in positions(left) if position in consumption}

    def _suffices(self, pool: _Pool, index: int, room: int, charged: int, minimum: int) -> bool:
        for amount, mask in pool.consumers.ascending[index]:
            # The cheapest devices first: if they do not fit, no others do.
            taken = min((mask << pool.offset & charged).bit_count(), minimum)
            room -= taken * amount
            minimum -= taken
            if not minimum:
                break
        return room >= 0


def _admitted(present: dict[str, frozenset[str]], own: Groups) -> bool:
    """Return True if a device with groups ``own`` is compatible with those that are ``present`` on the same counter
    sets."""
    return all(
        name not in present or (bool(present[name] & groups) if groups else not present[name]) for name, groups in own
    )
