"""What is known of frozen objects, found again by the objects themselves.

All claims of a template have the template's spec, the very same object, and a change of anything else leaves a spec as
it was. So what was worked out from one holds wherever that object turns up again, and to look whether it does costs
less than a comparison. The objects are held as long as they are known: no other can take their place.

What clients send is decoded anew each time. `by_json` makes the very same object of equal ones; and where the server
then writes a name of its own making into each, `Likeness` still tells that they are alike. Short values that come again
and again, as keys and names, are known by what they say (`KnownValues`).

What is known of a frozen object keeps the object. That of a request of three megabytes takes 36 in memory, so nothing
that is known outlasts the next large object (`forget_large`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

from cathedra.api.struct import KubeStruct, encode
from cathedra.remembering import IDENTITY, IS_ON, forget_objects, hold, remembered

__all__ = ["LARGEST_KNOWN", "KnownObjects", "KnownValues", "Likeness", "by_identity", "by_json", "forget_large"]

A = TypeVarTuple("A")
R = TypeVar("R")
K = TypeVar("K", bound=KubeStruct)

LIMIT: Final = 64
"""Objects, or groups of them, that are known at a time. Specs can be large, and few are in use at once."""
MOST_VALUES: Final = 4096
"""Values that are known at a time."""
LARGEST: Final = 16 * 1024
"""Bytes of JSON up to which an object is known by them."""


LARGEST_KNOWN: Final = 64 * 1024
"""Bytes of JSON of an object beyond which it is large."""


def forget_large(size: int) -> None:
    """Drop all known objects if one of ``size`` bytes of JSON is large.

    To be called for each object that comes from outside, before or after what is made of it becomes known: so at most
    the last large one is kept. Forgetting is always right; what was known is worked out again.
    """
    if size > LARGEST_KNOWN:
        forget_objects()


class KnownObjects:
    """Groups of objects of which the same is known."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[object, ...]] = {}
        hold(self._known, objects=True)

    def knows(self, *objects: object) -> bool:
        """Whether these very objects were added together."""
        return tuple(map(id, objects)) in self._known

    def add(self, *objects: object) -> None:
        """Know these objects; the first that were added give way."""
        if not IS_ON:
            return
        if len(self._known) >= LIMIT:
            del self._known[next(iter(self._known))]
        self._known[tuple(map(id, objects))] = objects


class KnownValues(set[Hashable]):
    """Short values of which the same is known; when there are too many, all are forgotten."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        hold(self, objects=False)

    def note(self, *values: Hashable) -> None:
        """Know these values, too, unless they are too many themselves."""
        if not IS_ON:
            return
        if len(self) + len(values) > MOST_VALUES:
            self.clear()
        if len(values) <= MOST_VALUES:
            self.update(values)


def by_identity(function: Callable[[Unpack[A]], R]) -> Callable[[Unpack[A]], R]:
    """The function, which works on frozen objects alone, with its results remembered by the arguments themselves;
    it takes them by position."""
    return remembered(_name_of(function), key=IDENTITY, size=LIMIT)(function)


def by_json(function: Callable[[K], R]) -> Callable[[K], R]:
    """The function, which works on one frozen object alone, with its results remembered by the object's JSON: equal
    objects get the very same result."""
    return remembered(_name_of(function), key=_json_of, size=LIMIT)(function)


def _json_of(obj: KubeStruct) -> bytes | None:
    body = encode(obj)
    return body if len(body) <= LARGEST else None


def _name_of(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


@by_identity
def _changed_pattern(*_: object) -> object:
    return object()


class Likeness:
    """Objects that differ from others in nothing that matters to a rule, as in a name that the server has made up."""

    __slots__ = ("_patterns",)

    def __init__(self) -> None:
        self._patterns: dict[int, tuple[object, object]] = {}
        hold(self._patterns, objects=True)

    def note(self, obj: object, pattern: object) -> None:
        """Remember that an object is like all others of that pattern, for the next few that are noted."""
        if not IS_ON:
            return
        patterns = self._patterns
        if len(patterns) >= LIMIT:
            patterns.clear()
        patterns[id(obj)] = obj, pattern

    def follow(self, old: object, new: object, *change: object) -> None:
        """Remember that an object was made from another by a change that these objects determine, whichever of its
        pattern it is made from."""
        self.note(new, _changed_pattern(self.pattern(old), *change))

    def pattern(self, obj: object) -> object:
        """What stands for the object and all that are like it: the object itself, if it is not known to be like
        another."""
        try:
            return self._patterns[id(obj)][1]
        except KeyError:
            return obj
