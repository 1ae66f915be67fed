"""Many nodes at once: who looks like whom, and what they answer.

A scheduler asks all nodes for every pod, and between two pods hardly anything changes. So the *standing* of each node,
which is all that an answer depends on, is kept for the scheduler's list of nodes and brought up to date by what the
ledger says has changed. A pod then costs one search per distinct standing, and one look-up per node. Answers are
written out when somebody looks at them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, overload

import msgspec

from cathedra.allocation.errors import NodeError
from cathedra.allocation.features import Features
from cathedra.allocation.refusal import Refusal
from cathedra.allocation.search.problem import RequestOnNode, Solution, declares_optional_operations
from cathedra.allocation.supply.devices import Sight
from cathedra.allocation.supply.inventory import InventorySnapshot
from cathedra.allocation.supply.ledger import LedgerSnapshot
from cathedra.allocation.supply.pools import NodeView, PoolState, node_view
from cathedra.api.core import core_v1
from cathedra.api.resource import AllocationResult

__all__ = ["Allocation", "Answers", "SharedAnswer", "Standing", "Standings"]


class Allocation:
    """The claims fit: one result per claim, in their order, ready for ``claim.status.allocation``.

    The results are written out when first asked for, and stay the same from then on.
    """

    __slots__ = ("_results", "_write", "node")

    def __init__(self, node: str, write: Callable[[], tuple[AllocationResult, ...]]) -> None:
        self.node = node
        self._write = write
        self._results: tuple[AllocationResult, ...] | None = None

    @property
    def results(self) -> tuple[AllocationResult, ...]:
        """One AllocationResult per claim.

        Raises:
            FatalError: a slice's node selector has several terms.
        """
        if self._results is None:
            self._results = self._write()
        return self._results

    def __repr__(self) -> str:
        return f"Allocation({self.node!r}, {self.results!r})"


class Standing(msgspec.Struct, frozen=True, eq=False):
    """All that a node's answer depends on: the shape of its pools and what is taken of them."""

    key: Any
    node: core_v1.Node
    """One of the nodes that stood so; it may have changed since."""
    view: NodeView
    states: tuple[PoolState, ...]


class SharedAnswer(msgspec.Struct, frozen=True, eq=False):
    """What all nodes of one standing answer; devices are given by position."""

    requests: list[list[RequestOnNode]]
    solution: Solution | None
    stopped: int | None = None
    node_error: bool = False
    """The search was never begun; the text of the error is each node's own."""


class Standings:
    """The standing of every node in a list, kept up to date."""

    __slots__ = (
        "_features",
        "_interned",
        "_inventory",
        "_ledger",
        "_nodes",
        "_rows",
        "_rows_of_pool",
        "_sight",
        "_views",
    )

    def __init__(self, features: Features, sight: Sight | None) -> None:
        self._features = features
        self._sight = sight
        self._nodes: Sequence[core_v1.Node] = ()
        self._inventory: InventorySnapshot | None = None
        self._ledger: LedgerSnapshot | None = None
        self._interned: dict[Any, Standing] = {}
        self._rows: list[Standing] = []
        self._views: list[NodeView] = []
        self._rows_of_pool: dict[Any, list[int]] = {}

    @staticmethod
    def of(inventory: InventorySnapshot, features: Features, sight: Sight | None) -> Standings:
        """The standings, as seen by claims with that sight, that live with this inventory."""
        kept: dict[Any, Standings] = inventory.memo.setdefault("standings", {})
        found = kept.pop((features, sight), None)
        if found is None:
            if len(kept) >= _KEPT:
                del kept[next(iter(kept))]
            found = Standings(features, sight)
        kept[features, sight] = found
        return found

    def rows(
        self, nodes: Sequence[core_v1.Node], inventory: InventorySnapshot, ledger: LedgerSnapshot
    ) -> list[Standing]:
        """One standing per node. A list that is asked for again, unchanged, costs what has changed since.

        Raises:
            FatalError: a node selector cannot be parsed.
        """
        if nodes is not self._nodes or inventory is not self._inventory:
            self._begin(nodes, inventory, ledger)
        elif ledger is not self._ledger:
            self._follow(ledger)
        return self._rows

    def standing(self, node: core_v1.Node, view: NodeView, ledger: LedgerSnapshot) -> Standing:
        """The standing of one node."""
        features = self._features
        states = view.states(ledger, shares=features.consumable_capacity)
        operations = features.optional_node_operations and declares_optional_operations(node)
        key = (view.looks(self._sight), operations, tuple([state.key for state in states]))
        known = self._interned.get(key)
        if known is None:
            if len(self._interned) > 100_000:
                self._interned.clear()
            known = self._interned[key] = Standing(key, node, view, states)
        return known

    def _begin(self, nodes: Sequence[core_v1.Node], inventory: InventorySnapshot, ledger: LedgerSnapshot) -> None:
        self._inventory = None
        self._views = [node_view(inventory, node, self._features) for node in nodes]
        self._rows = [self.standing(node, view, ledger) for node, view in zip(nodes, self._views, strict=True)]
        self._rows_of_pool = {}
        for row, view in enumerate(self._views):
            for pool in view.usable:
                self._rows_of_pool.setdefault(pool.id, []).append(row)
        self._nodes, self._inventory, self._ledger = nodes, inventory, ledger

    def _follow(self, ledger: LedgerSnapshot) -> None:
        before = self._ledger
        assert before is not None
        if ledger.follows(before):
            changed = ledger.changed
        else:
            pools = ledger.pools.keys() | before.pools.keys()
            changed = frozenset(pool for pool in pools if ledger.pools.get(pool) is not before.pools.get(pool))
        rows = {row for pool in changed for row in self._rows_of_pool.get(pool, ())}
        if rows:
            # Answers that were given keep the list they were given from.
            self._rows = list(self._rows)
            for row in rows:
                self._rows[row] = self.standing(self._nodes[row], self._views[row], ledger)
        self._ledger = ledger


_KEPT: Final = 16
"""How many different sights are kept up to date; the least recently used is dropped."""


class Answers(Sequence["Allocation | Refusal | NodeError"]):
    """The answers of many nodes, in their order, each written out when it is looked at."""

    __slots__ = ("_nodes", "_shared", "_write")

    def __init__(
        self,
        nodes: Sequence[core_v1.Node],
        shared: list[SharedAnswer],
        write: Callable[[core_v1.Node], Allocation | Refusal],
    ) -> None:
        self._nodes = nodes
        self._shared = shared
        self._write = write

    def fitting(self) -> list[int]:
        """Where in the list of nodes the claims fit."""
        return [place for place, answer in enumerate(self._shared) if answer.solution is not None]

    @property
    def kinds(self) -> int:
        """How many different answers there are; so many searches were needed at most."""
        return len(set(map(id, self._shared)))

    def __len__(self) -> int:
        return len(self._shared)

    def __iter__(self) -> Iterator[Allocation | Refusal | NodeError]:
        return (self[place] for place in range(len(self._shared)))

    @overload
    def __getitem__(self, place: int) -> Allocation | Refusal | NodeError: ...
    @overload
    def __getitem__(self, place: slice) -> list[Allocation | Refusal | NodeError]: ...
    def __getitem__(
        self, place: int | slice
    ) -> Allocation | Refusal | NodeError | list[Allocation | Refusal | NodeError]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        try:
            return self._write(self._nodes[place])
        except NodeError as error:
            return error
