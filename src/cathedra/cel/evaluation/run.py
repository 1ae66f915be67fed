"""One evaluation and what its steps share: the cost so far, the values that costs are counted over, the trace.

Kubernetes counts the cost of a call from the values its arguments left on a stack. Which values are still there
depends on how its interpreter cuts an expression into steps, so the stack is kept here in the same way
(docs/spec/cel.md §7.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import GeneratorType
from typing import Final, Protocol

from cathedra.cel.errors import CostLimitExceeded, EvaluationAborted, Interrupted
from cathedra.cel.library.formats import NamedFormat
from cathedra.cel.library.semver import Semver
from cathedra.cel.values import (
    CELValue,
    Duration,
    Failure,
    MutableList,
    Optional,
    Timestamp,
    TypeValue,
    UInt,
    type_name,
)

ABSENT: Final = object()
"""Result of a lookup that finds nothing."""


class Run:
    """One evaluation: its cost so far, and the results of its steps."""

    __slots__ = ("cost", "interrupted", "limit", "places", "stack", "trace")

    def __init__(
        self,
        limit: int | None = None,
        trace: dict[int, CELValue] | None = None,
        interrupted: Callable[[], bool] | None = None,
    ) -> None:
        self.cost, self.limit, self.trace, self.interrupted = 0, limit, trace, interrupted
        self.stack: list[tuple[int, CELValue, int]] = []
        """Ids and values, each with the place below where the same id stands as well (-1: nowhere)."""
        self.places: dict[int, int] = {}
        """The highest place of an id; -1: it is not there any more."""

    def note(self, id_: int, value: CELValue) -> None:
        """Note that a step ended with ``value``.

        Raises:
            CostLimitExceeded: the evaluation has cost too much.
            Interrupted: it has taken too long.
        """
        stack, places = self.stack, self.places
        below = places.get(id_, -1)
        places[id_] = len(stack)
        stack.append((id_, value, below))
        if self.trace is not None:
            self.trace[id_] = list(value) if value.__class__ is MutableList else value
        if self.limit is not None and self.cost > self.limit:
            raise CostLimitExceeded
        if self.interrupted is not None and self.interrupted():
            raise Interrupted

    def cut(self, place: int) -> None:
        """Drop all values from ``place`` upwards."""
        stack, places = self.stack, self.places
        while len(stack) > place:
            id_, _, places[id_] = stack.pop()

    def drop(self, *ids: int) -> None:
        """Drop the values of finished steps, and all values above them."""
        for id_ in ids:
            place = self.places.get(id_, -1)
            if place >= 0:
                self.cut(place)

    def take(self, ids: tuple[int, ...]) -> list[CELValue] | None:
        """Return the values of a call's arguments; None if one of them was never reached."""
        values = []
        for id_ in reversed(ids):
            place = self.places.get(id_, -1)
            if place < 0:
                return None
            values.append(self.stack[place][1])
            self.cut(place)
        values.reverse()
        return values


class Variables:
    """Variables of an evaluation. A value may be a function without arguments, which is called when the variable is
    read."""

    __slots__ = ("values",)

    def __init__(self, values: Mapping[str, CELValue]) -> None:
        self.values = values

    def find(self, _: Run, name: str) -> CELValue:
        """Return the value of ``name``, or a marker if there is none."""
        value = self.values.get(name.lstrip("."), ABSENT)
        return value() if callable(value) else value


Walk: Final = GeneratorType
"""The class of what a step returns that has to evaluate other steps first."""


class VariableScope(Protocol):
    """`Variables`, or the scope of a comprehension around them."""

    def find(self, run: Run, name: str, /) -> CELValue:
        """Return the value of a name, a marker if there is none, or a walk that finds it."""


class Step:
    """One step of a plan."""

    __slots__ = ()

    @property
    def id(self) -> int:
        """The id of the node that the step's value belongs to."""
        raise NotImplementedError  # each kind of step does

    def eval(self, run: Run, scope: VariableScope) -> CELValue:
        """Return the value, a `Failure`, or a `Walk` that finds one of them: steps with parts must not call each other,
        since expressions nest more deeply than functions may (`cathedra.cel._trampoline`)."""
        raise NotImplementedError  # each kind of step does


class Numbered(Step):
    """A step that belongs to one node."""

    __slots__ = ("id",)
    id: int


class ConstantStep(Numbered):
    """A value known beforehand."""

    __slots__ = ("value",)

    def __init__(self, id_: int, value: CELValue) -> None:
        self.id, self.value = id_, value

    def eval(self, run: Run, scope: VariableScope) -> CELValue:
        run.note(self.id, self.value)
        return self.value


def require_hashable(value: CELValue) -> None:
    """Refuse values that Kubernetes cannot look up in its hash tables."""
    if value.__class__ in (Semver, NamedFormat, bytes):
        raise EvaluationAborted(f"internal error: runtime error: hash of unhashable type {go_type(value)}")


_GO_TYPES: Final = {
    bool: "types.Bool",
    int: "types.Int",
    UInt: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    type(None): "types.Null",
    Duration: "types.Duration",
    Timestamp: "types.Timestamp",
    TypeValue: "*types.Type",
    Optional: "*types.Optional",
    list: "*types.baseList",
    Failure: "*types.Err",
    dict: "*types.baseMap",
}


def go_type(value: CELValue) -> str:
    """Return the name of a value's class in Kubernetes' errors."""
    known = _GO_TYPES.get(value.__class__)
    return known if known is not None else f"cel.{type_name(value).rpartition('.')[2]}"
