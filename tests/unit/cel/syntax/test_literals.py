"""Values of literals."""

from __future__ import annotations

import pytest

from cathedra.cel.syntax import literals
from cathedra.cel.syntax.literals import LiteralError
from cathedra.cel.values import UInt


def test_integers_keep_to_64_bits() -> None:
    assert literals.parse_int("-9223372036854775808") == -(2**63)
    assert literals.parse_int("0x7fffffffffffffff") == 2**63 - 1
    with pytest.raises(LiteralError, match="invalid int literal"):
        literals.parse_int("9223372036854775808")


def test_unsigned_integers_are_of_a_class_of_their_own() -> None:
    assert type(literals.parse_uint("18446744073709551615u")) is UInt
    with pytest.raises(LiteralError, match="invalid uint literal"):
        literals.parse_uint("18446744073709551616u")


def test_very_long_digit_strings_are_refused_quickly() -> None:
    with pytest.raises(LiteralError):
        literals.parse_int("9" * 10_000)


def test_too_large_doubles_are_refused() -> None:
    assert literals.parse_double("1e308") == 1e308
    with pytest.raises(LiteralError, match="invalid double literal"):
        literals.parse_double("1e400")


@pytest.mark.parametrize(
    ("source", "value"),
    [
        (r'"a\tb"', "a\tb"),
        (r"'\x41\u00e9\U0001F600\101'", "Aé😀A"),
        (r"r'\n'", r"\n"),
        ("'''a\nb'''", "a\nb"),
        ('"""a"b"""', 'a"b'),
        ("'a\r\nb'", "a\nb"),
    ],
)
def test_strings_lose_their_escapes(source: str, value: str) -> None:
    assert literals.parse_string(source) == value


def test_bytes_are_named_by_escapes_and_everything_else_is_utf8() -> None:
    assert literals.parse_bytes(r"b'\xff\101é'") == b"\xffA\xc3\xa9"
    with pytest.raises(LiteralError, match="unable to unescape string"):
        literals.parse_bytes(r"b'\u0041'")


def test_surrogates_are_no_characters() -> None:
    with pytest.raises(LiteralError, match="invalid unicode code point"):
        literals.parse_string(r"'\uD800'")
