"""Cutting text into tokens."""

from __future__ import annotations

import pytest
from hypothesis import given

from cathedra.cel.syntax.tokens import EOF, scan
from tests.unit.cel.building import nonsense


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("a.b", ["IDENTIFIER", ".", "IDENTIFIER", EOF]),
        ("1.5e3 .5 1 0x1Fu", ["NUM_FLOAT", "NUM_FLOAT", "NUM_INT", "NUM_UINT", EOF]),
        ("1.e", ["NUM_INT", ".", "IDENTIFIER", EOF]),
        ("in inn true", ["in", "IDENTIFIER", "true", EOF]),
        ("'''a'b''' r'\\' b\"x\"", ["STRING", "STRING", "BYTES", EOF]),
        ("a // rest\n&& b", ["IDENTIFIER", "&&", "IDENTIFIER", EOF]),
        ("`a.b-c`", ["ESC_IDENTIFIER", EOF]),
        ("", [EOF]),
    ],
)
def test_tokens_have_the_kinds_of_the_grammar(source: str, kinds: list[str]) -> None:
    tokens, reached = scan(source)
    assert [token.kind for token in tokens] == kinds
    assert reached == len(source)


def test_scanning_stops_where_no_token_starts() -> None:
    tokens, reached = scan("a @ b")
    assert [token.text for token in tokens] == ["a"]
    assert reached == 2


@given(nonsense)
def test_every_token_is_the_text_between_its_ends(source: str) -> None:
    tokens, _ = scan(source)
    assert all(source[token.start : token.end] == token.text for token in tokens if token.kind != EOF)
