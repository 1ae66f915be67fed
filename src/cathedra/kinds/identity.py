"""What is known of frozen objects, found again by the objects themselves.

All claims of a template have the template's spec, the very same object, and a change of anything else leaves a spec as
it was. So what was worked out from one holds wherever that object turns up again, and to look whether it does costs
less than a comparison. The objects are held as long as they are known: no other can take their place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

__all__ = ["KnownObjects", "by_identity"]

P = ParamSpec("P")
R = TypeVar("R")

LIMIT: Final = 64
"""Objects, or groups of them, that are known at a time. Specs can be large, and few are in use at once."""


class KnownObjects:
    """Groups of objects of which the same is known."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[object, ...]] = {}

    def knows(self, *objects: object) -> bool:
        """Whether these very objects were added together."""
        return tuple(map(id, objects)) in self._known

    def add(self, *objects: object) -> None:
        """Know these objects; the first that were added give way."""
        if len(self._known) >= LIMIT:
            del self._known[next(iter(self._known))]
        self._known[tuple(map(id, objects))] = objects


def by_identity(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which works on frozen objects alone, with its results remembered by the arguments themselves;
    it takes them by position."""
    known: dict[tuple[int, ...], tuple[R, tuple[object, ...]]] = {}

    @wraps(function)
    def remembered(*args: P.args, **kwargs: P.kwargs) -> R:
        key = tuple(map(id, args))
        found = known.get(key)
        if found is None:
            if len(known) >= LIMIT:
                del known[next(iter(known))]
            found = known[key] = function(*args, **kwargs), args
        return found[0]

    return remembered
