"""Functions of lists, sets and the maps that comprehensions build (docs/spec/cel.md §6.2, §6.9 and §6.10)."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Final

from cathedra.cel.library.costs import (
    CROSSED,
    CROSSED_TWICE,
    DISTINCT,
    FLATTENED,
    INCLUDED,
    RANGED,
    REVERSED,
    SLICED,
    SORTED,
    SORTED_BY_KEYS,
    SORTED_BY_TEXTS,
    SORTED_TEXTS,
    TRAVERSED,
    Cost,
)
from cathedra.cel.library.operators import add
from cathedra.cel.library.overload import COMPARABLE, Functions, Overload, declare
from cathedra.cel.values import (
    NO_SUCH_OVERLOAD,
    CELValue,
    Duration,
    Failure,
    MutableMap,
    UInt,
    comparable,
    compare,
    contains,
    decode_key,
    encode_key,
    find,
    text,
    type_name,
    walkable,
)
from cathedra.cel.values import _equal_values as equal_values

_MAX_RANGE: Final = 2_000_000
"""Longer ranges cost more than any limit allows; Kubernetes would build them first and stop then."""
_MAX_INCLUDES: Final = 48
_SORTABLE: Final = frozenset(
    ("int", "uint", "double", "bool", "string", "bytes", "google.protobuf.Duration", "google.protobuf.Timestamp")
)
_ADDABLE: Final = frozenset(
    ("int", "uint", "double", "string", "bytes", "list", "google.protobuf.Duration", "google.protobuf.Timestamp")
)


def is_sorted(values: CELValue) -> CELValue:
    """Return True if the list is sorted."""
    previous: CELValue = None
    for position, value in enumerate(values):
        # Also for a single element: Kubernetes fails on types without order before it compares.
        if type_name(value) not in _SORTABLE:
            return NO_SUCH_OVERLOAD
        if position and compare(previous, value) == 1:
            return False
        previous = value
    return True


def _sum(zero: CELValue) -> CELValue:
    def total(values: CELValue) -> CELValue:
        result = zero
        for value in values:
            if type_name(value) not in _ADDABLE:
                return NO_SUCH_OVERLOAD
            result = add(result, value)
            if isinstance(result, Failure):
                return result
        return result

    return total


def _extreme(name: str, wanted: int) -> CELValue:
    def pick(values: CELValue) -> CELValue:
        if not values:
            return Failure(f"{name} called on empty list")
        best = values[0]
        for value in values:
            if type_name(value) not in _SORTABLE:
                return NO_SUCH_OVERLOAD
            if compare(best, value) == wanted:
                best = value
        return best

    return pick


def index_of(values: CELValue, wanted: CELValue) -> int:
    """Evaluate indexOf in a list."""
    # Checked before the loop: each comparison may walk a large value.
    comparable(wanted, len(values))
    return next((i for i, value in enumerate(values) if equal_values(value, wanted) is True), -1)


def last_index_of(values: CELValue, wanted: CELValue) -> int:
    """Evaluate lastIndexOf in a list."""
    comparable(wanted, len(values))
    return next((i for i in range(len(values) - 1, -1, -1) if equal_values(values[i], wanted) is True), -1)


def includes(value: CELValue, wanted: CELValue) -> CELValue:
    """Evaluate includes: of a list by membership, of a scalar by equality."""
    if not isinstance(value, list):
        return equal_values(value, wanted) is True
    for position, element in enumerate(value):
        # A limit of Kubernetes, whose estimate counts on it.
        if position >= _MAX_INCLUDES:
            return Failure(f"'includes' function cannot be applied to lists longer than {_MAX_INCLUDES} values")
        if equal_values(element, wanted) is True:
            return True
    return False


def cut(values: CELValue, start: CELValue, end: CELValue) -> CELValue:
    """Return the elements between two positions."""
    if start < 0 or end < 0:
        return Failure(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        return Failure(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(values) < end:
        return Failure(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def flatten(values: CELValue, depth: CELValue = 1) -> CELValue:
    """Return the list with nested lists replaced by their elements."""
    if not isinstance(values, list):
        return Failure(f"no such overload: {type_name(values)}.flatten()")
    if depth.__class__ is not int:
        return Failure(f"no such overload: {type_name(values)}.flatten({type_name(depth)})")
    if depth < 0:
        return Failure("level must be non-negative")
    # A list may hold one inner list many times over, and its flat form would not fit into memory.
    walkable(values)
    flat: list[CELValue] = []
    waiting = [iter(values)]
    while waiting:
        for value in waiting[-1]:
            if isinstance(value, list) and depth >= len(waiting):
                waiting.append(iter(value))
                break
            flat.append(value)
        else:
            waiting.pop()
    return flat


def sort_by_keys(values: CELValue, keys: CELValue) -> CELValue:
    """Return the elements in the order of their keys."""
    if len(values) != len(keys):
        return Failure(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {len(values)} and {len(keys)} elements respectively"
        )
    if not values:
        return values
    kind = type_name(keys[0])
    if kind not in _SORTABLE:
        return Failure("list elements must be comparable")
    if len(keys) > 1 and any(type_name(key) != kind for key in keys):
        return Failure("list elements must have the same type")
    order = sorted(range(len(keys)), key=cmp_to_key(lambda i, j: _order(keys[i], keys[j])))
    return [values[i] for i in order]


def _order(left: CELValue, right: CELValue) -> int:
    order = compare(left, right)
    return 0 if isinstance(order, Failure) else order


def range_(count: CELValue) -> CELValue:
    """Evaluate lists.range; a range beyond any budget is refused before it is built."""
    if count > _MAX_RANGE:
        return Failure("operation cancelled: actual cost limit exceeded")
    return list(range(count))


def distinct(values: CELValue) -> list[CELValue]:
    """Return the elements without repetitions, compared by ``==``."""
    unique: list[CELValue] = []
    for value in values:
        comparable(value, len(unique))
        if not any(equal_values(value, other) is True for other in unique):
            unique.append(value)
    return unique


def intersects(left: CELValue, right: CELValue) -> bool:
    """Return True if the lists have an element in common."""
    return any(contains(right, value) for value in left)


def contains_all(left: CELValue, right: CELValue) -> bool:
    """Return True if the first list has all elements of the second."""
    return all(contains(left, value) for value in right)


def equivalent(left: CELValue, right: CELValue) -> bool:
    """Return True if each list has all elements of the other."""
    return contains_all(left, right) and contains_all(right, left)


def insert(mapping: CELValue, key: CELValue, value: CELValue) -> CELValue:
    """Return the map with one more entry, or a failure if it has the key already."""
    if find(mapping, key)[1]:
        return Failure(f"insert failed: key {text(key)} already exists")
    # The accumulator is changed in place: copying it for each entry would take quadratic time.
    target = mapping if mapping.__class__ is MutableMap else dict(mapping)
    target[encode_key(key)] = value
    return target


def insert_all(mapping: CELValue, more: CELValue) -> CELValue:
    """Return the map with the entries of another one, or a failure if it has one of the keys already."""
    for key, value in more.items():
        mapping = insert(mapping, decode_key(key), value)
        if isinstance(mapping, Failure):
            return mapping
    return mapping


_ZEROS: Final = {"int": 0, "uint": UInt(0), "double": 0.0, "duration": Duration(0)}
_TEXTS: Final = ("string", "bytes")


def _sort(values: CELValue) -> CELValue:
    return sort_by_keys(values, values)


def _sort_by(values: CELValue, keys: CELValue) -> CELValue:
    return sort_by_keys(values, keys) if isinstance(keys, list) else NO_SUCH_OVERLOAD


def _of_each(signature: str, implementation: CELValue, cost: Cost, texts: Cost | None = None) -> tuple[Overload, ...]:
    """Declare one overload for each type that has an order, with its name for ``%``; ``texts`` is the cost of texts."""
    return tuple(
        declare(signature.replace("%", t), implementation, texts if texts is not None and t in _TEXTS else cost)
        for t in COMPARABLE
    )


LISTS: Final[Functions] = {
    "isSorted": _of_each("list_%_is_sorted_bool: list(%). -> bool", is_sorted, TRAVERSED),
    "sum": tuple(declare(f"list_{t}_sum_{t}: list({t}). -> {t}", _sum(zero), TRAVERSED) for t, zero in _ZEROS.items()),
    "max": _of_each("list_%_max_%: list(%). -> %", _extreme("max", -1), TRAVERSED),
    "min": _of_each("list_%_min_%: list(%). -> %", _extreme("min", 1), TRAVERSED),
    "indexOf": (declare("list_a_index_of_int: list(A)., A -> int", index_of, TRAVERSED),),
    "lastIndexOf": (declare("list_a_last_index_of_int: list(A)., A -> int", last_index_of, TRAVERSED),),
}
EXTENDED: Final[Functions] = {
    "slice": (declare("list_slice: list(T)., int, int -> list(T)", cut, SLICED),),
    "flatten": (
        declare("list_flatten: list(list(T)). -> list(T)", flatten, FLATTENED),
        declare("list_flatten_int: list(dyn)., int -> list(dyn)", flatten, FLATTENED),
    ),
    "sort": _of_each("list_%_sort: list(%). -> list(%)", _sort, SORTED, SORTED_TEXTS),
    "@sortByAssociatedKeys": _of_each(
        "list_%_sortByAssociatedKeys: list(T)., list(%) -> list(T)", _sort_by, SORTED_BY_KEYS, SORTED_BY_TEXTS
    ),
    "lists.range": (declare("lists_range: int -> list(int)", range_, RANGED),),
    "reverse": (declare("list_reverse: list(T). -> list(T)", lambda values: values[::-1], REVERSED),),
    "distinct": (declare("list_distinct: list(T). -> list(T)", distinct, DISTINCT, dear=True),),
}
INCLUDES: Final[Functions] = {"includes": (declare("dra_includes_dyn_dyn: dyn., dyn -> bool", includes, INCLUDED),)}
SETS: Final[Functions] = {
    "sets.contains": (declare("list_sets_contains_list: list(T), list(T) -> bool", contains_all, CROSSED, dear=True),),
    "sets.equivalent": (
        declare("list_sets_equivalent_list: list(T), list(T) -> bool", equivalent, CROSSED_TWICE, dear=True),
    ),
    "sets.intersects": (
        declare("list_sets_intersects_list: list(T), list(T) -> bool", intersects, CROSSED, dear=True),
    ),
}
TWO_VARIABLES: Final[Functions] = {
    "cel.@mapInsert": (
        declare("@mapInsert_map_key_value: map(K, V), K, V -> map(K, V)", insert),
        declare("@mapInsert_map_map: map(K, V), map(K, V) -> map(K, V)", insert_all),
    ),
}
