"""Inventory: every slice of the cluster, parsed once and updated incrementally.

A slice event costs its own devices; a snapshot costs the last few changes since the one before. DeviceTaintRules are
merged into the devices here, so that nothing downstream reads rules (docs/spec/allocation.md §4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from cathedra.allocation.supply.caches import Caches
from cathedra.allocation.supply.devices import Interner, PoolID, SliceRecord, selects
from cathedra.allocation.supply.snapshots import Changelog, Mark, SharedMap
from cathedra.allocation.supply.undecodable import Withheld
from cathedra.api.resource import DeviceTaintRule, ResourceSlice

Change: TypeAlias = str | PoolID
"""The name of a node that has other slices than before, a pool of which that is true, or `EVERYWHERE`."""
EVERYWHERE: Final = ""
"""Slices without a node, or slices that count for all nodes, have changed."""


@dataclass(slots=True, kw_only=True, eq=False)
class InventorySnapshot:
    """All slices at one moment. Immutable, apart from caches."""

    bound: Mapping[str, tuple[SliceRecord, ...]]
    unbound: tuple[SliceRecord, ...]
    asks_name: bool = field(init=False)
    """True if nodes without slices of their own and with equal labels may still reach different devices."""
    pools: Mapping[PoolID, tuple[SliceRecord, ...]]
    counter_slices: tuple[SliceRecord, ...]
    label_keys: tuple[str, ...]
    """Labels that some node selector reads."""
    interner: Interner
    caches: Caches
    mark: Mark[Change]
    withheld: Mapping[PoolID, str]
    """Pools that are not to be used, and why."""

    def __post_init__(self) -> None:
        self.asks_name = any(record.asks_name for record in self.unbound)


class Inventory:
    """All ResourceSlices and DeviceTaintRules of a cluster.

    Slices keep the order in which they were first added, which is that of the lister; a slice is identified by its
    name.
    """

    __slots__ = (
        "_bound",
        "_by_node",
        "_by_pool",
        "_caches",
        "_changelog",
        "_counter_slices",
        "_counting",
        "_dirty_nodes",
        "_dirty_pools",
        "_interner",
        "_keys",
        "_label_keys",
        "_pools",
        "_records",
        "_rules",
        "_sequence",
        "_snapshot",
        "_sources",
        "_unbound",
        "_unbound_slices",
        "_withheld",
        "_withheld_pools",
        "rules_need_selector",
    )

    def __init__(
        self,
        slices: Iterable[ResourceSlice] = (),
        rules: Iterable[DeviceTaintRule] = (),
        *,
        rules_need_selector: bool = True,
    ) -> None:
        self.rules_need_selector = rules_need_selector
        """Rules without a selector taint no device; otherwise they taint every device (`AllocatorBehaviour`)."""
        self._interner = Interner()
        self._caches = Caches()
        self._changelog: Changelog[Change] = Changelog()
        self._rules = {rule.metadata.name: rule for rule in rules if self._selects_any(rule)}
        self._records: dict[str, SliceRecord] = {}
        self._sources: dict[str, ResourceSlice] = {}
        self._by_pool: dict[PoolID, dict[str, SliceRecord]] = {}
        self._by_node: dict[str, dict[str, SliceRecord]] = {}
        self._unbound: dict[str, SliceRecord] = {}
        self._counting: dict[str, SliceRecord] = {}
        self._keys: Counter[str] = Counter()
        self._sequence = 0
        # Parts of the next snapshot; None or dirty if an event has arrived since the last one.
        self._pools: SharedMap[PoolID, tuple[SliceRecord, ...]] = SharedMap()
        self._bound: SharedMap[str, tuple[SliceRecord, ...]] = SharedMap()
        self._unbound_slices: tuple[SliceRecord, ...] | None = ()
        self._counter_slices: tuple[SliceRecord, ...] | None = ()
        self._label_keys: tuple[str, ...] | None = ()
        self._dirty_pools: set[PoolID] = set()
        self._dirty_nodes: set[str] = set()
        self._snapshot: InventorySnapshot | None = None
        self._withheld: dict[str, tuple[Withheld, ...]] = {}
        self._withheld_pools: dict[PoolID, str] = {}
        for item in slices:
            self.add_slice(item)

    def add_slice(self, item: ResourceSlice) -> None:
        """Add or replace a slice. An equal one changes nothing."""
        name = item.metadata.name
        known = self._records.get(name)
        # Kept even if the spec is equal: `slices` returns objects as they were given last, with their new versions.
        self._sources[name] = item
        if known is None:
            self._sequence += 1
            self._link(self._prepared(item, self._sequence))
        # Drivers publish slices again without a change, and resync repeats them. Preparing them again would drop every
        # cached result of their nodes.
        elif known.source.spec != item.spec:
            self._exchange(known, item)

    update_slice = add_slice

    def remove_slice(self, item: ResourceSlice | str) -> None:
        """Remove a slice, given by itself or by name; an unknown one is ignored."""
        known = self._records.get(item if isinstance(item, str) else item.metadata.name)
        if known is not None:
            self._unlink(known)
            del self._sources[known.name]

    def add_taint_rule(self, rule: DeviceTaintRule) -> None:
        """Add a rule, or its new state; the slices that it selects are prepared again."""
        if not self._selects_any(rule):
            self.remove_taint_rule(rule)
            return
        old = self._rules.get(rule.metadata.name)
        self._rules[rule.metadata.name] = rule
        if old is None or old.spec != rule.spec:
            self._renew([one for one in (old, rule) if one is not None])

    update_taint_rule = add_taint_rule

    def remove_taint_rule(self, rule: DeviceTaintRule | str) -> None:
        """Remove a rule, given by itself or by name; an unknown one is ignored."""
        old = self._rules.pop(rule if isinstance(rule, str) else rule.metadata.name, None)
        if old is not None:
            self._renew([old])

    def withhold(self, key: str, withheld: tuple[Withheld, ...]) -> None:
        """Withhold present and future pools for ``key``; this replaces its earlier pools.

        Their devices are not used, as those of an incomplete pool.
        """
        before = self._withheld.get(key, ())
        if before == withheld:
            return
        if withheld:
            self._withheld[key] = withheld
        else:
            del self._withheld[key]
        # New tuples of their slices: what was made from the old ones is not current any more.
        concerned = [
            record
            for pool, records in self._by_pool.items()
            if any(one.concerns(pool, records.values()) for one in (*before, *withheld))
            for record in records.values()
        ]
        for record in concerned:
            self._touch(record)

    def release(self, key: str) -> None:
        """Withhold nothing more on account of ``key``."""
        self.withhold(key, ())

    def snapshot(self) -> InventorySnapshot:
        """Return the state of this moment; the same object as long as nothing changes."""
        if self._snapshot is None:
            self._flush()
            assert self._unbound_slices is not None
            assert self._counter_slices is not None
            assert self._label_keys is not None
            self._snapshot = InventorySnapshot(
                bound=self._bound.snapshot(),
                unbound=self._unbound_slices,
                pools=self._pools.snapshot(),
                counter_slices=self._counter_slices,
                label_keys=self._label_keys,
                interner=self._interner,
                caches=self._caches,
                mark=self._changelog.mark(),
                withheld=self._withheld_pools,
            )
        return self._snapshot

    def slices(self) -> tuple[ResourceSlice, ...]:
        """Return all slices as they were last given, in the order of the lister."""
        return tuple(self._sources[record.name] for record in _in_order(self._records.values()))

    def statistics(self) -> dict[str, int]:
        """Return the numbers of slices, pools, nodes with slices of their own, devices and rules."""
        return {
            "slices": len(self._records),
            "pools": len(self._by_pool),
            "nodes": len(self._by_node),
            "devices": sum(len(record.devices) for record in self._records.values()),
            "rules": len(self._rules),
        }

    # --- rules

    def _prepared(self, item: ResourceSlice, sequence: int) -> SliceRecord:
        driver, pool = item.spec.driver, item.spec.pool.name
        rules = [rule for _, rule in sorted(self._rules.items()) if _may_concern(rule, driver, pool)]
        return SliceRecord(item, rules, self._interner, sequence)

    def _selects_any(self, rule: DeviceTaintRule) -> bool:
        return rule.spec.device_selector is not None or not self.rules_need_selector

    def _renew(self, rules: list[DeviceTaintRule]) -> None:
        concerned = {
            record.name: record
            for rule in rules
            for pool in self._pools_of(rule)
            for record in self._by_pool[pool].values()
            if any(selects(rule, *pool, device.name) for device in record.devices)
        }
        for record in concerned.values():
            self._exchange(record, record.source)

    def _pools_of(self, rule: DeviceTaintRule) -> Iterator[PoolID]:
        selector = rule.spec.device_selector
        if selector is not None and selector.driver is not None and selector.pool is not None:
            pool = (selector.driver, selector.pool)
            return iter([pool] if pool in self._by_pool else [])
        return (pool for pool in self._by_pool if _may_concern(rule, *pool))

    # --- indexes

    def _exchange(self, known: SliceRecord, item: ResourceSlice) -> None:
        # Before anything is unlinked: preparing may raise, and the inventory must then be unchanged. The sequence
        # stays, because the order of slices decides between equal devices.
        made = self._prepared(item, known.sequence)
        self._unlink(known)
        self._link(made)

    def _link(self, record: SliceRecord) -> None:
        self._records[record.name] = record
        self._by_pool.setdefault(record.pool, {})[record.name] = record
        if record.node_name:
            self._by_node.setdefault(record.node_name, {})[record.name] = record
        else:
            self._unbound[record.name] = record
        if record.counter_sets:
            self._counting[record.name] = record
        if record.label_keys:
            self._keys.update(record.label_keys)
        self._touch(record)

    def _unlink(self, record: SliceRecord) -> None:
        del self._records[record.name]
        _drop(self._by_pool, record.pool, record.name)
        if record.node_name:
            _drop(self._by_node, record.node_name, record.name)
        else:
            del self._unbound[record.name]
        if record.counter_sets:
            del self._counting[record.name]
        for key in record.label_keys:
            self._keys[key] -= 1
            if not self._keys[key]:
                del self._keys[key]
        self._touch(record)

    def _touch(self, record: SliceRecord) -> None:
        self._snapshot = None
        self._dirty_pools.add(record.pool)
        if record.node_name:
            self._dirty_nodes.add(record.node_name)
        else:
            self._unbound_slices = None
        if record.counter_sets:
            self._counter_slices = None
        if record.label_keys:
            self._label_keys = None
        if len(self._dirty_pools) >= _WAITING:
            self._flush_pools()

    def _flush(self) -> None:
        """Update the parts of the next snapshot."""
        self._flush_pools()
        if self._unbound_slices is None or self._label_keys is None:
            self._changelog.note(EVERYWHERE)
        if self._unbound_slices is None:
            self._unbound_slices = _in_order(self._unbound.values())
        if self._counter_slices is None:
            self._counter_slices = _in_order(self._counting.values())
        if self._label_keys is None:
            self._label_keys = tuple(sorted(self._keys))

    def _flush_pools(self) -> None:
        # Fast path: almost no cluster has objects that cannot be decoded.
        if self._withheld or self._withheld_pools:
            self._follow_withheld()
        for pool in self._dirty_pools:
            self._changelog.note(pool)
            _renew_entry(self._pools, pool, self._by_pool.get(pool))
        for node in self._dirty_nodes:
            self._changelog.note(node)
            _renew_entry(self._bound, node, self._by_node.get(node))
        self._dirty_pools.clear()
        self._dirty_nodes.clear()

    def _follow_withheld(self) -> None:
        """Find out which of the dirty pools are withheld; snapshots have the older answer."""
        every = [one for withheld in self._withheld.values() for one in withheld]
        found = {pool: reason for pool, reason in self._withheld_pools.items() if pool not in self._dirty_pools}
        for pool in self._dirty_pools:
            records = self._by_pool.get(pool, {}).values()
            reason = next((one.reason for one in every if one.concerns(pool, records)), "")
            if records and reason:
                found[pool] = reason
        self._withheld_pools = found


_WAITING: Final = 64
"""Largest number of changed pools that are entered by the next snapshot. Without the limit, the first pod after
thousands of slices would wait for all of them."""


def _renew_entry(
    entries: SharedMap[Any, tuple[SliceRecord, ...]], key: object, records: dict[str, SliceRecord] | None
) -> None:
    if records:
        entries[key] = _in_order(records.values())
    else:
        entries.pop(key, None)


def _in_order(records: Iterable[SliceRecord]) -> tuple[SliceRecord, ...]:
    return tuple(sorted(records, key=lambda record: record.sequence))


def _drop(index: dict[Any, dict[str, SliceRecord]], key: object, name: str) -> None:
    del index[key][name]
    if not index[key]:
        del index[key]


def _may_concern(rule: DeviceTaintRule, driver: str, pool: str) -> bool:
    selector = rule.spec.device_selector
    return selector is None or (selector.driver in (None, driver) and selector.pool in (None, pool))
