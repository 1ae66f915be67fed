"""Text in quotes as Go prints it."""

from __future__ import annotations

import pytest

from cathedra.api.goquote import go_quote


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a", '"a"'),
        ('"\\', '"\\"\\\\"'),
        ("\n\t\r", '"\\n\\t\\r"'),
        ("\x00\x7f", '"\\x00\\x7f"'),
        ("é ☃", '"é ☃"'),
        ("\u200b", '"\\u200b"'),
        ("\v\x9f", '"\\v\\u009f"'),
        ("\u00a0", '"\\u00a0"'),
        ("\ud800", '"\\ufffd"'),
        ("\U000e0001", '"\\U000e0001"'),
    ],
)
def test_texts_are_quoted_as_go_does(text: str, shown: str) -> None:
    assert go_quote(text) == shown
