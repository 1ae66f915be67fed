"""Memos: results of pure functions, kept by a key, all of them switched off by one environment variable.

A memo is only right if its key contains everything that the function reads. A key that lists what is read by hand goes
wrong silently when a field is added: one object gets the result of another. So a key takes an object by identity, or
takes every field of a struct except those that are named together with a reason (`everything_but`). A field that is
added later is then in the key by itself.

Set ``CATHEDRA_REMEMBER=0`` to compute every result each time. Nothing but speed may change: tests run both ways.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, MutableMapping, MutableSet, Sequence
from functools import lru_cache, wraps
from itertools import count
from operator import attrgetter
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

__all__ = [
    "IDENTITY",
    "IS_ON",
    "Memory",
    "everything_but",
    "forget",
    "forget_objects",
    "hold",
    "numbered",
    "remembered",
    "statistics",
]

P = ParamSpec("P")
R = TypeVar("R")
Key = Callable[..., Hashable]
_SWITCH: Final = "CATHEDRA_REMEMBER"

IS_ON: Final = os.environ.get(_SWITCH, "") != "0"
"""True if memos are on in this process."""


def IDENTITY(*objects: object) -> tuple[int, ...]:  # noqa: N802  # a constant to its users, who never call it
    """Key of a memo by the identity of all arguments. The memo holds them, so that no other object gets their place."""
    return tuple(map(id, objects))


class Memory:
    """All memos of a process."""

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self._entries: dict[str, Callable[[], int]] = {}
        self._clear: list[Callable[[], None]] = []
        self._clear_objects: list[Callable[[], None]] = []

    def remembered(
        self, name: str, *, size: int, key: Key | None = None, keep: Callable[[Any], bool] | None = None
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Decorate a pure function: keep up to ``size`` of its results; the oldest goes first.

        Without ``key`` arguments are compared by value, and the least recently used result goes first. A key of None
        and one that cannot be hashed mean that the result is not kept; neither is one for which ``keep`` is false.
        ``name`` is the memo's name in `statistics`.
        """

        def decorate(function: Callable[P, R]) -> Callable[P, R]:
            if not self._is_on:
                return function
            if key is IDENTITY:
                return self._by_identity(name, function, size, keep)
            if key is not None:
                return self._by_key(name, function, size, key, keep)
            if keep is not None:
                raise TypeError(f"memo {name}: keep needs a key")
            kept = lru_cache(maxsize=size)(function)
            self._entries[name] = lambda: kept.cache_info().currsize
            self._clear.append(kept.cache_clear)
            return kept  # type: ignore[return-value]  # it takes what the function takes

        return decorate

    def hold(self, table: MutableMapping[Any, Any] | MutableSet[Any], *, objects: bool) -> None:
        """Have `forget` clear a table, and `forget_objects` as well if it keeps ``objects`` alive."""
        (self._clear_objects if objects else self._clear).append(table.clear)

    def forget(self) -> None:
        """Drop everything."""
        for clear in (*self._clear, *self._clear_objects):
            clear()

    def forget_objects(self) -> None:
        """Drop everything that keeps arguments alive."""
        for clear in self._clear_objects:
            clear()

    def statistics(self) -> Mapping[str, int]:
        """Return the number of entries of each memo, by its name."""
        return {name: entries() for name, entries in self._entries.items()}

    def _by_identity(
        self, name: str, function: Callable[..., R], size: int, keep: Callable[[R], bool] | None
    ) -> Callable[..., R]:
        known: dict[tuple[int, ...], tuple[R, tuple[object, ...]]] = {}
        self._entries[name] = known.__len__
        self.hold(known, objects=True)

        @wraps(function)
        def found(*args: Any) -> R:
            key = tuple(map(id, args))
            try:
                return known[key][0]
            except KeyError:
                pass
            result = function(*args)
            if keep is None or keep(result):
                _make_room(known, size)
                known[key] = result, args
            return result

        return found

    def _by_key(
        self, name: str, function: Callable[..., R], size: int, key_of: Key, keep: Callable[[R], bool] | None
    ) -> Callable[..., R]:
        known: dict[Hashable, R] = {}
        self._entries[name] = known.__len__
        self.hold(known, objects=False)

        @wraps(function)
        def found(*args: Any) -> R:
            key = key_of(*args)
            try:
                return known[key]
            except KeyError:
                pass
            except TypeError:  # a part of it cannot be hashed
                key = None
            result = function(*args)
            if key is not None and (keep is None or keep(result)):
                _make_room(known, size)
                known[key] = result
            return result

        return found


def _make_room(known: dict[Any, Any], size: int) -> None:
    # Threads share memos: another one may have removed the oldest entry in the meantime.
    while len(known) >= size:
        known.pop(next(iter(known), None), None)


_PROCESS: Final = Memory(is_on=IS_ON)
remembered = _PROCESS.remembered
"""`Memory.remembered` of this process: the one way to make a memo."""
forget = _PROCESS.forget
forget_objects = _PROCESS.forget_objects
hold = _PROCESS.hold
statistics = _PROCESS.statistics


_NUMBERS: Final = count(1)


def numbered(name: str, *, size: int) -> Callable[[object], int]:
    """Return a function that gives an object a number, as a part of a key in place of the object.

    Equal numbers mean the same object. An object that is met again after ``size`` others gets a new number, which
    costs its entries in the memo and is never wrong.
    """

    @remembered(name, key=IDENTITY, size=size)
    def number(_: object) -> int:
        return next(_NUMBERS)

    return number


def everything_but(kind: type[msgspec.Struct], reasons: Mapping[str, str]) -> Callable[[Any], Hashable]:
    """Return a function that reads a struct as part of a key: all fields except those in ``reasons``.

    ``reasons`` gives for each excluded field why a result does not depend on it, or how else the key covers it.
    Fields that are mappings by default are read as their items; a key with anything else that cannot be hashed is not
    remembered.

    Raises:
        TypeError: ``reasons`` names no field of ``kind``, or gives no reason.
    """
    fields = kind.__struct_fields__
    if unknown := set(reasons) - set(fields):
        raise TypeError(f"{kind.__name__} has no field {', '.join(sorted(unknown))}")
    if unexplained := sorted(name for name, reason in reasons.items() if not reason):
        raise TypeError(f"{kind.__name__}: give the reason why a key leaves out {', '.join(unexplained)}")
    read = [field for field in msgspec.structs.fields(kind) if field.name not in reasons]
    mappings = [field.name for field in read if _is_mapping(field)]
    plain = _reader([field.name for field in read if field.name not in mappings])
    if not mappings:
        return plain
    readers = list(map(attrgetter, mappings))
    return lambda struct: (plain(struct), *[tuple(mapping(struct).items()) for mapping in readers])


def _reader(names: Sequence[str]) -> Callable[[Any], Hashable]:
    return attrgetter(*names) if names else _nothing


def _nothing(_: object) -> Hashable:
    return None


def _is_mapping(field: msgspec.structs.FieldInfo) -> bool:
    factory: Any = field.default_factory
    return factory is not msgspec.NODEFAULT and isinstance(factory(), dict)
