"""The formulas of the estimate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.cel.checking import types
from cathedra.cel.library import estimates, registry
from cathedra.cel.library.estimates import ONE, UNBOUNDED, UNKNOWN, ZERO, EstimatedCall, Operand, Range
from cathedra.cel.syntax.tree import Const

TEXT = types.STRING
TEXTS = types.list_of(TEXT)


def operand(low: int, high: int, type_: types.Type = TEXT) -> Operand:
    return Operand((), type_, None, Range(low, high))


def literal(value: int) -> Operand:
    return Operand((), types.INT, Const(1, 0, value), Range(1, 1))


def call(*operands: Operand) -> EstimatedCall:
    return EstimatedCall(operands, lambda one: UNKNOWN if one.size is None else one.size, lambda first, second: None)


def test_a_replacement_may_lengthen_a_text_by_each_match() -> None:
    cost, size = estimates.replaced(call(operand(0, 10), operand(1, 1), operand(0, 3)))
    assert cost == Range(0, 2)
    assert size is not None
    assert size.high == 30


def test_replacing_nothing_may_insert_between_all_characters() -> None:
    _, size = estimates.replaced(call(operand(0, 10), operand(0, 0), operand(2, 2)))
    assert size is not None
    assert size.high == 11 * 2 + 10


def test_quoting_may_double_a_text() -> None:
    assert estimates.quoted(call(operand(3, 10))) == (Range(1, 1), Range(5, 22))


def test_a_limit_bounds_the_parts_of_a_split() -> None:
    assert estimates.split(call(operand(0, 50), operand(1, 1)))[1] == Range(0, 50)
    assert estimates.split(call(operand(0, 50), operand(1, 1), literal(3)))[1] == Range(0, 3)


def test_each_element_of_a_sorted_list_may_meet_each_other() -> None:
    numbers = operand(0, 10, types.list_of(types.INT))
    assert estimates.sorted_(call(numbers))[0] == Range(11, 2 * 100 + 11)
    assert estimates.sorted_texts(call(operand(0, 10, TEXTS)))[0] == Range(11, 210 + 11)


def test_a_slice_between_literals_has_a_known_length() -> None:
    cost, size = estimates.sliced(call(operand(0, 90, TEXTS), literal(2), literal(7)))
    assert (cost, size) == (Range(16, 16), Range(5, 5))


def test_elements_of_unknown_size_make_a_walk_over_texts_as_dear() -> None:
    assert estimates.traversed(call(operand(0, 5, TEXTS)))[0].high > 2**60
    assert estimates.traversed(call(operand(0, 5, types.list_of(types.INT))))[0] == Range(0, 5)


@pytest.mark.parametrize(
    ("type_", "cost"),
    [(types.QUANTITY, Range(1, 1)), (types.FORMAT, Range(1, 7)), (types.STRING, Range(1, 2))],
)
def test_equality_of_kubernetes_own_types_has_costs_of_its_own(type_: types.Type, cost: Range) -> None:
    assert estimates.equal(call(operand(5, 20, type_), operand(5, 20, type_)))[0] == cost


@pytest.mark.parametrize("function", ["trim", "sum", "find", "matches", "sort", "validate", "check", "containsIP"])
def test_a_formula_gives_a_range_where_no_size_is_known(function: str) -> None:
    for overload in registry.OVERLOADS[function]:
        unknown = call(*(Operand((), one, None, None) for one in overload.args))
        cost, _ = overload.cost.estimate(unknown)
        assert cost.low <= cost.high
        assert cost.high >= 1


amounts = st.integers(0, UNBOUNDED)
ranges = st.builds(lambda a, b: Range(min(a, b), max(a, b)), amounts, amounts)


@given(ranges, ranges)
def test_arithmetic_stays_within_64_bits_and_in_order(one: Range, other: Range) -> None:
    for made in (one.plus(other), one.times(other), one.union(other), one.scaled(0.1)):
        assert 0 <= made.low <= made.high <= UNBOUNDED


@given(ranges)
def test_zero_and_one_are_neutral(one: Range) -> None:
    assert one.plus(ZERO) == one
    assert one.times(ONE) == one
    assert one.union(one) == one
