"""Numbers and booleans of a query are read as Kubernetes reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.apiserver.queryvalues import NumberError, parse_int64, parse_uint64, says_true


@given(st.integers())
def test_integers_are_read_as_go_reads_them(value: int) -> None:
    if -(1 << 63) <= value < 1 << 63:
        assert parse_int64(str(value)) == value
    else:
        with pytest.raises(NumberError, match="value out of range"):
            parse_int64(str(value))
    if 0 <= value < 1 << 64:
        assert parse_uint64(f"000{value}") == value


@pytest.mark.parametrize("text", ["", "+", "-", "1_000", " 1", "٣", "1.0", "0x1", "--1"])
def test_what_go_does_not_read_is_refused(text: str) -> None:
    with pytest.raises(NumberError, match=r"strconv\.ParseInt: parsing .*: invalid syntax"):
        parse_int64(text)


def test_unsigned_numbers_have_no_sign() -> None:
    with pytest.raises(NumberError, match=r'strconv\.ParseUint: parsing "\+1": invalid syntax'):
        parse_uint64("+1")


def test_no_value_is_no() -> None:
    assert not says_true(())


@pytest.mark.parametrize("value", ["", "true", "True", "t", "1", "yes", "no", "f", "2"])
def test_every_other_value_is_yes(value: str) -> None:
    assert says_true((value,))
    assert says_true((value, "false"))


@pytest.mark.parametrize("value", ["false", "False", "FALSE", "0"])
def test_false_and_zero_are_no(value: str) -> None:
    assert not says_true((value,))


def test_a_long_number_is_not_repeated_in_full() -> None:
    with pytest.raises(NumberError) as refused:
        parse_int64("9" * 10_000)
    assert len(str(refused.value)) < 400
