"""Search for a linearization of a history: the algorithm of Wing and Gong with the cache of Lowe, as Porcupine has it.

An operation takes effect at one moment between its call and its return. The search walks through the calls and returns
in the order of time. It linearizes a pending call whenever the model allows its answer in the present state, and goes
back when a return comes up whose call could not be linearized. A pair of linearized set and state that was seen before
is not searched again.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

__all__ = ["Operation", "first_impossible", "is_linearizable"]

I = TypeVar("I")  # noqa: E741  # input
O = TypeVar("O")  # noqa: E741  # output
S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True)
class Operation(Generic[I, O]):
    """A call of one client. Without an answer (``output`` None) it may take effect at any later time, or never."""

    key: str
    input: I
    call: float
    end: float = math.inf
    output: O | None = None


Step = Callable[[S, I, O | None], S | None]
"""The state after an input that was answered by an output (None: unknown); None if that answer is impossible."""


class _Entry:
    """A call, or the return that belongs to it, in a doubly linked list in the order of time."""

    __slots__ = ("after", "before", "number", "operation", "returned")

    def __init__(self, number: int, operation: Operation[Any, Any] | None) -> None:
        self.number, self.operation = number, operation
        self.returned: _Entry | None = None
        self.before: _Entry | None = None
        self.after: _Entry | None = None

    def lift(self) -> None:
        """Take a call and its return out of the list."""
        for entry in (self, self.returned):
            if entry is not None:
                assert entry.before is not None
                entry.before.after = entry.after
                if entry.after is not None:
                    entry.after.before = entry.before

    def unlift(self) -> None:
        """Put them back where they were."""
        for entry in (self.returned, self):
            if entry is not None:
                assert entry.before is not None
                entry.before.after = entry
                if entry.after is not None:
                    entry.after.before = entry


def is_linearizable(history: Sequence[Operation[I, O]], initial: S, step: Step[S, I, O]) -> bool:
    """Return True if some order of the operations explains all answers of one key."""
    head = _listed(history)
    complete = sum(1 << number for number, one in enumerate(history) if one.output is not None)
    seen: set[tuple[int, S]] = set()
    stack: list[tuple[_Entry, S]] = []
    state, done = initial, 0
    entry = head.after
    while complete & ~done:
        if entry is not None and entry.operation is not None:
            after = step(state, entry.operation.input, entry.operation.output)
            if after is not None and (pair := (done | 1 << entry.number, after)) not in seen:
                seen.add(pair)
                stack.append((entry, state))
                done, state = pair
                entry.lift()
                entry = head.after
            else:
                entry = entry.after
            continue
        # A return whose call is not linearized, or the end of the list: the last choice was wrong.
        if not stack:
            return False
        entry, state = stack.pop()
        done &= ~(1 << entry.number)
        entry.unlift()
        entry = entry.after
    return True


def _listed(history: Sequence[Operation[I, O]]) -> _Entry:
    moments: list[tuple[float, int, _Entry]] = []
    for number, one in enumerate(history):
        call = _Entry(number, one)
        # At equal times calls come first: such operations overlap.
        moments.append((one.call, 0, call))
        if one.output is not None:
            call.returned = _Entry(number, None)
            moments.append((one.end, 1, call.returned))
    moments.sort(key=lambda moment: moment[:2])
    head = last = _Entry(-1, None)
    for _, _, entry in moments:
        last.after, entry.before = entry, last
        last = entry
    return head


def first_impossible(history: Iterable[Operation[I, O]], initial: S, step: Step[S, I, O]) -> Sequence[Operation[I, O]]:
    """Return the shortest beginning of one key's history that is not linearizable; empty if all are.

    Keys are independent, so each is searched alone.
    """
    for part in _by_key(history).values():
        if is_linearizable(part, initial, step):
            continue
        ends = sorted(one.end for one in part if one.output is not None)
        low, high = 0, len(ends) - 1
        while low < high:
            middle = (low + high) // 2
            if is_linearizable(_until(part, ends[middle]), initial, step):
                low = middle + 1
            else:
                high = middle
        return _until(part, ends[low])
    return ()


def _by_key(history: Iterable[Operation[I, O]]) -> Mapping[str, list[Operation[I, O]]]:
    parts: dict[str, list[Operation[I, O]]] = defaultdict(list)
    for one in history:
        parts[one.key].append(one)
    return parts


def _until(part: Sequence[Operation[I, O]], end: float) -> list[Operation[I, O]]:
    """Return the history up to a moment: what returned later is pending."""
    return [one if one.end <= end else Operation(one.key, one.input, one.call) for one in part if one.call <= end]
