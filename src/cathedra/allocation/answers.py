"""The answers of a node, and of many nodes at once.

Nodes of one class share an answer; it is written out for a node when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

import msgspec

from cathedra.allocation.claims.problem import Solution
from cathedra.allocation.errors import NodeError
from cathedra.allocation.refusal import Refusal
from cathedra.api.core import core_v1
from cathedra.api.resource import AllocationResult

__all__ = ["Allocation", "Answers", "SharedAnswer"]


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


class SharedAnswer(msgspec.Struct, frozen=True, eq=False):
    """What all nodes of one class answer to all claims that ask for the same; devices are given by position."""

    solution: Solution | None
    stopped: int | None = None
    node_error: bool = False
    """The search was never begun; the text of the error is each node's own."""


class Answers(Sequence["Allocation | Refusal | NodeError"]):
    """The answers of many nodes, in their order, each written out when it is looked at."""

    __slots__ = ("_groups", "_kinds", "_nodes", "_write")

    def __init__(
        self,
        nodes: Sequence[core_v1.Node],
        groups: Sequence[tuple[bool, Sequence[int]]],
        write: Callable[[core_v1.Node], Allocation | Refusal],
    ) -> None:
        self._nodes = nodes
        self._groups = groups
        self._write = write
        self._kinds: list[int] | None = None

    def fitting(self) -> list[int]:
        """Where in the list of nodes the claims fit."""
        return sorted([place for fits, places in self._groups if fits for place in places])

    def kind(self, place: int) -> int:
        """A number that nodes share if they share an answer, so that one of them need be looked at."""
        if self._kinds is None:
            self._kinds = [0] * len(self._nodes)
            for number, (_, places) in enumerate(self._groups):
                for one in places:
                    self._kinds[one] = number
        return self._kinds[place]

    @property
    def kinds(self) -> int:
        """How many different answers there are; so many searches were needed at most."""
        return len(self._groups)

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
        try:
            return self._write(self._nodes[place])
        except NodeError as error:
            return error
