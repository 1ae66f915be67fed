"""Classes of nodes with equal results, updated incrementally.

A scheduler tries many nodes for every pod, and between two pods hardly anything changes. The *class* of each node,
which is all that its result depends on, is therefore kept for the scheduler's list of nodes, and updated by the changes
of nodes, slices and holdings. A pod then costs one search per class and one look-up per node. A class is computed when
its node is first read: in a large cluster a pod reads a tenth of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import compress
from operator import attrgetter, is_not
from typing import TYPE_CHECKING, Any, Final, cast

from cathedra.allocation.answers import AnswerCache, FittingNodes, NodeClass
from cathedra.allocation.claims.problem import Problem, declares_optional_operations
from cathedra.allocation.claims.requests import Constraint, RequestOption
from cathedra.allocation.claims.tables import Bases
from cathedra.allocation.features import Features
from cathedra.allocation.search.matching import positions
from cathedra.allocation.supply.caches import CacheSlot
from cathedra.allocation.supply.devices import DeviceID, PoolID, Projection
from cathedra.allocation.supply.inventory import EVERYWHERE, InventorySnapshot
from cathedra.allocation.supply.ledger import LedgerSnapshot, PoolState, StateKey
from cathedra.allocation.supply.pools import NodeSupply, NodeSupplyCache, PoolSupply, extent
from cathedra.allocation.supply.snapshots import Changelog

if TYPE_CHECKING:
    from cathedra.api.core import core_v1


class NodeEquivalence:
    """The node classes of the nodes in a list, as claims with one projection see them."""

    __slots__ = (
        "_answers",
        "_changed",
        "_extents",
        "_features",
        "_finders",
        "_interned",
        "_inventory",
        "_ledger",
        "_nodes",
        "_projection",
        "_rows",
        "_rows_of_node",
        "_rows_of_supply",
        "_supplies",
        "_supplies_of_extent",
        "_supplies_of_pool",
        "moment",
    )

    def __init__(self, features: Features, projection: Projection | None) -> None:
        self._features = features
        self._projection = projection
        self._nodes: tuple[core_v1.Node, ...] = ()
        self._inventory: InventorySnapshot | None = None
        self._ledger: LedgerSnapshot | None = None
        self._interned: dict[Any, NodeClass] = {}
        self._answers: dict[object, AnswerCache] = {}
        self._rows: list[NodeClass | None] = []
        """None: not computed yet."""
        self._changed: Changelog[int] = Changelog()
        """Rows that have moved to another class, or to none."""
        self._supplies: dict[int, NodeSupply] = {}
        """Views of the rows that have been computed."""
        self._rows_of_node: dict[str, set[int]] = {}
        self._rows_of_supply: dict[NodeSupply, set[int]] = {}
        self._supplies_of_pool: dict[PoolID, dict[NodeSupply, PoolSupply]] = {}
        self._supplies_of_extent: dict[PoolID, set[NodeSupply]] = {}
        self._extents: dict[PoolID, object] = {}
        self._finders: dict[PoolID, dict[str, set[NodeSupply]]] = {}
        """For pools that are seen in many ways: device name → supplies."""
        self.moment = 0
        """Number of the last `follow` that had something to follow."""

    @staticmethod
    def of(inventory: InventorySnapshot, features: Features, projection: Projection | None) -> NodeEquivalence:
        """Return the node classes that are kept with this inventory, as claims with that projection see them."""
        # Popped and entered again, so that the dict's order is that of the last use.
        kept, key = inventory.caches.of(EQUIVALENCES), (features, projection)
        found = kept.pop(key, None)
        if found is None:
            if len(kept) >= _KEPT:
                del kept[next(iter(kept))]
            found = NodeEquivalence(features, projection)
        kept[key] = found
        return found

    def follow(self, nodes: tuple[core_v1.Node, ...], inventory: InventorySnapshot, ledger: LedgerSnapshot) -> int:
        """Advance to these nodes at this moment, and return its number. The cost is proportional to the changes since
        the last call."""
        # Fast path: between two pods mostly nothing but holdings has changed.
        unchanged = nodes is self._nodes and inventory is self._inventory
        if unchanged and ledger is self._ledger:
            return self.moment
        concerned = () if unchanged else self._concerned(nodes, inventory)
        # Too much has changed, or it is not known what: all rows begin anew, and are computed when they are read.
        if concerned is None:
            self._begin(len(nodes))
        else:
            for row in concerned:
                self._forget(row)
            self._catch_up(ledger)
        self._nodes, self._inventory, self._ledger = nodes, inventory, ledger
        self.moment += 1
        return self.moment

    def classes(self, rows: Sequence[int]) -> list[NodeClass]:
        """Return the classes of the nodes at these places in the list, at the moment of the last `follow`.

        Raises:
            FatalError: a node selector cannot be parsed.
        """
        known = self._rows
        found = [known[row] for row in rows]
        if None in found:
            self._look(dict.fromkeys(row for row in rows if known[row] is None))
            found = [known[row] for row in rows]
        return cast(list[NodeClass], found)

    def class_at(self, row: int) -> NodeClass:
        """Return the class of the node at one place in the list, as `classes` does."""
        found = self._rows[row]
        if found is None:
            self._look((row,))
            found = self._rows[row]
        assert found is not None
        return found

    def class_of(self, node: core_v1.Node, supply: NodeSupply, ledger: LedgerSnapshot) -> NodeClass:
        """Return the class of one node with this supply, at the moment of this ledger."""
        features = self._features
        states = supply.states(ledger, shares=features.consumable_capacity)
        operations = features.optional_node_operations and declares_optional_operations(node)
        key = (supply.shape_under(self._projection), operations, *map(_key_of, states))
        known = self._interned.get(key)
        if known is None:
            if len(self._interned) >= _NODE_CLASSES:
                # Classes are compared by identity. If they were dropped without the answers, equal classes made later
                # would never find the answers again.
                self._interned.clear()
                self._answers.clear()
            known = self._interned[key] = NodeClass(supply.interner.next_number(), node, supply, states)
        return known

    def supply_at(self, row: int) -> NodeSupply:
        """Return the supply of a node whose class has been computed since the last `follow`."""
        return self._supplies[row]

    def fitting(self, known: AnswerCache) -> FittingNodes:
        """Return the rows on which the claims with these cached results fit, at the moment of the last `follow`."""
        known.nodes.follow(self._changed, self._rows, known.shared)
        return known.nodes

    def answers(self, request_key: object) -> AnswerCache:
        """Return the cache of results for requests with one key; a new one if the key is None."""
        if request_key is None:
            return AnswerCache()
        found = self._answers.pop(request_key, None)
        if found is None:
            # A limit on the number of request keys alone would not bound the memory: one key may have an answer for
            # each class.
            if sum([len(known.shared) for known in self._answers.values()]) > _ANSWERS:
                self._answers.clear()
            elif len(self._answers) >= _QUESTIONS:
                del self._answers[next(iter(self._answers))]
            found = AnswerCache()
        self._answers[request_key] = found
        return found

    # --- following

    def _concerned(self, nodes: tuple[core_v1.Node, ...], inventory: InventorySnapshot) -> set[int] | None:
        """Return the rows whose supply may have changed; None if they are not known."""
        before = self._inventory
        known = self._nodes
        if before is None:
            return None
        rows = set() if nodes is known else _replaced(nodes, known)
        if rows is None or inventory is before:
            return rows
        changes = inventory.mark.since(before.mark)
        # A slice without a node has changed, or the changelog is too short: any node may reach other devices now.
        if changes is None or EVERYWHERE in changes or self._features.everywhere:
            return None
        for change in changes:
            if isinstance(change, str):
                rows.update(self._rows_of_node.get(change, ()))
            # Slices of a pool for other nodes matter to a node only by counters. If these are equal, its class stays.
            elif change in self._supplies_of_extent:
                now = extent(inventory, change, groups=self._features.compatibility_groups)
                if now != self._extents.get(change):
                    self._extents[change] = now
                    rows.update(*(self._rows_of_supply[supply] for supply in self._supplies_of_extent[change]))
        return rows

    def _begin(self, rows: int) -> None:
        self._rows = [None] * rows
        self._changed.drop()
        self._supplies = {}
        self._rows_of_node, self._rows_of_supply = {}, {}
        self._supplies_of_pool, self._supplies_of_extent = {}, {}
        self._extents.clear()
        self._finders.clear()

    def _look(self, rows: Iterable[int]) -> None:
        """Compute the classes of nodes, for the first time or again."""
        inventory, ledger = self._inventory, self._ledger
        assert inventory is not None
        assert ledger is not None
        supplies = NodeSupplyCache(inventory, self._features)
        made: dict[tuple[NodeSupply, bool], NodeClass] = {}
        for row in rows:
            node = self._nodes[row]
            supply = self._supplies[row] = supplies.of(node)
            key = (supply, declares_optional_operations(node))
            found = made.get(key)
            if found is None:
                found = made[key] = self.class_of(node, supply, ledger)
            self._rows[row] = found
            self._rows_of_node.setdefault(node.metadata.name, set()).add(row)
            self._index(row, supply)

    def _forget(self, row: int) -> None:
        """Drop the class of a node whose supply may have changed; it is computed again when it is read."""
        self._rows[row] = None
        self._changed.note(row)
        supply = self._supplies.pop(row, None)
        if supply is None:
            return
        rows = self._rows_of_supply[supply]
        rows.discard(row)
        if rows:
            return
        del self._rows_of_supply[supply]
        for pool in supply.usable:
            del self._supplies_of_pool[pool.id][supply]
            for record in pool.devices if self._finders.get(pool.id) else ():
                self._finders[pool.id][record.name].discard(supply)
        for name, _ in supply.sources.depends:
            self._supplies_of_extent[name].discard(supply)

    def _index(self, row: int, supply: NodeSupply) -> None:
        rows = self._rows_of_supply.get(supply)
        if rows is not None:
            rows.add(row)
            return
        self._rows_of_supply[supply] = {row}
        for pool in supply.usable:
            self._supplies_of_pool.setdefault(pool.id, {})[supply] = pool
            if pool.id in self._finders:
                _enlist(self._finders[pool.id], supply, pool)
        for name, known in supply.sources.depends:
            self._supplies_of_extent.setdefault(name, set()).add(supply)
            self._extents[name] = known

    def _catch_up(self, ledger: LedgerSnapshot) -> None:
        """Bring the rows up to date that see pools of which more or less is held than before."""
        before = self._ledger
        assert before is not None
        if ledger is before:
            return
        changes = ledger.mark.since(before.mark)
        pools = {change[:2] for change in changes} if changes is not None else _differing(ledger, before)
        supplies: dict[NodeSupply, PoolSupply] = {}
        for pool in pools:
            seeing = self._supplies_of_pool.get(pool)
            if seeing:
                supplies |= seeing if changes is None or len(seeing) <= _FEW else self._holding(pool, seeing, changes)
        renewed: dict[tuple[NodeClass | None, object], NodeClass] = {}
        for supply, seen in supplies.items():
            # Rows that had equal classes before have equal classes again if they have one supply, or if only one pool
            # has changed and they see it alike.
            view = (seen, supply.place_of(seen)) if len(pools) == 1 else supply
            for row in self._rows_of_supply[supply]:
                key = (self._rows[row], view)
                found = renewed.get(key)
                if found is None:
                    found = renewed[key] = self.class_of(self._nodes[row], supply, ledger)
                self._rows[row] = found
                self._changed.note(row)

    def _holding(
        self, pool: PoolID, supplies: Mapping[NodeSupply, PoolSupply], changes: Iterable[DeviceID]
    ) -> Mapping[NodeSupply, PoolSupply]:
        """Return those of ``supplies``, which all have ``pool``, for which a change of its holdings may matter."""
        if any(seen.counters for seen in supplies.values()):
            # Holdings affect every node, because of shared counters.
            return supplies
        devices = [change[2] for change in changes if change[:2] == pool]
        # Asking each supply whether it has the device would be linear in the nodes for each claim.
        finder = self._finders.get(pool)
        if finder is None:
            finder = self._finders[pool] = {}
            for supply, seen in supplies.items():
                _enlist(finder, supply, seen)
        return {supply: supplies[supply] for device in devices for supply in finder.get(device, ())}


_key_of: Final[Callable[[PoolState], StateKey | int | None]] = attrgetter("key")
_KEPT: Final = 16
"""Largest number of projections that are kept up to date; the least recently used is dropped."""
_QUESTIONS: Final = 64
"""Largest number of request keys whose results are cached; the least recently used is dropped."""
_ANSWERS: Final = 200_000
"""Largest number of cached results."""
_NODE_CLASSES: Final = 20_000
"""Largest number of cached node classes."""
_FEW: Final = 8


EQUIVALENCES: Final[CacheSlot[dict[tuple[Features, Projection | None], NodeEquivalence]]] = CacheSlot(
    "node classes", dict
)


def _replaced(nodes: Sequence[core_v1.Node], known: Sequence[core_v1.Node]) -> set[int] | None:
    """Return the rows of nodes that have other objects than before; None if these are not the same nodes."""
    if len(nodes) != len(known):
        return None
    rows = set()
    for row in compress(range(len(nodes)), map(is_not, nodes, known)):
        if nodes[row].metadata.name != known[row].metadata.name:
            return None
        rows.add(row)
    return rows


def _enlist(finder: dict[str, set[NodeSupply]], supply: NodeSupply, pool: PoolSupply) -> None:
    for record in pool.devices:
        finder.setdefault(record.name, set()).add(supply)


def _differing(one: LedgerSnapshot, other: LedgerSnapshot) -> set[PoolID]:
    return {pool for pool in {*one.pools, *other.pools} if one.pools.get(pool) is not other.pools.get(pool)}


# --- equal searches


def search_key(problem: Problem, bases: Bases) -> Hashable | None:
    """Return the form of a search, or None if more than devices and equality of values decides it.

    More than that are counters, shares, lists of values, derived attributes, and devices on which a test may fail.
    """
    features = problem.features
    options = [choice.option for requests in problem.requests for request in requests for choice in request.choices]
    if problem.supply.has_counters or features.list_type_attributes or any(bases.risky):
        return None
    if any(option.derived or bases.masks[option.number] & bases.shareable for option in options):
        return None
    choices = tuple(
        [
            (choice.count, choice.devices)
            for requests in problem.requests
            for request in requests
            for choice in request.choices
        ]
    )
    compared: dict[tuple[str, bool], tuple[Constraint, RequestOption, int]] = {}
    for option in options:
        for constraint in problem.plans[option.claim].constraints:
            if constraint.concerns(option):
                key = (constraint.attribute, constraint.distinct)
                before = compared[key][2] if key in compared else 0
                compared[key] = (constraint, option, before | bases.masks[option.number])
    return (
        tuple(bases.masks),
        choices,
        tuple([(key, _pattern(problem, *compared[key])) for key in sorted(compared)]),
    )


def _pattern(problem: Problem, constraint: Constraint, option: RequestOption, devices: int) -> tuple[object, ...]:
    """Return the types and values of these devices, with equal values numbered in order. The types are included because
    distinctAttribute depends on them if they are mixed."""
    numbers: dict[object, int] = {}
    found: list[object] = []
    for position in positions(devices):
        value = problem.value(option, problem.devices[position], constraint)
        found.append(None if value is None else (value[0], numbers.setdefault(value, len(numbers))))
    return tuple(found)
