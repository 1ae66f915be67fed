"""What a call costs at run time, counted as Kubernetes counts it (docs/spec/cel.md §7.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from cathedra.cel.checking.declarations import COMPARISONS, UNIT_COST
from cathedra.cel.library.authorizer import AccessDecision, AuthorizerValue, GroupCheck, PathCheck, ResourceCheck
from cathedra.cel.library.formats import NamedFormat
from cathedra.cel.library.network import CIDR, IP
from cathedra.cel.library.quantity import QuantityValue
from cathedra.cel.library.semver import Semver
from cathedra.cel.library.urls import URL
from cathedra.cel.values import Failure, Opaque, Optional, decode_key, walkable

__all__ = ["call_cost"]

CHECK_COST: Final = 350_000
_STRING: Final = 0.1
_PATTERN: Final = 0.25
_LIST_BASE: Final = 10
_REQUIREMENT: Final = 50.0
_TRAVERSED: Final = frozenset(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"))
_SCANNED: Final = frozenset(
    [
        "url",
        "lowerAscii",
        "upperAscii",
        "substring",
        "trim",
        "cidr",
        "isIP",
        "isCIDR",
        "quantity",
        "isQuantity",
        "semver",
        "isSemver",
    ]
)
_SCANNED_TWICE: Final = frozenset(("replace", "split", "ip.isCanonical"))
_UNIT_EQUALITY: Final = (
    QuantityValue, IP, CIDR, NamedFormat, URL, Semver, AuthorizerValue, PathCheck, GroupCheck, ResourceCheck,
    AccessDecision,
)  # fmt: skip
_RECEIVER_SIZE: Final = frozenset(
    ("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string", "strings_quote", "string_format")
)


def size(value: Any) -> int:
    """The size costs are counted with."""
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    return value.size() if isinstance(value, Opaque) else 1


def _deep_size(value: Any) -> int:
    while value.__class__ is Optional and value.present:
        value = value.value
    return size(value)


def _scan(amount: int, factor: float = _STRING) -> int:
    return math.ceil(amount * factor)


def traversal(value: Any) -> int:
    """One walk over a value."""
    total, pending = 0, [walkable(value)]
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            total += int(len(one.encode("utf-8", "surrogatepass")) * _STRING)
        elif isinstance(one, bytes):
            total += int(len(one) * _STRING)
        elif isinstance(one, list):
            pending += one
        elif isinstance(one, dict):
            pending += map(decode_key, one)
            pending += one.values()
        else:
            total += 1
    return total


def _pattern(text: int, pattern: int) -> int:
    return math.ceil((1.0 + text) * _STRING) * math.ceil(pattern * _PATTERN)


def call_cost(function: str, overload: str, args: Sequence[Any], result: Any) -> int:
    """The cost of one call with its arguments and result, without that of computing the arguments."""
    special = _list_cost(overload, args, result)
    if special is not None:
        return special
    if function in UNIT_COST:
        return 1
    library = _library_cost(function, overload, args, result)
    if library is not None:
        return library
    return _core_cost(overload, args)


def _list_cost(overload: str, args: Sequence[Any], result: Any) -> int | None:
    if overload in ("list_slice", "lists_range", "list_reverse"):
        return size(result) + 1 + _LIST_BASE
    if overload in ("list_flatten", "list_flatten_int"):
        depth = float(args[1]) if len(args) == 2 and args[1].__class__ is int else 1.0
        return int(size(args[0]) * depth) + 1 + _LIST_BASE
    if overload == "list_distinct" or overload.endswith("_sort"):
        return _self_compare(args[0])
    if overload.endswith("_sortByAssociatedKeys"):
        return _self_compare(args[1])
    if overload in ("list_sets_contains_list", "list_sets_intersects_list"):
        return 1 + size(args[0]) * size(args[1])
    if overload == "list_sets_equivalent_list":
        return 1 + 2 * size(args[0]) * size(args[1])
    return None


def _self_compare(values: Any) -> int:
    amount = len(values)
    factor = 2.1 if amount and isinstance(values[0], (str, bytes)) else 2.0
    return int(amount * amount * factor) + 1 + _LIST_BASE


def _library_cost(function: str, overload: str, args: Sequence[Any], result: Any) -> int | None:
    count = len(args)
    if function == "check":
        return CHECK_COST
    if function in _TRAVERSED:
        return traversal(args[0])
    if function in _SCANNED:
        return _scan(size(args[0]))
    if function in _SCANNED_TWICE:
        return _scan(size(args[0]), 2 * _STRING)
    if function == "join":
        return _scan(1 if isinstance(result, Failure) else size(result), 2 * _STRING)
    if function in ("find", "findAll") and count >= 2:
        return _pattern(size(args[0]), size(args[1]))
    if function == "ip":
        return 1 if overload == "cidr_ip" else _scan(size(args[0]))
    if function in ("containsIP", "containsCIDR"):
        return _network_cost(function, overload, args)
    if function == "validate" and isinstance(args[0], NamedFormat):
        return _pattern(size(args[1]), args[0].regex_size)
    if function in ("fieldSelector", "labelSelector") and count >= 2:
        length = size(args[1])
        return _LIST_BASE + _scan(length) + math.ceil(math.ceil(length * 0.5) * _REQUIREMENT)
    if function == "_==_" and isinstance(args[0], _UNIT_EQUALITY):
        return 1
    return None


def _network_cost(function: str, overload: str, args: Sequence[Any]) -> int:
    own = size(args[0])
    cost = _scan(2 * own)
    if function == "containsCIDR":
        cost += _scan(own) + 1
    return cost + (_scan(size(args[1])) if overload.endswith("_string") else 0)


def _core_cost(overload: str, args: Sequence[Any]) -> int:
    if overload in COMPARISONS:
        return _scan(min(_deep_size(args[0]), _deep_size(args[1])))
    if overload in _RECEIVER_SIZE:
        return _scan(_deep_size(args[0]))
    if overload == "in_list":
        return _deep_size(args[1])
    if overload in ("add_string", "add_bytes"):
        return _scan(_deep_size(args[0]) + _deep_size(args[1]))
    if overload == "matches_string":
        return _pattern(_deep_size(args[0]), _deep_size(args[1]))
    if overload == "contains_string":
        return _scan(_deep_size(args[0])) * _scan(_deep_size(args[1]))
    return 1
