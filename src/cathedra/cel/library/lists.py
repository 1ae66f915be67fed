"""Functions of lists, sets and the maps that comprehensions build (docs/spec/cel.md §6.2, §6.9 and §6.10)."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any, Final

from cathedra.cel.library.operators import add
from cathedra.cel.values import (
    NO_SUCH_OVERLOAD,
    NONE,
    Duration,
    Failure,
    MutableMap,
    Optional,
    TypeValue,
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

__all__ = ["FUNCTIONS", "insert", "is_zero", "sort_by_keys"]

_MAX_RANGE: Final = 2_000_000
"""Longer ranges cost more than any limit allows; Kubernetes would build them first and stop then."""
_MAX_INCLUDES: Final = 48
_SORTABLE: Final = frozenset(
    ("int", "uint", "double", "bool", "string", "bytes", "google.protobuf.Duration", "google.protobuf.Timestamp")
)
_ADDABLE: Final = frozenset(
    ("int", "uint", "double", "string", "bytes", "list", "google.protobuf.Duration", "google.protobuf.Timestamp")
)


def is_sorted(values: Any) -> Any:
    """isSorted."""
    previous: Any = None
    for position, value in enumerate(values):
        if type_name(value) not in _SORTABLE:
            return NO_SUCH_OVERLOAD
        if position and compare(previous, value) == 1:
            return False
        previous = value
    return True


def _sum(zero: Any) -> Any:
    def total(values: Any) -> Any:
        result = zero
        for value in values:
            if type_name(value) not in _ADDABLE:
                return NO_SUCH_OVERLOAD
            result = add(result, value)
            if isinstance(result, Failure):
                return result
        return result

    return total


def _extreme(name: str, wanted: int) -> Any:
    def pick(values: Any) -> Any:
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


def index_of(values: Any, wanted: Any) -> int:
    """indexOf in a list."""
    comparable(wanted, len(values))
    return next((i for i, value in enumerate(values) if equal_values(value, wanted) is True), -1)


def last_index_of(values: Any, wanted: Any) -> int:
    """lastIndexOf in a list."""
    comparable(wanted, len(values))
    return next((i for i in range(len(values) - 1, -1, -1) if equal_values(values[i], wanted) is True), -1)


def includes(value: Any, wanted: Any) -> Any:
    """includes: of a list by membership, of a scalar by equality."""
    if not isinstance(value, list):
        return equal_values(value, wanted) is True
    for position, element in enumerate(value):
        if position >= _MAX_INCLUDES:
            return Failure(f"'includes' function cannot be applied to lists longer than {_MAX_INCLUDES} values")
        if equal_values(element, wanted) is True:
            return True
    return False


def cut(values: Any, start: Any, end: Any) -> Any:
    """slice."""
    if start < 0 or end < 0:
        return Failure(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        return Failure(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(values) < end:
        return Failure(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def flatten(values: Any, depth: Any = 1) -> Any:
    """flatten."""
    if not isinstance(values, list):
        return Failure(f"no such overload: {type_name(values)}.flatten()")
    if depth.__class__ is not int:
        return Failure(f"no such overload: {type_name(values)}.flatten({type_name(depth)})")
    if depth < 0:
        return Failure("level must be non-negative")
    walkable(values)
    flat: list[Any] = []
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


def sort_by_keys(values: Any, keys: Any) -> Any:
    """The elements in the order of their keys."""
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


def _order(left: Any, right: Any) -> int:
    order = compare(left, right)
    return 0 if isinstance(order, Failure) else order


def range_(count: Any) -> Any:
    """lists.range; a range beyond any budget is refused before it is built."""
    if count > _MAX_RANGE:
        return Failure("operation cancelled: actual cost limit exceeded")
    return list(range(count))


def distinct(values: Any) -> list[Any]:
    """distinct, by ``==``."""
    unique: list[Any] = []
    for value in values:
        comparable(value, len(unique))
        if not any(equal_values(value, other) is True for other in unique):
            unique.append(value)
    return unique


def intersects(left: Any, right: Any) -> bool:
    """sets.intersects."""
    return any(contains(right, value) for value in left)


def contains_all(left: Any, right: Any) -> bool:
    """sets.contains."""
    return all(contains(left, value) for value in right)


def equivalent(left: Any, right: Any) -> bool:
    """sets.equivalent."""
    return contains_all(left, right) and contains_all(right, left)


def insert(mapping: Any, key: Any, value: Any) -> Any:
    """One more entry; a key that is there already is an error."""
    if find(mapping, key)[1]:
        return Failure(f"insert failed: key {text(key)} already exists")
    target = mapping if mapping.__class__ is MutableMap else dict(mapping)
    target[encode_key(key)] = value
    return target


def insert_all(mapping: Any, more: Any) -> Any:
    """The entries of another map."""
    for key, value in more.items():
        mapping = insert(mapping, decode_key(key), value)
        if isinstance(mapping, Failure):
            return mapping
    return mapping


def is_zero(value: Any) -> bool:
    """Whether ``optional.ofNonZeroValue`` takes the value for nothing."""
    kind = value.__class__
    if value is None:
        return True
    if kind in (bool, int, UInt, float, str, bytes) or isinstance(value, (list, dict)):
        return not value
    if kind is Duration:
        return bool(value.nanos == 0)
    if kind is Optional:
        return not value.present
    return False


def unwrap(values: Any) -> Any:
    """optional.unwrap."""
    present = []
    for value in values:
        if value.__class__ is not Optional:
            return Failure(f"value {text(value)} is not optional")
        if value.present:
            present.append(value.value)
    return present


def _value(optional: Any) -> Any:
    return optional.value if optional.present else Failure("optional.none() dereference")


_ZEROS: Final = {"int": 0, "uint": UInt(0), "double": 0.0, "duration": Duration(0)}
_COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")

FUNCTIONS: Final[dict[str, Any]] = (
    {f"list_{t}_is_sorted_bool": is_sorted for t in _COMPARABLE}
    | {f"list_{t}_sum_{t}": _sum(zero) for t, zero in _ZEROS.items()}
    | {f"list_{t}_min_{t}": _extreme("min", 1) for t in _COMPARABLE}
    | {f"list_{t}_max_{t}": _extreme("max", -1) for t in _COMPARABLE}
    | {
        "list_a_index_of_int": index_of,
        "list_a_last_index_of_int": last_index_of,
        "dra_includes_dyn_dyn": includes,
        "list_slice": cut,
        "list_flatten": flatten,
        "list_flatten_int": flatten,
        "lists_range": range_,
        "list_reverse": lambda values: values[::-1],
        "list_distinct": distinct,
        "list_sets_contains_list": contains_all,
        "list_sets_equivalent_list": equivalent,
        "list_sets_intersects_list": intersects,
        "@mapInsert_map_key_value": insert,
        "@mapInsert_map_map": insert_all,
        "optional_of": Optional,
        "optional_ofNonZeroValue": lambda value: NONE if is_zero(value) else Optional(value),
        "optional_none": lambda: NONE,
        "optional_value": _value,
        "optional_hasValue": lambda optional: optional.present,
        "list_last": lambda values: Optional(values[-1]) if values else NONE,
        "list_first": lambda values: Optional(values[0]) if values else NONE,
        "optional_unwrap": unwrap,
        "optional_unwrapOpt": unwrap,
    }
)


def type_of(value: Any) -> TypeValue:
    """The type as a value."""
    return TypeValue(type_name(value))
