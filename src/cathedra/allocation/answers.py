"""Results of allocation on one node, and on many nodes at once.

Nodes of one class share a result. It is computed when the first of them is read, and translated into devices of a node
when that node is read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import overload

import msgspec

from cathedra.allocation.claims.problem import Solution
from cathedra.allocation.errors import NodeError
from cathedra.allocation.refusal import Refusal
from cathedra.allocation.supply.ledger import PoolState
from cathedra.allocation.supply.pools import NodeSupply
from cathedra.allocation.supply.snapshots import Changelog
from cathedra.api.core import core_v1
from cathedra.api.resource import AllocationResult


class Allocation(msgspec.Struct, frozen=True, eq=False):
    """A successful allocation: one result per claim."""

    node: str
    results: tuple[AllocationResult, ...]
    """One per claim, in their order, ready for ``claim.status.allocation``."""

    def __repr__(self) -> str:
        devices = [one.device for result in self.results for one in result.devices.results]
        return f"Allocation({self.node!r}, devices={devices!r})"


class NodeClass(msgspec.Struct, frozen=True, eq=False):
    """Everything that the result of a node depends on: the shape of its pools and the devices taken of them."""

    number: int
    """No other class has it."""
    node: core_v1.Node
    """One of the nodes of the class; it may have changed since."""
    supply: NodeSupply
    states: tuple[PoolState, ...]


class SharedAnswer(msgspec.Struct, frozen=True, eq=False):
    """Result of all nodes of one class for equal requests; devices are given by position."""

    solution: Solution | None
    stopped: int | None = None
    node_error: bool = False
    """The search was never begun; the text of the error is each node's own."""
    seconds: float = 0.0
    """Seconds after which a search was stopped for its time; 0 if its states were used up."""


class FittingNodes:
    """Positions in a list of nodes on which equal requests fit, as far as they have been computed.

    Between two pods few nodes change, so only those are computed again.
    """

    __slots__ = ("_followed", "erring", "fitting", "refusing")

    def __init__(self) -> None:
        self.fitting: set[int] = set()
        self.refusing: set[int] = set()
        """Positions on which the claims do not fit."""
        self.erring: set[int] = set()
        """Positions on which no device can be allocated because of an error of the node."""
        self._followed = -1

    def follow(
        self, changes: Changelog[int], classes: Sequence[NodeClass | None], answers: Mapping[NodeClass, SharedAnswer]
    ) -> None:
        """Advance to this moment, at which the nodes have these classes. Positions whose result is not cached count as
        not computed."""
        before, self._followed = self._followed, changes.end
        # Fast path: between two pods usually nothing has changed.
        if before == changes.end:
            return
        changed = changes.since(before)
        # The history does not reach back so far, so any node may have changed.
        if changed is None:
            self.fitting.clear()
            self.refusing.clear()
            self.erring.clear()
            return
        for place in changed:
            node_class = classes[place]
            answer = None if node_class is None else answers.get(node_class)
            # Fast path: the node changed class and its claims still fit, so no set is changed.
            if answer is not None and answer.solution is not None and place in self.fitting:
                continue
            self.fitting.discard(place)
            self.refusing.discard(place)
            self.erring.discard(place)
            if node_class is not None and answer is not None:
                self.note(place, node_class, answer)

    def note(self, place: int, node_class: NodeClass, answer: SharedAnswer) -> None:
        """Record the result of a position's class. A stopped search is not recorded, because the next one may
        finish."""
        if answer.solution is not None:
            self.fitting.add(place)
        elif answer.node_error or (answer.stopped is None and node_class.supply.invalid):
            self.erring.add(place)
        elif answer.stopped is None:
            self.refusing.add(place)


class AnswerCache:
    """Results of equal requests, cached from pod to pod."""

    __slots__ = ("nodes", "shared", "solutions")

    def __init__(self) -> None:
        self.shared: dict[NodeClass, SharedAnswer] = {}
        self.solutions: dict[Hashable, Solution | None] = {}
        """Search key of a long search (`cathedra.allocation.equivalence`) → its solution."""
        self.nodes = FittingNodes()


class Answers(Sequence["Allocation | Refusal | NodeError"]):
    """Results of many nodes in their order. Each is computed on demand and translated into devices when it is read.

    Every method that computes a result raises `FatalError` if the claims cannot be allocated on any node until
    something changes.
    """

    __slots__ = ("_class_at", "_nodes", "_shared")

    def __init__(self, nodes: tuple[core_v1.Node, ...]) -> None:
        self._nodes = nodes
        self._class_at: dict[int, NodeClass] = {}
        self._shared: dict[NodeClass, SharedAnswer] = {}

    @abstractmethod
    def _classes_of(self, places: Sequence[int]) -> Sequence[NodeClass]:
        """Return the classes of the nodes at ``places``."""

    @abstractmethod
    def _fitting_now(self) -> FittingNodes | None:
        """Return the present knowledge of the nodes; None after nodes have changed."""

    @abstractmethod
    def _solve(self, node_class: NodeClass) -> SharedAnswer:
        """Return the result of the nodes of one class."""

    @abstractmethod
    def _write(self, place: int) -> Allocation | Refusal:
        """Return the result for the node at one place, in its devices."""

    @property
    def everywhere(self) -> bool | None:
        """True if the claims are known to fit on all nodes, False if on none and no node has an error, else None.
        Nothing is computed."""
        fitting_now = self._fitting_now()
        if fitting_now is None:
            return None
        if len(fitting_now.fitting) == len(self._nodes):
            return True
        return False if len(fitting_now.refusing) == len(self._nodes) else None

    def fitting(self, places: Sequence[int] | None = None) -> list[int]:
        """Return those of ``places`` on which the claims fit. ``places`` are distinct positions without an error."""
        wanted = range(len(self._nodes)) if places is None else places
        fitting_now = self._fitting_now()
        if fitting_now is None:
            fits = dict(zip(wanted, self._fit(self._classes(wanted)), strict=True))
            return [place for place in wanted if fits[place]]
        fitting, refusing, erring = fitting_now.fitting, fitting_now.refusing, fitting_now.erring
        if not fitting.issuperset(wanted):
            # Errors are sets of their own: a node with one must neither be offered nor searched again.
            others = [place for place in wanted if place not in fitting and place not in refusing]
            self._compute(fitting_now, [place for place in others if place not in erring])
        return list(filter(fitting.__contains__, wanted))

    def all_refuse(self, places: Iterable[int]) -> bool:
        """Return True if the claims are known not to fit on any of ``places``, without an error of a node."""
        fitting_now = self._fitting_now()
        return fitting_now is not None and fitting_now.refusing.issuperset(places)

    def _compute(self, fitting_now: FittingNodes, places: Sequence[int]) -> None:
        """Compute the results of positions that are not cached."""
        classes = self._classes_of(places)
        # One search for each class and not for each node: a thousand equal nodes are one class.
        answers = {one: self._answer(one) for one in dict.fromkeys(classes)}
        for place, one in zip(places, classes, strict=True):
            fitting_now.note(place, one, answers[one])

    def _fit(self, classes: Sequence[NodeClass]) -> list[bool]:
        fits = {one: self._answer(one).solution is not None for one in dict.fromkeys(classes)}
        return [fits[one] for one in classes]

    def fits(self, place: int) -> bool:
        """Return True if the claims fit on the node at one position."""
        return self._answer(self._class(place)).solution is not None

    def fitting_kind(self, place: int) -> int | None:
        """As `kind`, where the claims fit; else None."""
        node_class = self._class(place)
        return None if self._answer(node_class).solution is None else node_class.number

    def kind(self, place: int) -> int:
        """Return a number that is equal for nodes that share a result."""
        return self._class(place).number

    def kinds_of(self, places: Sequence[int]) -> list[int]:
        """Return `kind` for each of ``places``."""
        return [one.number for one in self._classes(places)]

    @property
    def kinds(self) -> int:
        """Return the number of different results, which is also the largest number of searches that were made."""
        return len(set(self._classes(range(len(self._nodes)))))

    def _class(self, place: int) -> NodeClass:
        known = self._class_at.get(place)
        if known is None:
            (known,) = self._classes_of((place,))
            self._class_at[place] = known
        return known

    def _classes(self, places: Sequence[int]) -> Sequence[NodeClass]:
        known = self._class_at
        if len(known) == len(self._nodes):
            return [known[place] for place in places]
        found = self._classes_of(places)
        known.update(zip(places, found, strict=True))
        return found

    def _answer(self, node_class: NodeClass) -> SharedAnswer:
        known = self._shared.get(node_class)
        if known is None:
            known = self._shared[node_class] = self._solve(node_class)
        return known

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Allocation | Refusal | NodeError]:
        return (self[place] for place in range(len(self)))

    @overload
    def __getitem__(self, place: int) -> Allocation | Refusal | NodeError: ...
    @overload
    def __getitem__(self, place: slice) -> list[Allocation | Refusal | NodeError]: ...
    def __getitem__(
        self, place: int | slice
    ) -> Allocation | Refusal | NodeError | list[Allocation | Refusal | NodeError]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        return self.at(range(len(self._nodes))[place])

    def at(self, place: int) -> Allocation | Refusal | NodeError:
        """Return the result for the node at one place of the list; a `NodeError` is returned, not raised."""
        try:
            return self._write(place)
        except NodeError as error:
            return error
