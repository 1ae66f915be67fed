"""All functions by name and overload, and the choice among them at run time.

The checker has often found the one overload that is possible; else the values decide. What fits nothing is
`no such overload`, in the words of Kubernetes (docs/spec/cel.md §5 and §8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from cathedra.cel.checking import declarations
from cathedra.cel.checking.declarations import Overload
from cathedra.cel.checking.types import Kind, Type
from cathedra.cel.library import (
    authorizer,
    conversions,
    formats,
    lists,
    network,
    operators,
    quantity,
    regex,
    semver,
    strings,
    times,
    urls,
)
from cathedra.cel.values import Duration, Failure, Opaque, Timestamp, decode_key, type_name

__all__ = ["SINGLE_FUNCTIONS", "call", "implementation"]

_IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = (
    strings.FUNCTIONS
    | lists.FUNCTIONS
    | regex.FUNCTIONS
    | urls.FUNCTIONS
    | network.FUNCTIONS
    | quantity.FUNCTIONS
    | semver.FUNCTIONS
    | formats.FUNCTIONS
    | authorizer.FUNCTIONS
)
_CONVERSIONS: Final = {
    "bool": conversions.to_bool,
    "bytes": conversions.to_bytes,
    "double": conversions.to_double,
    "duration": conversions.to_duration,
    "int": conversions.to_int,
    "string": conversions.to_string,
    "timestamp": conversions.to_timestamp,
    "uint": conversions.to_uint,
}
_ADDABLE: Final = frozenset(
    ("bytes", "double", "google.protobuf.Duration", "int", "list", "string", "google.protobuf.Timestamp", "uint")
)
_ORDERED: Final = frozenset(
    ("bool", "bytes", "double", "google.protobuf.Duration", "int", "string", "google.protobuf.Timestamp", "uint")
)
_NUMBERS: Final = frozenset(("double", "int", "uint"))
_SIZED: Final = frozenset(("bytes", "list", "map", "string"))
_SORTED_LISTS: Final = frozenset(("list",))


def _size(value: Any) -> int:
    return value.size() if isinstance(value, Opaque) else len(value)


_SINGLE: Final[dict[str, tuple[Callable[..., Any], frozenset[str] | None]]] = {
    "_+_": (operators.add, _ADDABLE),
    "_-_": (operators.subtract, _NUMBERS | {"google.protobuf.Duration", "google.protobuf.Timestamp"}),
    "_*_": (operators.multiply, _NUMBERS),
    "_/_": (operators.divide, _NUMBERS),
    "_%_": (operators.modulo, _NUMBERS - {"double"}),
    "-_": (operators.negate, frozenset(("bool", "double", "google.protobuf.Duration", "int"))),
    "!_": (lambda v: (not v) if v.__class__ is bool else Failure("no such overload"), None),
    "_<_": (operators.ordered((-1,)), _ORDERED),
    "_<=_": (operators.ordered((-1, 0)), _ORDERED),
    "_>_": (operators.ordered((1,)), _ORDERED),
    "_>=_": (operators.ordered((1, 0)), _ORDERED),
    "@in": (operators.is_in, None),
    "size": (_size, _SIZED | {"net.IP"}),
    "type": (conversions.to_type, None),
    "dyn": (lambda v: v, None),
    "matches": (
        lambda s, p: regex.matches(s, p) if p.__class__ is str else Failure("no such overload"),
        frozenset(("string",)),
    ),
    "sort": (lambda values: lists.sort_by_keys(values, values), _SORTED_LISTS),
    "@sortByAssociatedKeys": (
        lambda values, keys: (
            lists.sort_by_keys(values, keys) if isinstance(keys, list) else Failure("no such overload")
        ),
        _SORTED_LISTS,
    ),
}
"""Functions with one implementation for all overloads, and the types their first argument may have."""

SINGLE_FUNCTIONS: Final = frozenset(_SINGLE)

_UNGUARDED: Final = frozenset(("contains", "startsWith", "endsWith", "flatten"))
_RECEIVERS: Final = (str, Timestamp, Duration)


@cache
def _overloads() -> dict[str, tuple[Overload, ...]]:
    table: dict[str, tuple[Overload, ...]] = {}
    for name in declarations.LIBRARIES:
        for function, overloads in declarations.library(name).items():
            table[function] = table.get(function, ()) + overloads
    return table


@cache
def _by_id(function: str) -> dict[str, Overload]:
    return {overload.id: overload for overload in _overloads().get(function, ())}


def implementation(function: str, overload: Overload) -> Callable[..., Any]:
    """What one overload does."""
    found = _IMPLEMENTATIONS.get(overload.id)
    if found is not None:
        return found
    if function in times.GETTERS:
        of_timestamp, of_duration = times.GETTERS[function]
        return of_duration if overload.id.startswith("duration") and of_duration is not None else of_timestamp
    return _CONVERSIONS[function]


def call(function: str, overload_id: str, args: Sequence[Any]) -> Any:
    """The result of a call, or a failure; ``overload_id`` is empty if only the values can decide."""
    single = _SINGLE.get(function)
    if single is not None:
        fn, kinds = single
        if kinds is None or type_name(args[0]) in kinds:
            return fn(*args)
        if isinstance(args[0], _RECEIVERS):
            return Failure("no such overload")
        return Failure(f"no such overload: {function}")
    overloads = _overloads().get(function, ())
    if function in _UNGUARDED:
        wanted = [o for o in overloads if len(o.args) == len(args)]
        return implementation(function, wanted[0])(*args)
    known = _by_id(function).get(overload_id)
    candidates = (known,) if known is not None else overloads
    for overload in candidates:
        if len(overload.args) == len(args) and all(map(accepts, overload.args, args)):
            return implementation(function, overload)(*args)
    return Failure(f"no such overload: {function}({', '.join(map(type_name, args))})")


def accepts(wanted: Type, value: Any) -> bool:
    """Whether a value may be given where ``wanted`` is declared; of lists and maps the first element is looked at."""
    kind = wanted.kind
    if kind in (Kind.DYN, Kind.ANY, Kind.PARAM):
        return True
    if type_name(value) != wanted.name:
        return False
    if kind is Kind.LIST and value:
        return accepts(wanted.params[0], value[0])
    if kind is Kind.MAP and value:
        key, item = next(iter(value.items()))
        return accepts(wanted.params[0], decode_key(key)) and accepts(wanted.params[1], item)
    return True
