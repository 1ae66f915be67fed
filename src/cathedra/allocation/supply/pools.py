"""View of a node: the pools that it can use, in the order of the search (docs/spec/allocation.md §5).

A supply depends on the node's own slices, on the unbound ones, and on the labels that some selector reads. As long as
those are the same it is reused, also across snapshots. A pool with the same supply on many nodes is built once for
all of them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any, Final, TypeAlias

from cathedra.allocation.errors import FatalError
from cathedra.allocation.features import Features
from cathedra.allocation.supply.caches import Caches, CacheSlot
from cathedra.allocation.supply.devices import DeviceRecord, Interner, PoolID, Projection, SliceRecord, short_names
from cathedra.allocation.supply.inventory import InventorySnapshot
from cathedra.allocation.supply.ledger import NOTHING, LedgerSnapshot, PoolLedger, PoolState
from cathedra.api.core import core_v1
from cathedra.api.resource import Counter
from cathedra.api.struct import encode


class PoolStatus(enum.Enum):
    """State of a pool: usable, or the reason in Kubernetes' words."""

    COMPLETE = "complete"
    INCOMPLETE = "being updated"
    INVALID = "invalid"

    # The hash of an enum's member is computed in Python each time; every pool's key has one.
    __hash__ = object.__hash__


_is_shareable: Final = attrgetter("shareable")
_own_target: Final = attrgetter("own_target")
_counters: Final = attrgetter("counters")


@dataclass(slots=True, eq=False)
class PoolSupply:
    """One pool as some node sees it."""

    id: PoolID
    status: PoolStatus
    devices: tuple[DeviceRecord, ...]
    others: tuple[DeviceRecord, ...]
    counters: Mapping[tuple[str, str], int]
    shape: int
    definitions: Mapping[tuple[str, str], Counter] = field(default_factory=dict)
    """The counters as the slices have them, with their policies."""
    has_binding: bool = False
    withheld: str = ""
    """The reason why the pool is withheld; "" if it is not."""
    shareable: int = field(init=False, default=0)
    """Mask of the devices that may be allocated several times."""
    # One of each is enough: nodes remember more. A dict per pool would be felt by the garbage collector.
    _state: tuple[PoolLedger, bool, PoolState] | None = field(init=False, default=None)
    _project: tuple[Projection, int] | None = field(init=False, default=None)
    _bits: dict[str, int] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if any(map(_is_shareable, self.devices)):
            self.shareable = sum([1 << place for place, record in enumerate(self.devices) if record.shareable])

    @property
    def trouble(self) -> str:
        """The problem of a pool that is not complete, as the end of «pool … is»."""
        return self.withheld or self.status.value

    @property
    def bits(self) -> Mapping[str, int]:
        """The bits of the devices in masks, by their names."""
        if self._bits is None:
            self._bits = {record.name: 1 << place for place, record in enumerate(self.devices)}
        return self._bits

    def state(self, ledger: PoolLedger, *, shares: bool) -> PoolState:
        """Return the part that ``ledger`` leaves; the last result is cached. Without ``shares`` every holding is a
        dedicated one."""
        known = self._state
        # Ledgers are immutable, so the same object means the same state.
        if known is not None and known[0] is ledger and known[1] is shares:
            return known[2]
        made = PoolState.of(self, ledger, shares=shares)
        self._state = (ledger, shares, made)
        return made

    def shape_under(self, projection: Projection | None, interner: Interner) -> int:
        """Return a number that is equal for pools which a reader with that projection cannot distinguish."""
        if projection is None:
            return self.shape
        known = self._project
        if known is not None and known[0] == projection:
            return known[1]
        # The driver alone of the pool's ID: pools of one driver on different nodes are alike although their names
        # differ.
        names = short_names(projection, self.id[0])
        kinds = tuple([record.signature.kind_under(names, record.variant) for record in self.devices])
        counters = tuple(sorted(self.counters.items())) if self.counters else ()
        policies = _policies(self.definitions) if self.definitions else ()
        number = interner.shape((self.status, self.id[0], kinds, counters, policies))
        self._project = (projection, number)
        return number

    def __str__(self) -> str:
        return "/".join(self.id)


_PROJECTIONS: Final = 16
"""Largest number of projections that a node caches."""


@dataclass(frozen=True, slots=True)
class SupplySources:
    """The slices from which the supply of a node was made."""

    bound: tuple[SliceRecord, ...] | None
    """Slices of the node itself; None if it has none."""
    unbound: tuple[SliceRecord, ...]
    counter_slices: tuple[SliceRecord, ...] | None
    """Slices with counters for all nodes; None where they do not reach every node."""
    depends: tuple[tuple[PoolID, object], ...]
    """Pools of which slices for other nodes matter too, each with its `extent`."""
    groups: bool
    """True if compatibility groups are enabled."""

    def are_current(self, snapshot: InventorySnapshot, bound: tuple[SliceRecord, ...] | None) -> bool:
        """Return True if nothing has changed in these slices."""
        return (
            # Tuples of slices are replaced when a slice changes, so comparing identities suffices and costs nothing.
            self.bound is bound
            and self.unbound is snapshot.unbound
            and self.counter_slices in (None, snapshot.counter_slices)
            and (
                not self.depends
                or all(extent(snapshot, pool, groups=self.groups) == known for pool, known in self.depends)
            )
        )


class NodeSupply:
    """The pools of one node in the order of the search, and the usable devices in one row."""

    __slots__ = (
        "_pool_of",
        "_shapes_under",
        "_states",
        "caches",
        "devices",
        "has_counters",
        "interner",
        "invalid",
        "node_mask",
        "offsets",
        "only",
        "pools",
        "shape",
        "sources",
        "usable",
    )

    def __init__(
        self,
        pools: tuple[PoolSupply, ...],
        snapshot: InventorySnapshot,
        sources: SupplySources,
        node: core_v1.Node,
    ) -> None:
        self.pools = pools
        self.sources = sources
        self.caches = snapshot.caches
        usable = self.usable = tuple([pool for pool in pools if pool.status is PoolStatus.COMPLETE])
        self.invalid = len(usable) < len(pools) and any(pool.status is PoolStatus.INVALID for pool in pools)
        self.has_counters = any(map(_counters, usable))
        self.offsets = tuple(accumulate([len(pool.devices) for pool in usable[:-1]], initial=0)) if usable else ()
        self.only = usable[0] if len(usable) == 1 else None
        """The usable pool of a node that has one, as most nodes; its row of devices is the node's."""
        devices = tuple(chain(*[pool.devices for pool in usable])) if self.only is None else self.only.devices
        self.devices: Sequence[DeviceRecord] = devices
        self.node_mask = _reachable(devices, node)
        self.shape = snapshot.interner.shape((tuple([pool.shape for pool in pools]), self.node_mask))

        self.interner = snapshot.interner
        self._pool_of: list[int] | None = None
        self._shapes_under: dict[Projection, int] = {}
        self._states: _PoolStateCache | None = None

    @property
    def pool_of(self) -> list[int]:
        """For each of ``devices`` the place of its pool among the usable ones."""
        if self._pool_of is None:
            self._pool_of = [index for index, pool in enumerate(self.usable) for _ in pool.devices]
        return self._pool_of

    def shape_under(self, projection: Projection | None) -> int:
        """Return a number that is equal for nodes whose pools a reader with that projection cannot distinguish."""
        if projection is None:
            return self.shape
        known = self._shapes_under.get(projection)
        if known is None:
            if len(self._shapes_under) >= _PROJECTIONS:
                self._shapes_under.clear()
            known = self._shapes_under[projection] = self.interner.projected(self.shape, projection, self._project)
        return known

    def _project(self, projection: Projection) -> object:
        """Return the projected supply; nodes of one shape share it."""
        return tuple([pool.shape_under(projection, self.interner) for pool in self.pools]), self.node_mask

    def apart(self) -> NodeSupply:
        """Return the same supply with caches of its own, for a search in another thread: searches change the caches."""
        twin = copy(self)
        twin.caches = Caches()
        return twin

    def place_of(self, pool: PoolSupply) -> int:
        """At which place of the usable pools ``pool`` stands."""
        known = self._states
        return self.usable.index(pool) if known is None else known.place_of(pool.id)

    def states(self, ledger: LedgerSnapshot, *, shares: bool) -> tuple[PoolState, ...]:
        """Return the state of each usable pool. For many pools the last result is cached and updated."""
        only, pools = self.only, ledger.pools
        # Fast path: this runs for every node whose holdings change.
        if only is not None:
            return (only.state(pools.get(only.id, NOTHING), shares=shares),)
        if len(self.usable) < _MANY:
            return tuple([pool.state(pools.get(pool.id, NOTHING), shares=shares) for pool in self.usable])
        known = self._states
        if known is None or known.shares is not shares:
            known = self._states = _PoolStateCache(self.usable, shares)
        return known.at(ledger)


class _PoolStateCache:
    """The states of a node's pools, from one ledger to the next."""

    __slots__ = ("_ledger", "_places", "_pools", "_states", "shares")

    def __init__(self, pools: tuple[PoolSupply, ...], shares: bool) -> None:
        self.shares = shares
        self._pools = pools
        self._places = {pool.id: place for place, pool in enumerate(pools)}
        self._states: tuple[PoolState, ...] = ()
        self._ledger: LedgerSnapshot | None = None

    def place_of(self, pool: PoolID) -> int:
        """Return the place of a pool among these pools."""
        return self._places[pool]

    def at(self, ledger: LedgerSnapshot) -> tuple[PoolState, ...]:
        """Return the states of the pools at the moment of ``ledger``."""
        before = self._ledger
        if before is not None and before.pools is ledger.pools:
            return self._states
        changes = None if before is None else ledger.mark.since(before.mark)
        states = list(self._states)
        # The changelog is too short for the time since the last call.
        if changes is None:
            states = [self._state(place, ledger) for place in range(len(self._pools))]
        else:
            touched = (self._places.get(pool) for pool in {change[:2] for change in changes})
            for place in (place for place in touched if place is not None):
                states[place] = self._state(place, ledger)
        self._ledger, self._states = ledger, tuple(states)
        return self._states

    def _state(self, place: int, ledger: LedgerSnapshot) -> PoolState:
        pool = self._pools[place]
        return pool.state(ledger.pools.get(pool.id, NOTHING), shares=self.shares)


_MANY: Final = 64
"""Number of pools from which their states are updated instead of looked up."""


class NodeSupplyCache:
    """Views of the nodes of a cluster in ``snapshot``; cached as long as they are current, also across snapshots."""

    __slots__ = ("_gathering", "_known", "snapshot")

    def __init__(self, snapshot: InventorySnapshot, features: Features) -> None:
        self.snapshot = snapshot
        self._gathering = _Gathering(snapshot, features)
        self._known = snapshot.caches.of(_NODE_VIEWS).setdefault(features.about_pools, {})

    def of(self, node: core_v1.Node) -> NodeSupply:
        """Return the supply of ``node``.

        Raises:
            FatalError: a node selector cannot be parsed.
        """
        snapshot = self.snapshot
        metadata = node.metadata
        key: Any = metadata.name
        if snapshot.label_keys:
            labels = metadata.labels or {}
            # Nodes whose labels differ in none of the keys that selectors read have the same supply.
            key = (key, *[labels.get(one) for one in snapshot.label_keys])
        bound = snapshot.bound.get(metadata.name)
        if bound is None and not snapshot.asks_name and not self._gathering.everywhere:
            # The supply of such nodes depends on their labels alone, so they share one.
            key = ("", *key[1:]) if snapshot.label_keys else ""
        supply = self._known.get(key)
        if supply is None or not supply.sources.are_current(snapshot, bound):
            if supply is None and len(self._known) >= _VIEWS:
                self._known.clear()
            supply = self._known[key] = self._gathering.supply(node, bound)
        return supply


_VIEWS: Final = 100_000
"""Largest number of cached nodes, and of cached sets of labels."""


def _reachable(devices: Sequence[DeviceRecord], node: core_v1.Node) -> int | None:
    """Return the mask of the devices whose own node selection admits the node; None if no device has one.

    A selector that cannot be parsed counts as a match: the search raises its error when it reaches the device.
    """
    if not any(map(_own_target, devices)):
        return None
    mask = 0
    for position, record in enumerate(devices):
        target = record.own_target
        if target is None or (target.problem and not target.name and not target.all_nodes) or target.matches(node):
            mask |= 1 << position
    return mask


class _WholePool:
    """The newest generation of a pool in the whole cluster."""

    __slots__ = ("generation", "has_counters", "records")

    def __init__(self, records: list[SliceRecord]) -> None:
        self.generation = max((record.generation for record in records), default=-1)
        self.records = [record for record in records if record.generation == self.generation]
        # Slices for other nodes matter for counters only.
        self.has_counters = any(record.counter_sets or record.consumers for record in self.records)


Slices: TypeAlias = tuple[SliceRecord, ...]
Gates: TypeAlias = tuple[bool, ...]
_NODE_VIEWS: Final[CacheSlot[dict[Gates, dict[str, NodeSupply]]]] = CacheSlot("supplies of nodes", dict)
_POOL_VIEWS: Final[CacheSlot[dict[Gates, dict[PoolID, tuple[Slices | None, dict[tuple[int, ...], PoolSupply]]]]]] = (
    CacheSlot("supplies of pools", dict)
)
_WHOLE_POOLS: Final[CacheSlot[dict[bool, dict[PoolID, tuple[Slices, _WholePool]]]]] = CacheSlot("whole pools", dict)


def _whole(snapshot: InventorySnapshot, pool: PoolID, *, groups: bool) -> _WholePool:
    """Return the part of a pool that all its slices in the cluster have in common; without ``groups``, slices that use
    them are left out."""
    cache = snapshot.caches.of(_WHOLE_POOLS).setdefault(groups, {})
    every = snapshot.pools.get(pool, ())
    known = cache.get(pool)
    if known is None or known[0] is not every:
        whole = _WholePool([record for record in every if groups or not record.has_groups])
        known = cache[pool] = (every, whole)
    return known[1]


def extent(snapshot: InventorySnapshot, pool: PoolID, *, groups: bool) -> object:
    """Return a key of what a node's supply takes from slices of a pool that are for other nodes: equal keys, equal
    supplies."""
    whole = _whole(snapshot, pool, groups=groups)
    if whole.has_counters:
        return whole
    return whole.generation, len(whole.records)


class _Gathering:
    """Collects the pools of nodes, one after the other."""

    def __init__(self, snapshot: InventorySnapshot, features: Features) -> None:
        self.snapshot = snapshot
        self.features = features
        self.everywhere = features.everywhere
        self._pools = snapshot.caches.of(_POOL_VIEWS).setdefault(features.about_pools, {})

    def supply(self, node: core_v1.Node, bound: tuple[SliceRecord, ...] | None) -> NodeSupply:
        kept: dict[PoolID, list[SliceRecord]] = {}
        for record in self._relevant(node, bound or ()):
            known = kept.get(record.pool)
            if known is None or record.generation > known[0].generation:
                kept[record.pool] = [record]
            elif record.generation == known[0].generation:
                known.append(record)
        pools = []
        depends = []
        for pool, records in kept.items():
            if len(records) != records[0].count:
                depends.append((pool, extent(self.snapshot, pool, groups=self.features.compatibility_groups)))
            made = self._pool(pool, records)
            if made is not None:
                pools.append(made)
        if len(pools) > 1 and not self.features.stable:
            pools.sort(key=lambda pool: (pool.has_binding and pool.status is PoolStatus.COMPLETE, _bytes(pool.id)))
        sources = SupplySources(
            bound,
            self.snapshot.unbound,
            self.snapshot.counter_slices if self.everywhere else None,
            tuple(depends),
            self.features.compatibility_groups,
        )
        return NodeSupply(tuple(pools), self.snapshot, sources, node)

    def _relevant(self, node: core_v1.Node, bound: tuple[SliceRecord, ...]) -> list[SliceRecord]:
        candidates: Sequence[SliceRecord] = (*bound, *self.snapshot.unbound)
        if self.features.stable:
            candidates = sorted(candidates, key=lambda record: record.sequence)
        groups, partitions = self.features.compatibility_groups, self.features.partitionable_devices
        found = [
            record
            for record in candidates
            if (groups or not record.has_groups)
            and (partitions or not (record.per_device or record.counter_sets))
            and self._reaches(record, node)
        ]
        if self.everywhere:
            name = node.metadata.name
            for record in self.snapshot.counter_slices:
                if record.node_name and record.node_name != name and (groups or not record.has_groups):
                    found.append(record)
        return found

    def _reaches(self, record: SliceRecord, node: core_v1.Node) -> bool:
        if self.everywhere and record.counter_sets:
            return True
        if record.node_name:  # as nearly all
            return record.node_name == node.metadata.name
        if record.target.is_set:
            try:
                return record.target.matches(node)
            except FatalError as error:
                text = f"gather pool information: failed to perform node selection for slice {record.name}: {error}"
                raise FatalError(text) from error
        return record.per_device and any(self._device_reaches(device, node) for device in record.devices)

    def _device_reaches(self, record: DeviceRecord, node: core_v1.Node) -> bool:
        if record.own_target is None:
            return False
        try:
            return record.own_target.matches(node)
        except FatalError as error:
            raise FatalError(
                f"gather pool information: failed to perform node selection for device &{record.device}"
                f" in slice {record.slice.name}: {error}"
            ) from error

    def _pool(self, pool: PoolID, records: list[SliceRecord]) -> PoolSupply | None:
        rest: list[SliceRecord] = []
        complete = len(records) == records[0].count
        if not complete:
            whole = _whole(self.snapshot, pool, groups=self.features.compatibility_groups)
            if whole.generation > records[0].generation:
                return None
            complete = len(whole.records) == records[0].count
            if whole.has_counters:
                chosen = set(records)
                rest = [record for record in whole.records if record not in chosen]
        if len(records) > 1 and not self.features.stable:
            records.sort(key=lambda record: _bytes((record.name,)))
        # Nodes that see the same slices of a pool share its supply, as long as the pool does not change.
        every = self.snapshot.pools.get(pool)
        known = self._pools.get(pool)
        if known is None or known[0] is not every:
            known = self._pools[pool] = (every, {})
        key = tuple([record.serial for record in records])
        supply = known[1].get(key)
        if supply is None:
            supply = known[1][key] = self._build(pool, records, rest, complete=complete)
        return supply

    def _build(
        self, pool: PoolID, records: list[SliceRecord], rest: list[SliceRecord], *, complete: bool
    ) -> PoolSupply:
        interner = self.snapshot.interner
        trouble = self.snapshot.withheld.get(pool, "")
        if trouble or not complete:
            shape = interner.shape(("incomplete",))
            return PoolSupply(pool, PoolStatus.INCOMPLETE, (), (), {}, shape, withheld=trouble)
        partitions = self.features.partitionable_devices
        apart = partitions and not self.features.behaviour.counter_slices_have_devices
        targeting = [record for record in records if not (apart and record.counter_sets)]
        elsewhere = [record for record in rest if not (apart and record.counter_sets)]
        if len(targeting) == 1:
            only = targeting[0]
            devices, kinds, valid, has_binding = only.devices, only.kinds, only.names_differ, only.has_binding
        else:
            has_binding = any(record.has_binding for record in targeting)
            devices = tuple([device for record in targeting for device in record.devices])
            kinds = tuple([kind for record in targeting for kind in record.kinds])
            valid = len({device.name for device in devices}) == len(devices)
        definitions: dict[tuple[str, str], Counter] = {}
        counters: dict[tuple[str, str], int] = {}
        if partitions and any(record.counter_sets or record.consumers for record in (*records, *rest)):
            sets = [one for record in (*records, *rest) for one in record.counter_sets]
            for one in sets:
                definitions.update({(one.name, name): counter for name, counter in one.counters.items()})
            counters = {place: counter.amount.nanos for place, counter in definitions.items()}
            everywhere = self.features.behaviour.counter_slices_reach_every_node
            checked = [*records, *rest] if everywhere else [*targeting, *elsewhere]
            valid = valid and _has_sound_counters(checked, [one.name for one in sets], counters)
        status = PoolStatus.COMPLETE if valid else PoolStatus.INVALID
        return PoolSupply(
            pool,
            status,
            devices,
            tuple([device for record in elsewhere for device in record.devices]) if elsewhere else (),
            counters,
            has_binding=has_binding,
            shape=interner.shape(
                (
                    status,
                    pool[0],
                    kinds,
                    tuple(sorted(counters.items())) if counters else (),
                    _policies(definitions) if definitions else (),
                )
            ),
            definitions=definitions,
        )


def _policies(definitions: Mapping[tuple[str, str], Counter]) -> tuple[object, ...]:
    """Return the request policies of counters, as part of a pool's shape."""
    return tuple(
        [
            (place, encode(counter.request_policy))
            for place, counter in sorted(definitions.items())
            if counter.request_policy is not None
        ]
    )


def _has_sound_counters(
    records: Iterable[SliceRecord], names: Sequence[str], counters: Mapping[tuple[str, str], int]
) -> bool:
    """Return True if the names of counter sets differ, and all devices refer to existing counters."""
    known = set(names)
    if len(known) < len(names):
        return False
    return all(_refers(one, known, counters) for record in records for one in record.consumers)


def _refers(record: DeviceRecord, sets: set[str], counters: Mapping[tuple[str, str], int]) -> bool:
    """Return True if every counter that a device consumes exists."""
    return all(
        consumption.counter_set in sets
        and all((consumption.counter_set, name) in counters for name in consumption.counters)
        for consumption in record.device.consumes_counters
    )


def _bytes(names: Iterable[str]) -> tuple[bytes, ...]:
    return tuple(name.encode() for name in names)
