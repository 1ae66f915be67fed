"""Text from outside, made safe to print."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.printable import counted, plural, printable, printable_line, printable_values


class Row(msgspec.Struct, frozen=True):
    name: str
    cells: tuple[str, ...] = ()
    counts: dict[str, int] = {}


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    rows: tuple[Row, ...]
    width: int


class Pair(NamedTuple):
    left: str
    right: str


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[2J\x1b]0;title\x07", "^[[2J^[]0;title\\u0007"),
        ("over\rwritten", "over\\u000dwritten"),
        ("\x9b31m", "\\u009b31m"),
        ("abc\u202etxt.exe", "abc\\u202etxt.exe"),
        ("größe – 9 µs 日本", "größe – 9 µs 日本"),
    ],
)
def test_control_characters_become_visible_and_other_text_stays(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_what_is_printable_stays_as_it_is_and_holds_no_control_character(text: str) -> None:
    shown = printable(text)
    assert printable(shown) == shown
    assert not any(ord(letter) < 32 and letter not in "\n\t" for letter in shown)
    assert "\n" not in printable_line(text)


def test_texts_are_made_printable_wherever_they_are() -> None:
    table = Table((Row("a\x1b", ("b\x07",), {"c\x1b": 1}), Row("d")), 80)
    shown = printable_values(table)
    assert shown == Table((Row("a^[", ("b\\u0007",), {"c^[": 1}), Row("d")), 80)
    assert printable_values([Pair("\x1b", "x")]) == [Pair("^[", "x")]


def test_what_holds_no_unsafe_text_is_not_copied() -> None:
    table = Table((Row("a", ("b",), {"c": 1}),), 80)
    assert printable_values(table) is table


def test_nouns_follow_their_number() -> None:
    assert [counted(1, "device"), counted(2, "device"), counted(2, "class"), counted(3, "capacity")] == [
        "1 device",
        "2 devices",
        "2 classes",
        "3 capacities",
    ]
    assert counted(12_000, "node") == "12,000 nodes"
    assert plural("pod") == "pods"
