"""Equality and order of values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.cel import values
from cathedra.cel.errors import CostLimitExceeded
from cathedra.cel.library.semver import Semver
from cathedra.cel.values import Failure, UInt

scalars = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.integers(0, 5).map(UInt) | st.floats() | st.text(max_size=2)
)
anything = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=6)


@given(anything, anything)
def test_equality_is_symmetric(one: Any, other: Any) -> None:
    assert values.equal(one, other) == values.equal(other, one)


@given(scalars, scalars)
def test_order_is_antisymmetric(one: Any, other: Any) -> None:
    forth, back = values.compare(one, other), values.compare(other, one)
    if isinstance(forth, Failure):
        assert isinstance(back, Failure)
    else:
        assert forth == -back  # type: ignore[operator]  # both or none are failures


@given(
    st.lists(st.tuples(st.booleans() | st.integers(0, 2) | st.integers(0, 2).map(UInt) | st.text(max_size=1), scalars))
)
def test_keys_survive_their_encoding(pairs: list[tuple[Any, Any]]) -> None:
    mapping = {values.encode_key(key): value for key, value in pairs}
    for key, _ in pairs:
        assert values.decode_key(values.encode_key(key)) == key
        assert values.find(mapping, key)[1]


def test_python_equalities_that_cel_lacks() -> None:
    assert values.equal(True, 1) is False
    assert values.equal(1, 1.0) is True
    assert values.equal(UInt(1), 1) is True
    assert values.equal(None, False) is False


def test_kubernetes_types_on_the_left_refuse_others() -> None:
    assert isinstance(values.equal(Semver.parse("1.0.0"), "1.0.0"), Failure)
    assert values.equal("1.0.0", Semver.parse("1.0.0")) is False


def test_number_keys_are_found_through_other_number_types() -> None:
    mapping = {values.encode_key(1): "a"}
    assert values.find(mapping, UInt(1)) == ("a", True)
    assert values.find(mapping, 1.0) == ("a", True)
    assert values.find(mapping, True) == (None, False)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1e21, "1e+21"),
        (123456789.0, "1.23456789e+08"),
        (0.0001, "0.0001"),
        (-0.0, "-0"),
        (float("inf"), "+Inf"),
        (1.5, "1.5"),
    ],
)
def test_doubles_are_written_as_go_writes_them(value: float, shown: str) -> None:
    assert values.go_float(value) in (shown, f"{value:.0f}")


def test_lists_that_hold_themselves_many_times_are_not_walked() -> None:
    nested: Any = [1]
    for _ in range(60):
        nested = [nested, nested]
    with pytest.raises(CostLimitExceeded):
        values.equal(nested, nested)
    with pytest.raises(CostLimitExceeded):
        values.text(nested)


def test_large_values_are_not_compared_with_many_others() -> None:
    nested: Any = [1]
    for _ in range(16):
        nested = [nested, nested]
    with pytest.raises(CostLimitExceeded):
        values.contains([nested] * 1000, nested)
    assert values.contains([nested], nested)
