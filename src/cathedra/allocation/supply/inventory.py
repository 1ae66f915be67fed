"""What exists: every slice of the cluster, taken apart once and kept incrementally.

A slice event costs its own devices; a snapshot costs shallow copies of three indexes. DeviceTaintRules are merged
into the devices here, so that nobody downstream knows rules (spec: allocation.md, section 4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from cathedra.allocation.supply.devices import Interner, PoolID, SliceRecord
from cathedra.api.resource import DeviceTaintRule, ResourceSlice

__all__ = ["Inventory", "InventorySnapshot"]


class InventorySnapshot:
    """All slices at one moment. Immutable, apart from memos."""

    __slots__ = ("bound", "counter_slices", "interner", "label_keys", "memo", "pools", "unbound")

    def __init__(
        self,
        *,
        bound: Mapping[str, tuple[SliceRecord, ...]],
        unbound: tuple[SliceRecord, ...],
        pools: Mapping[PoolID, tuple[SliceRecord, ...]],
        counter_slices: tuple[SliceRecord, ...],
        label_keys: tuple[str, ...],
        interner: Interner,
        memo: dict[Any, Any],
    ) -> None:
        self.bound = bound
        self.unbound = unbound
        self.pools = pools
        self.counter_slices = counter_slices
        self.label_keys = label_keys
        self.interner = interner
        self.memo = memo


class Inventory:
    """All ResourceSlices and DeviceTaintRules of a cluster.

    Slices keep the order in which they were first added, which is the lister's; a slice is known by its name.
    """

    __slots__ = (
        "_bound",
        "_interner",
        "_keys",
        "_memo",
        "_pools",
        "_records",
        "_rules",
        "_sequence",
        "_snapshot",
        "_unbound",
    )

    def __init__(self, slices: Iterable[ResourceSlice] = (), rules: Iterable[DeviceTaintRule] = ()) -> None:
        self._interner = Interner()
        self._memo: dict[Any, Any] = {}
        self._records: dict[str, SliceRecord] = {}
        self._rules: dict[str, DeviceTaintRule] = {rule.metadata.name: rule for rule in rules}
        self._bound: dict[str, tuple[SliceRecord, ...]] = {}
        self._unbound: tuple[SliceRecord, ...] | None = ()
        self._pools: dict[PoolID, tuple[SliceRecord, ...]] = {}
        self._keys: Counter[str] = Counter()
        self._sequence = 0
        self._snapshot: InventorySnapshot | None = None
        for item in slices:
            self.add_slice(item)

    def add_slice(self, item: ResourceSlice) -> None:
        """Enter a slice, or its new state."""
        known = self._records.get(item.metadata.name)
        if known is not None:
            self._unlink(known)
            sequence = known.sequence
        else:
            self._sequence += 1
            sequence = self._sequence
        self._link(SliceRecord(item, self._rules_for(item), self._interner, sequence))

    update_slice = add_slice

    def remove_slice(self, item: ResourceSlice | str) -> None:
        """Forget a slice, given by itself or by name; an unknown one is ignored."""
        known = self._records.get(item if isinstance(item, str) else item.metadata.name)
        if known is not None:
            self._unlink(known)

    def add_taint_rule(self, rule: DeviceTaintRule) -> None:
        """Enter a rule, or its new state; the slices it meets are prepared again."""
        old = self._rules.get(rule.metadata.name)
        self._rules[rule.metadata.name] = rule
        self._renew(rule for rule in (old, rule) if rule is not None)

    update_taint_rule = add_taint_rule

    def remove_taint_rule(self, rule: DeviceTaintRule | str) -> None:
        """Forget a rule, given by itself or by name; an unknown one is ignored."""
        old = self._rules.pop(rule if isinstance(rule, str) else rule.metadata.name, None)
        if old is not None:
            self._renew((old,))

    def snapshot(self) -> InventorySnapshot:
        """The state of this moment; the same object as long as nothing changes."""
        if self._snapshot is None:
            if self._unbound is None:
                self._unbound = _in_order(record for record in self._records.values() if not record.node_name)
            self._snapshot = InventorySnapshot(
                bound=dict(self._bound),
                unbound=self._unbound,
                pools=dict(self._pools),
                counter_slices=_in_order(record for record in self._records.values() if record.counter_sets),
                label_keys=tuple(sorted(self._keys)),
                interner=self._interner,
                memo=self._memo,
            )
        return self._snapshot

    def slices(self) -> tuple[ResourceSlice, ...]:
        """All slices as they were given, in the order of the lister."""
        return tuple(record.source for record in _in_order(self._records.values()))

    def statistics(self) -> dict[str, int]:
        """How many slices, pools, nodes with slices of their own, devices and rules there are."""
        return {
            "slices": len(self._records),
            "pools": len(self._pools),
            "nodes": len(self._bound),
            "devices": sum(len(record.devices) for record in self._records.values()),
            "rules": len(self._rules),
        }

    def _rules_for(self, item: ResourceSlice) -> list[DeviceTaintRule]:
        return [
            rule for _, rule in sorted(self._rules.items()) if _concerns(rule, item.spec.driver, item.spec.pool.name)
        ]

    def _renew(self, rules: Iterable[DeviceTaintRule]) -> None:
        concerned = list(rules)
        for record in list(self._records.values()):
            if any(_concerns(rule, *record.pool) for rule in concerned):
                self.add_slice(record.source)

    def _link(self, record: SliceRecord) -> None:
        self._snapshot = None
        self._records[record.name] = record
        self._pools[record.pool] = _in_order((*self._pools.get(record.pool, ()), record))
        if record.node_name:
            self._bound[record.node_name] = _in_order((*self._bound.get(record.node_name, ()), record))
        else:
            self._unbound = None
        self._keys.update(record.label_keys)

    def _unlink(self, record: SliceRecord) -> None:
        self._snapshot = None
        del self._records[record.name]
        _drop(self._pools, record.pool, record)
        if record.node_name:
            _drop(self._bound, record.node_name, record)
        else:
            self._unbound = None
        self._keys.subtract(record.label_keys)
        for key in record.label_keys:
            if not self._keys[key]:
                del self._keys[key]


def _in_order(records: Iterable[SliceRecord]) -> tuple[SliceRecord, ...]:
    return tuple(sorted(records, key=lambda record: record.sequence))


def _drop(index: dict[Any, tuple[SliceRecord, ...]], key: object, record: SliceRecord) -> None:
    rest = tuple(other for other in index[key] if other is not record)
    if rest:
        index[key] = rest
    else:
        del index[key]


def _concerns(rule: DeviceTaintRule, driver: str, pool: str) -> bool:
    selector = rule.spec.device_selector
    return selector is None or (selector.driver in (None, driver) and selector.pool in (None, pool))
