"""All functions by name and overload, and the choice among them at run time.

The checker has often found the one overload that is possible; else the values decide. What fits nothing is
`no such overload`, in the words of Kubernetes (docs/spec/cel.md §5 and §8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from cathedra.cel.checking.types import Kind, Type
from cathedra.cel.library import (
    authorizer,
    formats,
    lists,
    network,
    optionals,
    patches,
    quantity,
    regex,
    semver,
    standard,
    strings,
    urls,
)
from cathedra.cel.library.costs import Count
from cathedra.cel.library.overload import Functions, Overload
from cathedra.cel.values import NO_SUCH_OVERLOAD, CELValue, Duration, Failure, Timestamp, decode_key, type_name

LIBRARIES: Final[dict[str, Functions]] = {
    "standard": standard.OVERLOADS,
    "optional": optionals.OVERLOADS,
    "strings": strings.OVERLOADS,
    "lists": lists.LISTS,
    "extended lists": lists.EXTENDED,
    "includes": lists.INCLUDES,
    "sets": lists.SETS,
    "two variables": lists.TWO_VARIABLES,
    "regex": regex.OVERLOADS,
    "urls": urls.OVERLOADS,
    "ip": network.IPS,
    "cidr": network.CIDRS,
    "quantity": quantity.OVERLOADS,
    "semver": semver.OVERLOADS,
    "format": formats.OVERLOADS,
    "authorizer": authorizer.OVERLOADS,
    "json patch": patches.OVERLOADS,
}
"""The functions of each library, as an `Environment` names it."""


def _merged() -> dict[str, tuple[Overload, ...]]:
    table: dict[str, tuple[Overload, ...]] = {}
    for functions in LIBRARIES.values():
        for name, overloads in functions.items():
            table[name] = table.get(name, ()) + overloads
    return table


OVERLOADS: Final = _merged()
"""All overloads of all libraries, by function."""


def _with(trait: Callable[[Overload], bool]) -> Iterator[str]:
    return (name for name, overloads in OVERLOADS.items() if any(map(trait, overloads)))


FOLDED: Final = frozenset(_with(lambda overload: overload.folded))
"""Conversions, which Kubernetes computes while planning if their argument is constant."""
PATTERNS: Final = frozenset(_with(lambda overload: overload.pattern))
"""Functions whose second argument is a regular expression."""
_COUNTS: Final[dict[str, Count]] = {
    name: next(overload.cost.count for overload in OVERLOADS[name] if overload.cost.named)
    for name in _with(lambda overload: overload.cost.named)
}

_TIMES: Final = frozenset(("google.protobuf.Duration", "google.protobuf.Timestamp"))
_NUMBERS: Final = frozenset(("double", "int", "uint"))
_ORDERED: Final = _NUMBERS | _TIMES | {"bool", "bytes", "string"}
_SINGLE: Final[dict[str, frozenset[str] | None]] = {
    "_+_": _NUMBERS | _TIMES | {"bytes", "list", "string"},
    "_-_": _NUMBERS | _TIMES,
    "_*_": _NUMBERS,
    "_/_": _NUMBERS,
    "_%_": _NUMBERS - {"double"},
    "-_": frozenset(("bool", "double", "google.protobuf.Duration", "int")),
    "!_": None,
    "_<_": _ORDERED,
    "_<=_": _ORDERED,
    "_>_": _ORDERED,
    "_>=_": _ORDERED,
    "@in": None,
    "size": frozenset(("bytes", "list", "map", "net.IP", "string")),
    "type": None,
    "dyn": None,
    "matches": frozenset(("string",)),
    "sort": frozenset(("list",)),
    "@sortByAssociatedKeys": frozenset(("list",)),
}
"""Functions with one implementation for all overloads, and the types that their first argument may have."""
SINGLE_FUNCTIONS: Final = frozenset(_SINGLE)

_UNGUARDED: Final = frozenset(("contains", "startsWith", "endsWith", "flatten"))
"""Functions that check the types of their arguments themselves."""
_RECEIVERS: Final = (str, Timestamp, Duration)


def call(function: str, overload: Overload | None, args: Sequence[CELValue]) -> CELValue:
    """Return the result of a call, or a failure; without ``overload`` the values decide."""
    candidates = OVERLOADS.get(function, ())
    if function in _SINGLE:
        kinds = _SINGLE[function]
        if kinds is None or type_name(args[0]) in kinds:
            return _implementation(candidates[0])(*args)
        return NO_SUCH_OVERLOAD if isinstance(args[0], _RECEIVERS) else Failure(f"no such overload: {function}")
    if function in _UNGUARDED:
        return _implementation(next(one for one in candidates if len(one.args) == len(args)))(*args)
    if overload is not None and overload.implementation is not None:
        candidates = (overload,)
    for one in candidates:
        if len(one.args) == len(args) and all(map(accepts, one.args, args)):
            return _implementation(one)(*args)
    return Failure(f"no such overload: {function}({', '.join(map(type_name, args))})")


def _implementation(overload: Overload) -> Callable[..., CELValue]:
    assert overload.implementation is not None, f"{overload.id} is a matter of the evaluator"
    return overload.implementation


def count(function: str, overload: Overload | None, args: Sequence[CELValue], result: CELValue) -> int:
    """Return the cost of a call without that of its arguments (docs/spec/cel.md §7.2)."""
    if overload is not None:
        return overload.cost.count(args, result)
    counted = _COUNTS.get(function)
    return 1 if counted is None else counted(args, result)


def accepts(wanted: Type, value: CELValue) -> bool:
    """Return True if a value may be passed where ``wanted`` is declared. Of lists and maps the first element is
    checked."""
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
