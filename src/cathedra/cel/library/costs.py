"""Costs of calls: counted at run time and estimated beforehand, as in Kubernetes (docs/spec/cel.md §7.2 and §7.3).

A `Cost` has both, because a selector whose estimate is accepted should not be stopped when it is evaluated. Where they
differ nevertheless, Kubernetes does. Costs of one library only are beside its functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from cathedra.cel.library import estimates
from cathedra.cel.library.estimates import Formula
from cathedra.cel.values import CELValue, Failure, Opaque, Optional, decode_key, walkable

Count = Callable[[Sequence[CELValue], CELValue], int]
"""Arguments and result → the cost of the call, without that of computing the arguments."""

STRING: Final = 0.1
PATTERN: Final = 0.25
_LIST_BASE: Final = 10


class Cost(msgspec.Struct, frozen=True, eq=False):
    """Cost of a call, counted and estimated.

    Attributes:
        count: Cost of a call.
        estimate: Bounds of the cost.
        named: Kubernetes knows the cost by the name of the function: it holds as well if types are unknown, and only
            the values choose the overload. Other calls cost one unit then.
        walked: The argument that is counted over as a list; Kubernetes gives up if it is none.
    """

    count: Count
    estimate: Formula
    named: bool = False
    walked: int | None = None


# --- measures


def size(value: CELValue) -> int:
    """Return the size costs are counted with."""
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    return value.size() if isinstance(value, Opaque) else 1


def deep_size(value: CELValue) -> int:
    """Return the size of what an optional holds."""
    while value.__class__ is Optional and value.present:
        value = value.value
    return size(value)


def scan(amount: int, factor: float = STRING) -> int:
    """Return the cost of reading a number of characters."""
    return math.ceil(amount * factor)


def search(text: int, expression: int) -> int:
    """Return the cost of searching a text with an expression, by the lengths of both."""
    return math.ceil((1.0 + text) * STRING) * math.ceil(expression * PATTERN)


def traversal(value: CELValue) -> int:
    """Return the cost of one walk over a value."""
    total, pending = 0, [walkable(value)]
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            total += int(len(one.encode("utf-8", "surrogatepass")) * STRING)
        elif isinstance(one, bytes):
            total += int(len(one) * STRING)
        elif isinstance(one, list):
            pending += one
        elif isinstance(one, dict):
            pending += map(decode_key, one)
            pending += one.values()
        else:
            total += 1
    return total


def _compared(args: Sequence[CELValue], _: CELValue) -> int:
    return scan(min(deep_size(args[0]), deep_size(args[1])))


def _equal(args: Sequence[CELValue], result: CELValue) -> int:
    left = args[0]
    return 1 if isinstance(left, Opaque) and left.equality_is_unit else _compared(args, result)


def _flattened(args: Sequence[CELValue], _: CELValue) -> int:
    depth = float(args[1]) if len(args) == 2 and args[1].__class__ is int else 1.0
    return int(size(args[0]) * depth) + 1 + _LIST_BASE


def _self_compared(values: CELValue) -> int:
    amount = len(values)
    factor = 2.1 if amount and isinstance(values[0], (str, bytes)) else 2.0
    return int(amount * amount * factor) + 1 + _LIST_BASE


def _made(_: Sequence[CELValue], result: CELValue) -> int:
    return size(result) + 1 + _LIST_BASE


def _first(args: Sequence[CELValue], _: CELValue) -> int:
    return scan(size(args[0]))


def _first_deep(args: Sequence[CELValue], _: CELValue) -> int:
    return scan(deep_size(args[0]))


def _first_twice(args: Sequence[CELValue], _: CELValue) -> int:
    return scan(size(args[0]), 2 * STRING)


# --- costs, by what a function does

ONE: Final = Cost(lambda args, result: 1, estimates.one)
EQUAL: Final = Cost(_equal, estimates.equal)
COMPARED: Final = Cost(_compared, estimates.compared)
"""Comparison of texts: follows the shorter one."""
INCLUDED: Final = Cost(lambda args, result: 1, estimates.included)
MEMBERSHIP: Final = Cost(lambda args, result: deep_size(args[1]), estimates.membership)

SCANNED: Final = Cost(_first, estimates.scanned, named=True)
"""Cost of reading a text."""
REWRITTEN: Final = Cost(_first, estimates.rewritten, named=True)
"""A text becomes another of the same length at most."""
SCANNED_TWICE: Final = Cost(_first_twice, estimates.scanned_twice, named=True)
REPLACED: Final = Cost(_first_twice, estimates.replaced, named=True)
SPLIT: Final = Cost(_first_twice, estimates.split, named=True)
JOINED: Final = Cost(
    lambda args, result: scan(1 if isinstance(result, Failure) else size(result), 2 * STRING),
    estimates.joined,
    named=True,
)
FORMATTED: Final = Cost(_first_deep, estimates.formatted)
QUOTED: Final = Cost(_first_deep, estimates.quoted)
ENCODED: Final = Cost(_first_deep, estimates.encoded)
DECODED: Final = Cost(_first_deep, estimates.decoded)
PREFIXED: Final = Cost(_first_deep, estimates.prefixed)
CONTAINED: Final = Cost(lambda args, result: scan(deep_size(args[0])) * scan(deep_size(args[1])), estimates.contained)
ADDED: Final = Cost(lambda args, result: scan(deep_size(args[0]) + deep_size(args[1])), estimates.added)
ADDED_LISTS: Final = Cost(lambda args, result: 1, estimates.added_lists)

MATCHED: Final = Cost(lambda args, result: search(deep_size(args[0]), deep_size(args[1])), estimates.matched)
SEARCHED: Final = Cost(lambda args, result: search(size(args[0]), size(args[1])), estimates.searched, named=True)

TRAVERSED: Final = Cost(lambda args, result: traversal(args[0]), estimates.traversed, named=True)
RANGED: Final = Cost(_made, estimates.ranged)
SLICED: Final = Cost(_made, estimates.sliced)
REVERSED: Final = Cost(_made, estimates.reversed_)
FLATTENED: Final = Cost(_flattened, estimates.flattened)
DISTINCT: Final = Cost(lambda args, result: _self_compared(args[0]), estimates.distinct, walked=0)
SORTED: Final = Cost(lambda args, result: _self_compared(args[0]), estimates.sorted_, walked=0)
SORTED_TEXTS: Final = Cost(SORTED.count, estimates.sorted_texts, walked=0)
SORTED_BY_KEYS: Final = Cost(lambda args, result: _self_compared(args[1]), estimates.sorted_by_keys, walked=1)
SORTED_BY_TEXTS: Final = Cost(SORTED_BY_KEYS.count, estimates.sorted_by_texts, walked=1)
CROSSED: Final = Cost(lambda args, result: 1 + size(args[0]) * size(args[1]), estimates.crossed)
"""Each element of one list is compared with each of another."""
CROSSED_TWICE: Final = Cost(lambda args, result: 1 + 2 * size(args[0]) * size(args[1]), estimates.crossed_twice)
