"""Formulas for the cost of a call, and the ranges that they calculate with (docs/spec/cel.md §7.3).

The formulas are Kubernetes' own, with their quirks, because its verdict must be repeated exactly. Each returns the cost
of the call without its arguments, and the size of its result if that is known. Ranges saturate at 2⁶⁴-1 and are scaled
as doubles, like Kubernetes'. `cathedra.cel.checking.cost` walks the tree and knows the sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from cathedra.cel.checking import types
from cathedra.cel.checking.types import Kind, Type
from cathedra.cel.syntax.tree import Const, Expr
from cathedra.cel.values import MAX_UINT

UNBOUNDED: Final = MAX_UINT
"""As much as you like."""


class Range(NamedTuple):
    """A range of sizes or costs: its lower and upper bound."""

    low: int
    high: int

    def plus(self, other: Range) -> Range:
        """Return the saturated sum."""
        return Range(capped(self.low + other.low), capped(self.high + other.high))

    def times(self, other: Range) -> Range:
        """Return the saturated product."""
        return Range(capped(self.low * other.low), capped(self.high * other.high))

    def scaled(self, factor: float) -> Range:
        """Return the estimate multiplied by a factor and rounded up."""
        return Range(_scale(self.low, factor), _scale(self.high, factor))

    def union(self, other: Range) -> Range:
        """Return the range around both."""
        return Range(min(self.low, other.low), max(self.high, other.high))


def capped(value: int) -> int:
    """Return the value, as far as there is one."""
    return min(value, UNBOUNDED)


def _scale(value: int, factor: float) -> int:
    # As doubles, like Go: above 2**53 the result differs from that of integers, and verdicts near the limit with it.
    amount = float(value)
    if amount > 0 and factor > 0 and amount > UNBOUNDED / factor:
        return UNBOUNDED
    scaled = math.ceil(amount * factor)
    return UNBOUNDED if scaled >= 2**64 else scaled


ZERO: Final = Range(0, 0)


ONE: Final = Range(1, 1)


UNKNOWN: Final = Range(0, UNBOUNDED)


LIST_BASE: Final = Range(10, 10)


MAP_BASE: Final = Range(30, 30)


STRUCT_BASE: Final = Range(40, 40)


_STRING: Final = 0.1
_PATTERN: Final = 0.25
_MAX_FORMAT_NAME: Final = 64


class Operand(NamedTuple):
    """The target of a call or an argument: ``size`` is None if there is no telling from the expression alone."""

    path: tuple[str, ...]
    type: Type
    expr: Expr | None
    size: Range | None

    @property
    def local_size(self) -> Range:
        """The size, as far as it follows from the expression itself."""
        return UNKNOWN if self.size is None else self.size


class EstimatedCall(msgspec.Struct, frozen=True):
    """A call, with the sizes of its operands.

    Attributes:
        operands: The target if there is one, then the arguments.
        sized: The size of an operand; if the expression does not determine it, the size that is known for its path.
        unite_entries: Called with two positions if the result holds what both operands held.
    """

    operands: tuple[Operand, ...]
    sized: Callable[[Operand], Range]
    unite_entries: Callable[[int, int], None]

    def size(self, position: int) -> Range:
        """Return the size of one operand."""
        return self.sized(self.operands[position])

    def element(self, position: int) -> Range:
        """Return the size of the elements of a list."""
        whole = self.operands[position]
        path = (*whole.path, "@items") if whole.path else ()
        return self.sized(Operand(path, whole.type.params[0], None, None))


Estimate = tuple[Range, "Range | None"]
"""The cost, and the size of the result."""
Formula = Callable[[EstimatedCall], Estimate]


def one(_: EstimatedCall) -> Estimate:
    """Return the cost of one unit, whatever the operands."""
    return ONE, None


# --- comparison

_UNIT: Final = frozenset(
    t.name
    for t in (
        types.IP,
        types.CIDR,
        types.QUANTITY,
        types.SEMVER,
        types.AUTHORIZER,
        types.PATH_CHECK,
        types.GROUP_CHECK,
        types.RESOURCE_CHECK,
        types.DECISION,
    )
)


def equal(call: EstimatedCall) -> Estimate:
    """``==``: Kubernetes' own types have costs of their own."""
    left, right = call.operands
    if left.type == right.type:
        if left.type.name in _UNIT:
            return ONE, None
        if left.type == types.FORMAT:
            return Range(1, _MAX_FORMAT_NAME).scaled(_STRING), None
        if left.type == types.URL:
            size = right.size if right.size is not None else ONE
            return Range(1, size.high).scaled(_STRING), None
    return compared(call)


def compared(call: EstimatedCall) -> Estimate:
    """Return the cost of a comparison of texts, and of anything by ``!=``."""
    most = min(operand.local_size.high for operand in call.operands)
    return Range(1 if most > 0 else 0, most).scaled(_STRING), None


def membership(call: EstimatedCall) -> Estimate:
    """``in`` with a list."""
    return call.operands[1].local_size.scaled(1), None


def included(_: EstimatedCall) -> Estimate:
    """Return the cost of includes: lists of attributes have a limit."""
    return Range(0, 48), None


# --- texts


def scanned(call: EstimatedCall) -> Estimate:
    """Read a text once."""
    return call.size(0).scaled(_STRING), None


def scanned_twice(call: EstimatedCall) -> Estimate:
    """Read a text twice."""
    return call.size(0).scaled(2 * _STRING), None


def rewritten(call: EstimatedCall) -> Estimate:
    """Return the cost of a text that becomes another of its size."""
    size = call.size(0)
    return size.scaled(_STRING), size


def replaced(call: EstimatedCall) -> Estimate:
    """Estimate of ``replace``: its text is read twice."""
    size = call.size(0)
    return size.scaled(2 * _STRING), _after_replacement(size, call.size(1), call.size(2))


def _after_replacement(size: Range, old: Range, new: Range) -> Range:
    most, kept_most = 0, 0
    # An empty text is found between all characters, once more than there are.
    if old.low == 0:
        most, kept_most = capped(size.high + 1), size.high
    elif new.high <= old.low:
        kept_most = size.high
    else:
        most = math.ceil(float(size.high) / float(old.low))
    least, kept_least = 0, 0
    if old.high == 0:
        least, kept_least = capped(size.low + 1), size.low
    elif old.high <= new.low:
        kept_least = size.low
    else:
        least = math.ceil(float(size.low) / float(old.high))
    return Range(capped(least), capped(most)).times(new).plus(Range(kept_least, kept_most))


def split(call: EstimatedCall) -> Estimate:
    """Return the cost of split; a limit bounds the number of parts."""
    size = call.size(0)
    most = size.high
    if len(call.operands) > 2:
        limit = call.operands[2].expr
        if isinstance(limit, Const) and limit.value.__class__ is int:
            # Go converts a negative limit to a huge unsigned one.
            most = limit.value % 2**64
    return size.scaled(2 * _STRING), Range(0, most)


def joined(call: EstimatedCall) -> Estimate:
    """``join``: the elements and the separators between them."""
    count = call.size(0)
    size = ZERO
    if call.operands[0].type.params:
        size = count.times(call.element(0))
    if len(call.operands) > 1:
        between = Range(max(count.low - 1, 0), max(count.high - 1, 0))
        size = size.plus(call.size(1).times(between))
    return size.scaled(_STRING), size


def formatted(call: EstimatedCall) -> Estimate:
    """Estimate of ``format``, by the length of the pattern."""
    return call.operands[0].local_size.scaled(_STRING), None


def quoted(call: EstimatedCall) -> Estimate:
    """Return the cost of strings.quote: each character may become two."""
    size = call.operands[0].local_size
    return size.scaled(_STRING), Range(size.low + 2, (size.high * 2 + 2) % 2**64)


def encoded(call: EstimatedCall) -> Estimate:
    """Return the cost of a text as bytes."""
    size = call.operands[0].local_size
    return size.scaled(_STRING), Range(size.low, size.high * 4 % 2**64)


def decoded(call: EstimatedCall) -> Estimate:
    """Return the cost of bytes as a text."""
    size = call.operands[0].local_size
    return size.scaled(_STRING), Range(size.low // 4, size.high)


def prefixed(call: EstimatedCall) -> Estimate:
    """Return the cost of ``startsWith`` and ``endsWith``: they read as many characters as the argument has."""
    return call.operands[1].local_size.scaled(_STRING), None


def contained(call: EstimatedCall) -> Estimate:
    """Estimate of ``contains``: the product of both texts' costs."""
    text, part = call.operands
    return text.local_size.scaled(_STRING).times(part.local_size.scaled(_STRING)), None


def added(call: EstimatedCall) -> Estimate:
    """Return the cost of ``+`` of texts."""
    call.unite_entries(0, 1)
    size = call.operands[0].local_size.plus(call.operands[1].local_size)
    return size.scaled(_STRING), size


def added_lists(call: EstimatedCall) -> Estimate:
    """Return the cost of ``+`` of lists."""
    call.unite_entries(0, 1)
    return ONE, call.operands[0].local_size.plus(call.operands[1].local_size)


# --- patterns


def matched(call: EstimatedCall) -> Estimate:
    """Estimate of ``matches``: the product of text and pattern."""
    text, expression = call.operands
    return text.local_size.plus(ONE).scaled(_STRING).times(expression.local_size.scaled(_PATTERN)), None


def searched(call: EstimatedCall) -> Estimate:
    """Return the cost of ``find`` and ``findAll``."""
    size = call.size(0)
    return size.plus(ONE).scaled(_STRING).times(call.size(1).scaled(_PATTERN)), Range(0, size.high)


# --- lists


def traversed(call: EstimatedCall) -> Estimate:
    """Read each element of a list, or each character of a text."""
    size, type_ = call.size(0), call.operands[0].type
    if not type_.params:
        return size.scaled(_STRING), None
    each = ONE
    if type_.params[0].kind in (Kind.STRING, Kind.BYTES):
        each = each.plus(call.element(0).scaled(_STRING))
    return size.times(each), None


def _allocating(factor: float, size: Range) -> Estimate:
    return size.scaled(factor).plus(ONE).plus(LIST_BASE), size


def _literal(operand: Operand, otherwise: int) -> int:
    if not isinstance(operand.expr, Const) or operand.expr.value.__class__ is not int:
        return otherwise
    return max(int(operand.expr.value), 0)


def ranged(call: EstimatedCall) -> Estimate:
    """Estimate of ``lists.range``, whose result has the literal's size."""
    count = _literal(call.operands[0], UNBOUNDED)
    return _allocating(1.0, Range(count, count))


def sliced(call: EstimatedCall) -> Estimate:
    """Estimate of ``slice``, by the number of elements between its ends."""
    own = call.size(0)
    # Wraps around where the end lies before the start, as in Go.
    count = (_literal(call.operands[2], own.high) - _literal(call.operands[1], 0)) % 2**64
    return _allocating(1.0, Range(count, count))


def reversed_(call: EstimatedCall) -> Estimate:
    """Estimate of ``reverse``, by the size of the list."""
    return _allocating(1.0, call.size(0))


def flattened(call: EstimatedCall) -> Estimate:
    """Estimate of ``flatten``, by the size of the list for each level."""
    depth = _literal(call.operands[1], UNBOUNDED) if len(call.operands) > 1 else 1
    return _allocating(float(depth), call.size(0))


def _each_with_each(call: EstimatedCall, position: int, factor: float) -> Estimate:
    size = call.size(position)
    return _allocating(factor, size.times(size))


def distinct(call: EstimatedCall) -> Estimate:
    """Estimate of ``distinct``: each element is compared with each."""
    return _each_with_each(call, 0, 2.0)


def sorted_(call: EstimatedCall) -> Estimate:
    """Estimate of ``sort``: each element is compared with each."""
    return _each_with_each(call, 0, 2.0)


def sorted_texts(call: EstimatedCall) -> Estimate:
    """Return the cost of ``sort`` of texts."""
    return _each_with_each(call, 0, 2.1)


def sorted_by_keys(call: EstimatedCall) -> Estimate:
    """Estimate of ``sortBy``: each key is compared with each."""
    return _each_with_each(call, 1, 2.0)


def sorted_by_texts(call: EstimatedCall) -> Estimate:
    """Return the cost of sortBy with texts as keys."""
    return _each_with_each(call, 1, 2.1)


def crossed(call: EstimatedCall) -> Estimate:
    """Return the cost of each element of one list with each of another."""
    return call.size(0).times(call.size(1)).scaled(1.0).plus(ONE), None


def crossed_twice(call: EstimatedCall) -> Estimate:
    """Return the cost of `crossed`, both ways round."""
    return call.size(0).times(call.size(1)).scaled(2.0).plus(ONE), None
