"""Quantities: exact amounts in the three spellings of Kubernetes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.quantity import Format, Quantity, QuantityError

amounts = st.integers(min_value=-(10**24), max_value=10**24).map(Quantity.of_nanos)
written = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(("", "-", "+")),
    st.integers(0, 10**6),
    st.sampled_from(("", ".5", ".25", ".001")),
    st.sampled_from(("", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E2")),
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1", "1"),
        ("1000", "1k"),
        ("0.5", "500m"),
        ("1.5Gi", "1536Mi"),
        ("1024Ki", "1Mi"),
        ("1e3", "1e3"),
        ("-0", "0"),
        ("+1", "+1"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("0.0000000001", "1n"),
        ("999E", "999E"),
        ("1000E", "1e21"),
        ("20000000P", "20e21"),
        ("-1000E", "-1e21"),
        ("1001E", "1001E"),
    ],
)
def test_a_quantity_is_shown_in_its_shortest_form(text: str, shown: str) -> None:
    assert str(Quantity(text)) == shown


@pytest.mark.parametrize("text", ["", "x", "1x", "1.5.5", "--1", "1Kii", " 1"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(text)


@settings(max_examples=100)
@given(written)
def test_showing_and_reading_again_keeps_amount_and_form(text: str) -> None:
    first = Quantity.parse(text)
    again = Quantity.parse(str(first))
    assert again == first
    # A binary amount that no binary suffix divides is shown as a plain number, which reads as a decimal one.
    if first.format is not Format.BINARY_SI or not str(first)[-1].isdigit():
        assert str(again) == str(first)
    assert str(Quantity.parse(str(again))) == str(again)


def test_a_binary_amount_without_a_suffix_becomes_decimal_when_it_is_read_again() -> None:
    assert str(Quantity("781.25Ki")) == "800000"
    assert str(Quantity("800000")) == "800k"


@settings(max_examples=60)
@given(amounts, amounts, amounts)
def test_sums_are_associative_and_commutative_and_differences_undo_them(a: Quantity, b: Quantity, c: Quantity) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert (a + b) - b == a


@settings(max_examples=60)
@given(amounts, amounts)
def test_order_is_total_and_agrees_with_the_difference(a: Quantity, b: Quantity) -> None:
    assert (a < b) + (a == b) + (a > b) == 1
    assert (a - b).sign() == (a > b) - (a < b)


def test_equal_amounts_are_equal_however_they_are_written() -> None:
    assert Quantity("1Gi") == Quantity("1073741824")
    assert hash(Quantity("1000m")) == hash(Quantity("1"))
    assert Quantity("1Gi").format is Format.BINARY_SI


def test_whole_units_are_rounded_up() -> None:
    assert Quantity("1.1").value() == 2
    assert Quantity("100m").milli_value() == 100
    assert Quantity("100u").milli_value() == 1


def test_a_quantity_never_changes() -> None:
    with pytest.raises(AttributeError):
        Quantity("1").nanos = 2  # type: ignore[misc]


@pytest.mark.parametrize("zeros", [4_000, 1_000_000])
def test_zeros_in_front_of_what_is_no_quantity_cost_no_time(zeros: int) -> None:
    """In one pass; a minute and more when the parts of the form may try to share the zeros in every way."""
    with pytest.raises(QuantityError):
        Quantity("0" * zeros + "x")


def test_a_binary_sum_past_the_last_suffix_keeps_its_amount() -> None:
    """kubernetes/kubernetes#140459."""
    total = Quantity("4Ei") + Quantity("4Ei")
    assert (total * 128).text == str(2**70)
    assert (total * 128000).text == f"{2**70}e3"


@pytest.mark.parametrize(("text", "left"), [("999E", "999E"), ("1000E", "1"), ("-20000E", "-20"), ("1e21", "1e21")])
def test_older_releases_lose_the_suffix_of_large_amounts(text: str, left: str) -> None:
    assert Quantity(text).without_large_suffix.text == left
