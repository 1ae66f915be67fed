"""Search for a linearization of a history: the algorithm of Wing and Gong with the cache of Lowe, as Porcupine has it.

An operation takes effect at one moment between its call and its return. The search walks through the calls and returns
in the order of time. It linearizes a pending call whenever the model allows its answer in the present state, and goes
back when a return comes up whose call could not be linearized. A pair of linearized set and state that was seen before
is not searched again.

Calls without an answer may take effect at any later time, so a long history has hundreds of them to choose from at each
step. Two rules keep the search short. Of those with equal inputs only the one that was called first is tried, as they
are interchangeable once called. And what could not be explained with some of them used cannot be explained with more
of them used.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

__all__ = ["Operation", "first_impossible", "is_linearizable"]

I = TypeVar("I", bound=Hashable)  # noqa: E741  # input
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
    """A call, or the return that belongs to it, in a doubly linked list in the order of time.

    Calls without an answer are in no list, as they may take effect at any later time.
    """

    __slots__ = ("after", "before", "moment", "number", "operation", "returned")

    def __init__(self, number: int, moment: float, operation: Operation[Any, Any] | None) -> None:
        self.number, self.moment, self.operation = number, moment, operation
        """Calls with an answer are numbered in the order of their calls, and so are those without."""
        self.returned: _Entry | None = None
        self.before: _Entry | None = None
        self.after: _Entry | None = None

    def lift(self) -> None:
        """Take a call and its return out of the list."""
        for entry in (self, self.returned):
            if entry is not None and entry.before is not None:
                entry.before.after = entry.after
                if entry.after is not None:
                    entry.after.before = entry.before

    def unlift(self) -> None:
        """Put them back where they were."""
        for entry in (self.returned, self):
            if entry is not None and entry.before is not None:
                entry.before.after = entry
                if entry.after is not None:
                    entry.after.before = entry


class _Done(NamedTuple):
    """The linearized operations: answered ones below ``first``, those of the bits from there on, unanswered ones.

    Few answered operations are linearized out of the order of their calls. One set of bits for a history of 100,000
    operations would make a search of gigabytes.
    """

    first: int = 0
    bits: int = 0
    unanswered: int = 0

    def with_call(self, entry: _Entry) -> _Done:
        """Return the set with one more."""
        if entry.returned is None:
            return self._replace(unanswered=self.unanswered | 1 << entry.number)
        first, bits = self.first, self.bits | 1 << entry.number - self.first
        while bits & 1:
            first, bits = first + 1, bits >> 1
        return _Done(first, bits, self.unanswered)


class _Seen:
    """Searched states: answered operations and state, with the unanswered ones that were used up to there."""

    def __init__(self) -> None:
        self._used: dict[tuple[int, int, Hashable], list[int]] = {}

    def add(self, done: _Done, state: Hashable) -> bool:
        """Add a pair. Return False if one with the same or fewer unanswered operations used is there."""
        used = self._used.setdefault((done.first, done.bits, state), [])
        if any(one & done.unanswered == one for one in used):
            return False
        used.append(done.unanswered)
        return True


def is_linearizable(history: Sequence[Operation[I, O]], initial: S, step: Step[S, I, O]) -> bool:
    """Return True if some order of the operations explains all answers of one key."""
    head, alike = _listed(history)
    answered = sum(one.output is not None for one in history)
    seen = _Seen()
    # Of each linearized operation: the operation, and the others that could be next instead.
    taken: list[tuple[_Entry, S, _Done, Iterator[_Entry]]] = []
    state, done = initial, _Done()
    choices = _choices(head, alike, done)
    while done.first < answered:
        for entry in choices:
            assert entry.operation is not None
            after = step(state, entry.operation.input, entry.operation.output)
            if after is not None and seen.add(following := done.with_call(entry), after):
                taken.append((entry, state, done, choices))
                done, state = following, after
                entry.lift()
                choices = _choices(head, alike, done)
                break
        else:
            # No operation can be next: the last choice was wrong.
            if not taken:
                return False
            entry, state, done, choices = taken.pop()
            entry.unlift()
    return True


def _choices(head: _Entry, alike: Sequence[Sequence[_Entry]], done: _Done) -> Iterator[_Entry]:
    """Return the calls that may be next: those before the first return, and of these the answered ones first.

    Most calls without an answer never took effect. Tried first, each of them would be tried again at every step of a
    long history.
    """
    limit = math.inf
    for entry in _following(head):
        if entry.operation is None:
            limit = entry.moment
            break
        yield entry
    for group in alike:
        # At equal times calls come first, as the operations overlap.
        if group[0].moment > limit:
            return
        unused = next((one for one in group if not done.unanswered >> one.number & 1), None)
        if unused is not None and unused.moment <= limit:
            yield unused


def _following(entry: _Entry) -> Iterator[_Entry]:
    """Return the entries of the list behind one."""
    while entry.after is not None:
        entry = entry.after
        yield entry


def _listed(history: Sequence[Operation[I, O]]) -> tuple[_Entry, list[list[_Entry]]]:
    """Return the head of the list of answered operations, and the calls of the others: those with equal inputs
    together, in the order of their first calls."""
    moments: list[_Entry] = []
    alike: dict[I, list[_Entry]] = defaultdict(list)
    lost = 0
    for one in sorted(history, key=lambda one: one.call):
        if one.output is None:
            alike[one.input].append(_Entry(lost, one.call, one))
            lost += 1
            continue
        number = len(moments) // 2
        call = _Entry(number, one.call, one)
        call.returned = _Entry(number, one.end, None)
        moments += [call, call.returned]
    # At equal times calls come first: such operations overlap.
    moments.sort(key=lambda entry: (entry.moment, entry.operation is None))
    head = last = _Entry(-1, -math.inf, None)
    for entry in moments:
        last.after, entry.before = entry, last
        last = entry
    return head, list(alike.values())


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
