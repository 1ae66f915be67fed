"""Memos: results of pure functions, kept by a key, all of them switched off by one environment variable.

A memo is only right if its key contains everything that the function reads. A key that lists what is read by hand goes
wrong silently when a field is added: one object gets the result of another. So a key takes an object by identity, or
takes every field of a struct except those that are named together with a reason (`everything_but`). A field that is
added later is then in the key by itself.

Set ``CATHEDRA_REMEMBER=0`` to compute every result each time. Nothing but speed may change: tests run both ways.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, MutableMapping, Sequence
from functools import lru_cache, wraps
from inspect import signature
from itertools import count
from operator import attrgetter
from typing import Any, Final, ParamSpec, TypeVar

import msgspec

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
            # The plain function, so that a run without memos executes no line of this module and can be compared with
            # one that has them.
            if not self._is_on:
                return function
            if key is IDENTITY:
                return self._by_identity(name, function, size, keep)
            if key is not None:
                return self._by_key(name, function, size, key, keep)
            if keep is not None:
                raise TypeError(f"memo {name}: keep needs a key")
            # The C implementation: its lookup takes a third of a Python one, which matters for functions of a
            # microsecond.
            kept = lru_cache(maxsize=size)(function)
            self._entries[name] = lambda: kept.cache_info().currsize
            self._clear.append(kept.cache_clear)
            return kept  # type: ignore[return-value]  # it takes what the function takes

        return decorate

    def numbered(self, name: str, *, size: int) -> ObjectKeys:
        """Return keys for up to ``size`` objects at a time. ``name`` is their name in `statistics`."""
        keys = ObjectKeys(size)
        self._entries[name] = keys.__len__
        self._clear_objects.append(keys.clear)
        return keys

    def hold(self, table: MutableMapping[Any, Any], *, objects: bool) -> None:
        """Have `forget` clear a table, and `forget_objects` as well if it keeps ``objects`` alive."""
        (self._clear_objects if objects else self._clear).append(table.clear)

    def forget(self) -> None:
        """Drop the results of all memos."""
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
        known: dict[Hashable, tuple[R, tuple[object, ...]]] = {}
        self._entries[name] = known.__len__
        self._clear_objects.append(known.clear)

        def computed(key: Hashable, *args: Any) -> R:
            result = function(*args)
            if keep is None or keep(result):
                _make_room(known, size)
                # The arguments are held with the result. Another object at the address of a freed one would otherwise
                # get its result.
                known[key] = result, args
            return result

        # ``try`` instead of ``get``: a hit raises nothing and needs no second test.
        def found(*args: Any) -> R:
            key = tuple(map(id, args))
            try:
                return known[key][0]
            except KeyError:
                pass
            return computed(key, *args)

        # A hit with a key for any number of arguments takes twice the instructions of these.
        def found_by_one(one: Any) -> R:
            try:
                return known[id(one)][0]
            except KeyError:
                pass
            return computed(id(one), one)

        def found_by_two(one: Any, two: Any) -> R:
            try:
                return known[id(one), id(two)][0]
            except KeyError:
                pass
            return computed((id(one), id(two)), one, two)

        def found_by_three(one: Any, two: Any, three: Any) -> R:
            try:
                return known[id(one), id(two), id(three)][0]
            except KeyError:
                pass
            return computed((id(one), id(two), id(three)), one, two, three)

        def found_by_four(one: Any, two: Any, three: Any, four: Any) -> R:
            try:
                return known[id(one), id(two), id(three), id(four)][0]
            except KeyError:
                pass
            return computed((id(one), id(two), id(three), id(four)), one, two, three, four)

        by_number: dict[int | None, Callable[..., R]] = {
            1: found_by_one,
            2: found_by_two,
            3: found_by_three,
            4: found_by_four,
        }
        return wraps(function)(by_number.get(_number_of_arguments(function), found))

    def _by_key(
        self, name: str, function: Callable[..., R], size: int, key_of: Key, keep: Callable[[R], bool] | None
    ) -> Callable[..., R]:
        known: dict[Hashable, R] = {}
        self._entries[name] = known.__len__
        self._clear.append(known.clear)

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


def _number_of_arguments(function: Callable[..., object]) -> int | None:
    """Return the number of arguments of each call of a function; None if it is not fixed."""
    parameters = signature(function).parameters.values()
    is_fixed = all(one.kind is one.POSITIONAL_OR_KEYWORD and one.default is one.empty for one in parameters)
    return len(parameters) if is_fixed else None


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
numbered = _PROCESS.numbered
statistics = _PROCESS.statistics


TEMPLATES: Final = 512
"""Number of templates of pods and claims whose specs a memo keeps. A pod of another template costs 1.4 times as much:
every pod does if more templates than these take turns."""

LARGE: Final = 8 * 1024
"""Bytes of JSON from which an object is large."""
_ALL_LARGE: Final = 4 * 1024 * 1024
"""Bytes of JSON of large objects after which memos are emptied."""


class LargeObjects:
    """Bounds the memory that memos take for large objects.

    A decoded object takes twelve times the memory of its JSON, and memos keep objects alive: without this, a few
    hundred requests of three megabytes would hold gigabytes.
    """

    def __init__(self, drop: Callable[[], None]) -> None:
        """``drop`` drops all memos that hold objects."""
        self._drop, self._sum = drop, 0

    def note(self, size: int) -> None:
        """Note an object of ``size`` bytes of JSON. Call it for each object from outside, before it is decoded."""
        if size <= LARGE:
            return
        self._sum += size
        if self._sum > _ALL_LARGE:
            self._drop()
            self._sum = size


forget_large: Final = LargeObjects(forget_objects).note
"""`LargeObjects.note` of this process."""


_NUMBERS: Final = count(1)


class ObjectKeys:
    """Parts of keys in place of objects: a number for each object, or one key for several that are equivalent.

    Equal keys mean the same object, or objects that were declared equivalent. An object that is met again after
    ``size`` others gets a new number, which costs its entries in the memo and is never wrong.
    """

    __slots__ = ("_keys", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        # The objects are held, because the next object at the address of a freed one would get its key.
        self._keys: dict[int, tuple[Hashable, object]] = {}

    def __call__(self, obj: object) -> Hashable:
        """Return the object's key."""
        try:
            return self._keys[id(obj)][0]
        except KeyError:
            number = next(_NUMBERS)
            self.declare(obj, number)
            return number

    def declare(self, obj: object, key: Hashable) -> None:
        """Give the object the key of others. Results that are remembered by this key must be the same for all."""
        _make_room(self._keys, self._size)
        self._keys[id(obj)] = key, obj

    def clear(self) -> None:
        """Drop all keys of this memo."""
        self._keys.clear()

    def __len__(self) -> int:
        return len(self._keys)


def everything_but(kind: type[msgspec.Struct], reasons: Mapping[str, str]) -> Callable[[Any], Hashable]:
    """Return a function that reads a struct as part of a key: all fields except those in ``reasons``.

    ``reasons`` gives for each excluded field why a result does not depend on it, or how else the key covers it.
    Fields that are mappings by default are read as their items; a key with anything else that cannot be hashed is not
    remembered.

    Raises:
        TypeError: ``reasons`` names no field of ``kind``, or gives no reason.
    """
    fields = kind.__struct_fields__
    # A field that was renamed would silently be in the key again, or a reason outlive its field.
    if unknown := set(reasons) - set(fields):
        raise TypeError(f"{kind.__name__} has no field {', '.join(sorted(unknown))}")
    # An exclusion without a reason is the usual way in which a key goes wrong.
    if unexplained := sorted(name for name, reason in reasons.items() if not reason):
        raise TypeError(f"{kind.__name__}: give the reason why a key leaves out {', '.join(unexplained)}")
    read = [field for field in msgspec.structs.fields(kind) if field.name not in reasons]
    # Mappings cannot be hashed; their items can, if all values can.
    mappings = [field.name for field in read if _is_mapping(field)]
    plain = _reader([field.name for field in read if field.name not in mappings])
    if not mappings:
        return plain
    readers = list(map(attrgetter, mappings))

    def read_all(struct: Any) -> Hashable:
        key: tuple[Hashable, ...] = (plain(struct),)
        for mapping in readers:
            items = mapping(struct)
            key += (tuple(items.items()) if items else (),)  # mostly there are none
        return key

    return read_all


def _reader(names: Sequence[str]) -> Callable[[Any], Hashable]:
    return attrgetter(*names) if names else type  # of a struct without a field in the key, its type


def _is_mapping(field: msgspec.structs.FieldInfo) -> bool:
    factory: Any = field.default_factory
    return factory is not msgspec.NODEFAULT and isinstance(factory(), dict)
