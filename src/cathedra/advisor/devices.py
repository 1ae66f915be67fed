"""Figures of devices, pool by pool: a change costs the pools that it concerns, whatever the size of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from cathedra.advisor.model import ClusterModel
from cathedra.allocation.checks.selectors import SelectorCache
from cathedra.allocation.supply.devices import PoolID, SliceRecord
from cathedra.api.core.core_v1 import Pod
from cathedra.api.quantity import Quantity
from cathedra.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from cathedra.insight.inventory.listing import DeviceListing, Holders, counter_totals, counters_left, health_of, holders
from cathedra.insight.inventory.report import DeviceEntry

STATES: Final = ("free", "shared", "held", "blocked", "tainted", "unhealthy", "incomplete_pool", "gone")
"""States of devices in metrics: «shared» is held in part; «gone» is held by a claim, and no slice has it any more."""
HELD: Final = frozenset(("shared", "held", "gone"))

Amounts = dict[tuple[str, str], float]
"""(Name of a capacity or counter, «held» or «free») → amount."""


class PoolFigures(msgspec.Struct, frozen=True):
    """The devices of one pool."""

    devices: Counter[tuple[str, tuple[str, ...], str]]
    """(Node, classes, state) → devices."""
    capacity: Amounts
    counters: Amounts


class DeviceFigures:
    """Figures of all pools, renewed for those that changed."""

    def __init__(self, model: ClusterModel) -> None:
        self._model = model
        self.pools: dict[PoolID, PoolFigures] = {}
        self._claims: dict[PoolID, dict[str, ResourceClaim]] = {}
        self._places: dict[str, frozenset[PoolID]] = {}
        self._health: dict[str, Mapping[str, str]] = {}
        self._changed: set[PoolID] = set()
        self._all_changed = False
        self._selectors = SelectorCache()
        model.informer(ResourceClaim).add_handler(
            self._claim_set, lambda _, claim: self._claim_set(claim), self._claim_gone
        )
        model.informer(ResourceSlice).add_handler(self._slice, lambda _, piece: self._slice(piece), self._slice)
        for kind in (DeviceClass, DeviceTaintRule):
            model.informer(kind).add_handler(self._every, lambda _, one: self._every(one), self._every)
        model.informer(Pod).add_handler(self._pod_set, self._pod_updated, self._pod_gone)

    # --- changes

    def _claim_set(self, claim: ResourceClaim) -> None:
        allocation = claim.status.allocation
        results = allocation.devices.results if allocation is not None else ()
        self._place(claim, frozenset((one.driver, one.pool) for one in results))

    def _claim_gone(self, claim: ResourceClaim) -> None:
        self._place(claim, frozenset())

    def _place(self, claim: ResourceClaim, pools: frozenset[PoolID]) -> None:
        uid = claim.metadata.uid
        before = self._places.pop(uid, frozenset())
        for pool in before - pools:
            self._claims[pool].pop(uid, None)
            if not self._claims[pool]:
                del self._claims[pool]
        for pool in pools:
            self._claims.setdefault(pool, {})[uid] = claim
        if pools:
            self._places[uid] = pools
        self._changed |= before | pools

    def _slice(self, piece: ResourceSlice) -> None:
        self._changed.add((piece.spec.driver, piece.spec.pool.name))

    def _every(self, _: object) -> None:
        self._all_changed = True

    def _pod_set(self, pod: Pod) -> None:
        health = health_of((pod,))
        if health or pod.metadata.uid in self._health:
            self._health[pod.metadata.uid] = health
            for driver, pool, device in (f"{one}//".split("/", 2) for one in health):
                if device.strip("/"):
                    self._changed.add((driver, pool))

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if old.status.container_statuses is not new.status.container_statuses:
            self._pod_set(new)

    def _pod_gone(self, pod: Pod) -> None:
        self._health.pop(pod.metadata.uid, None)

    # --- figures

    @property
    def waiting(self) -> int:
        """Number of pools that changed since they were counted."""
        return len(self._to_count()) if self._all_changed else len(self._changed)

    def refresh(self, limit: int) -> bool:
        """Count ``limit`` pools at most. Return True if none is left."""
        if self._all_changed:
            self._changed = self._to_count()
            self._all_changed = False
        chosen = [self._changed.pop() for _ in range(min(limit, len(self._changed)))]
        if not chosen:
            return True
        state = self._model.state()
        health = {name: one for found in self._health.values() for name, one in found.items()}
        claims = {uid: claim for pool in chosen for uid, claim in self._claims.get(pool, {}).items()}
        held = holders(claims.values(), state.undecodable)
        by_pool: dict[PoolID, Holders] = {}
        for key, found in held.items():
            by_pool.setdefault(key[:2], {})[key] = found
        listing = DeviceListing(state, {}, health, self._selectors)
        for pool in chosen:
            listing.held = by_pool.get(pool, {})
            rows = list(listing.of_pool(pool))
            if not rows:
                self.pools.pop(pool, None)
                continue
            self.pools[pool] = _figures(rows, listing.snapshot.pools.get(pool, ()), listing.held)
        return not self._changed

    def _to_count(self) -> set[PoolID]:
        return {*self._changed, *self._claims, *self.pools, *self._model.filters.devices.inventory.snapshot().pools}

    def by_node(self) -> dict[str, Counter[str]]:
        """Return node → state → devices; "" for devices that no node has to itself."""
        found: dict[str, Counter[str]] = {}
        for figures in self.pools.values():
            for (node, _, state), number in figures.devices.items():
                found.setdefault(node, Counter())[state] += number
        return found

    def by_class(self) -> Counter[str]:
        """Return class → devices that it matches."""
        found: Counter[str] = Counter()
        for figures in self.pools.values():
            for (_, classes, state), number in figures.devices.items():
                if state != "gone":
                    found.update(dict.fromkeys(classes, number))
        return found


def state_of(row: DeviceEntry) -> str:
    """Return the state of a device as metrics name it."""
    if row.state == "unusable":
        return "incomplete_pool"
    return "unhealthy" if row.state == "free" and row.health == "Unhealthy" else row.state


def _figures(rows: Iterable[DeviceEntry], records: tuple[SliceRecord, ...], held: Holders) -> PoolFigures:
    devices: Counter[tuple[str, tuple[str, ...], str]] = Counter()
    capacity: Amounts = {}
    for row in rows:
        state = state_of(row)
        devices[row.node, row.classes, state] += 1
        for name, amount, left in _capacities(row, state):
            capacity[name, "held"] = capacity.get((name, "held"), 0) + amount - left
            capacity[name, "free"] = capacity.get((name, "free"), 0) + left
    return PoolFigures(devices, capacity, dict(_counters(records, held)))


def _capacities(row: DeviceEntry, state: str) -> Iterator[tuple[str, float, float]]:
    for name, text in row.capacity.items():
        amount = _number(text)
        yield name, amount, _number(row.left[name]) if name in row.left else (0 if state in HELD else amount)


def _counters(records: tuple[SliceRecord, ...], held: Holders) -> Iterator[tuple[tuple[str, str], float]]:
    newest = max((record.generation for record in records), default=0)
    current = [record for record in records if record.generation == newest]
    totals = counter_totals(current)
    total: Counter[str] = Counter()
    for (_, name), nanos in totals.items():
        total[name] += nanos
    left: Counter[str] = Counter()
    for (_, name), nanos in counters_left(current, held, totals).items():
        left[name] += max(nanos, 0)
    for name, nanos in total.items():
        yield (name, "held"), (nanos - left[name]) / 1e9
        yield (name, "free"), left[name] / 1e9


def _number(text: str) -> float:
    return Quantity.parse(text).nanos / 1e9
