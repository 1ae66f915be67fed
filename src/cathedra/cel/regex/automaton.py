"""Leftmost-first matching in linear time, as RE2 does it: deterministic automata that are built while texts are read.

A state is an ordered list of places in the program, most preferred first. A match cuts off everything after it, which
is the preference of Perl's syntax. One pass forwards finds where the leftmost match ends; one pass backwards from
there, which prefers length, finds where it begins. Each character costs one look-up once its state is known, and one
walk over the program's places otherwise, so no pattern takes more than its size times the text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from cathedra.cel.regex import classes
from cathedra.cel.regex.syntax import Instruction, Piece, parse

_MOST_STATES: Final = 4000
"""States beyond this number are computed again, so that a pattern's memory is bounded."""
_EDGE: Final = -1
"""The place before the first character, and after the last one."""
_NEWLINE: Final = -2
_WORD: Final = -3
_OTHER: Final = -4
_MATCH: Final[Instruction] = ("match", None, 0)

_Places = tuple[int, ...]


class _State:
    __slots__ = ("before", "next", "places")

    def __init__(self, places: _Places, before: int) -> None:
        self.places = places
        self.before = before
        self.next: dict[int, tuple[bool, _State]] = {}


class _Automaton:
    """One direction of a pattern."""

    def __init__(self, code: Sequence[Instruction], *, backward: bool, search: bool) -> None:
        """``search`` begins anywhere, with less preference for later places; otherwise only at the first place."""
        # The loop in front of a search is `.*?`: it prefers the pattern, and reads a character only after that.
        prefix: list[Instruction] = [("split", 3, 1), ("char", classes.ANY, 0), ("jump", 0, -2)] if search else []
        self._code = [*prefix, *code, _MATCH]
        self._backward = backward
        edges = {0, *classes.NEWLINE, *classes.PERL["w"]}
        for kind, argument, _ in self._code:
            if kind == "char" and isinstance(argument, tuple):
                edges.update(argument)
        self._edges = sorted(edges)
        self._classes: dict[str, int] = {}
        self._states: dict[tuple[_Places, int], _State] = {}

    def last_match(self, text: str, start: int, end: int, *, first: bool = False) -> int | None:
        """Return where the match ends that begins at ``start`` or after it; None if there is none.

        Read backwards, ``start`` is above ``end``. With ``first``, the shortest match is enough.
        """
        step = -1 if self._backward else 1
        behind, ahead = (0, -1) if self._backward else (-1, 0)
        state = self._state((0,), self._kind(text, start + behind))
        known = self._classes
        found: int | None = None
        position = start
        while True:
            index = position + ahead
            if 0 <= index < len(text):
                character = text[index]
                number = known.get(character)
                if number is None:
                    number = self._classify(character)
            else:
                number = _EDGE
            entry = state.next.get(number)
            if entry is None:
                entry = self._follow(state, number)
            matched, state = entry
            if matched:
                found = position
                if first:
                    return found
            if position == end or not state.places:
                return found
            position += step

    def _classify(self, character: str) -> int:
        if len(self._classes) > _MOST_STATES:
            self._classes.clear()
        number = self._classes[character] = bisect_right(self._edges, ord(character)) - 1
        return number

    def _kind(self, text: str, index: int) -> int:
        return self._kind_of(self._classify(text[index])) if 0 <= index < len(text) else _EDGE

    def _kind_of(self, number: int) -> int:
        if number == _EDGE:
            return _EDGE
        point = self._edges[number]
        if point == classes.NEWLINE[0]:
            return _NEWLINE
        return _WORD if classes.contains(classes.PERL["w"], point) else _OTHER

    def _state(self, places: _Places, before: int) -> _State:
        state = self._states.get((places, before))
        if state is None:
            if len(self._states) >= _MOST_STATES:
                self._states.clear()
            state = self._states[places, before] = _State(places, before)
        return state

    def _follow(self, state: _State, number: int) -> tuple[bool, _State]:
        """Return whether the pattern matches before the character of this class, and the state after it."""
        after = self._kind_of(number)
        ready, matched = self._reachable(state, after)
        if number == _EDGE:
            following: dict[int, None] = {}
        else:
            point = self._edges[number]
            following = dict.fromkeys(place + 1 for place in ready if classes.contains(self._set(place), point))
        entry = state.next[number] = (matched, self._state(tuple(following), after))
        return entry

    def _set(self, place: int) -> classes.CharacterSet:
        argument = self._code[place][1]
        assert isinstance(argument, tuple)
        return argument

    def _reachable(self, state: _State, after: int) -> tuple[list[int], bool]:
        """Return the places that read a character, in order of preference, and whether a match is among them."""
        ready: list[int] = []
        seen: set[int] = set()
        matched = False
        pending = list(reversed(state.places))
        left, right = (after, state.before) if self._backward else (state.before, after)
        while pending:
            place = pending.pop()
            if place in seen:
                continue
            seen.add(place)
            kind, argument, second = self._code[place]
            if kind == "char":
                ready.append(place)
            elif kind == "split":
                assert isinstance(argument, int)
                pending += (place + second, place + argument)
            elif kind == "jump":
                pending.append(place + second)
            elif kind == "match":
                matched = True
                if not self._backward:
                    return ready, True
            elif _holds(argument, left, right):
                pending.append(place + 1)
        return ready, matched


def _holds(condition: object, left: int, right: int) -> bool:
    if condition == "text-begin":
        return left == _EDGE
    if condition == "text-end":
        return right == _EDGE
    if condition == "line-begin":
        return left in (_EDGE, _NEWLINE)
    if condition == "line-end":
        return right in (_EDGE, _NEWLINE)
    return ((left == _WORD) != (right == _WORD)) == (condition == "boundary")


class PythonRegex:
    """A regular expression that needs nothing but Python."""

    __slots__ = ("_backward", "_forward")

    def __init__(self, pattern: str, piece: Piece | None = None) -> None:
        """``piece`` is the parsed pattern, if the caller has it already."""
        parsed = parse(pattern) if piece is None else piece
        self._forward = _Automaton(parsed.forward, backward=False, search=True)
        self._backward = _Automaton(parsed.backward, backward=True, search=False)

    def matches(self, text: str) -> bool:
        """Return True if the pattern is found anywhere in the text."""
        return self._forward.last_match(text, 0, len(text), first=True) is not None

    def found(self, text: str) -> Iterator[str]:
        """Yield the matches from left to right, without empty ones right after a match."""
        position, last_end = 0, -1
        while position <= len(text):
            end = self._forward.last_match(text, position, len(text))
            if end is None:
                return
            start = self._backward.last_match(text, end, position)
            assert start is not None
            if start != end or start != last_end:
                yield text[start:end]
            last_end = end
            position = end if end > position else position + 1
