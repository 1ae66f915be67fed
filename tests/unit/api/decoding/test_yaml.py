"""YAML is decoded to the values of Kubernetes' YAML library, within a budget."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.decoding import DecodeError, read_yaml, read_yaml_documents, write_yaml
from cathedra.api.nesting import MAX_DEPTH
from tests.costs import costs_less_than

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(codec="ascii"), max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abyn01~.", max_size=5), inner, max_size=4),
)


@given(PLAIN)
def test_what_python_wrote_is_read_back(value: Any) -> None:
    text = yaml.safe_dump(value, default_style='"')
    assert read_yaml(text).value == value


ODD = st.sampled_from(
    ("y", "N", "1e3", "0o17", "0x1", "1_0", "1:30", ".5", "+1", "~", "<<", "null", "2024-01-01", "08")
)


@given(st.dictionaries(ODD | st.text(max_size=5), ODD | st.text(max_size=5) | st.integers(-9, 9) | st.booleans()))
def test_what_is_written_is_read_back_whatever_it_looks_like(value: Any) -> None:
    assert read_yaml(write_yaml(value)).value == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("y", True),
        ("No", False),
        ("~", None),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("017", 15),
        ("0o17", 15),
        ("0x1F", 31),
        ("-0b11", -3),
        ("1_000", 1000),
        ("08", 8),
        ("1.0", 1),
        ("1e3", 1000),
        (".5", 0.5),
        ("1e999", "1e999"),
        ("18446744073709551615", 2**64 - 1),
        ("99999999999999999999", 10**20),
        ("9" * 5000, "9" * 5000),
        ("'017'", "017"),
        ("!!str 1", "1"),
        ("!!float 1", 1),
        ("!!binary aGk=", "hi"),
        ("!thing 1", "1"),
        ("", None),
        ("- a\n---\n- b", ["a"]),
    ],
)
def test_scalars_are_resolved_by_the_rules_of_gos_library(text: str, value: Any) -> None:
    assert read_yaml(text).value == value


def test_keys_become_texts() -> None:
    assert read_yaml("1: a\ntrue: b\n1.5: c\n017: d").value == {"1": "a", "true": "b", "1.5": "c", "15": "d"}


def test_merge_keys_take_over_what_the_map_has_not_said_later() -> None:
    text = "a: &x {b: 1, c: 1}\nd:\n  <<: *x\n  b: 2\ne:\n  <<: [*x, {b: 3, f: 4}]\n"
    found = read_yaml(text).value
    assert found["d"] == {"b": 2, "c": 1}
    assert found["e"] == {"b": 1, "c": 1, "f": 4}


def test_aliases_repeat_a_value_without_sharing_it() -> None:
    found = read_yaml("a: &x {b: [1]}\nc: *x\n").value
    assert found == {"a": {"b": [1]}, "c": {"b": [1]}}
    assert found["a"] is not found["c"]


def test_keys_said_twice_are_told_with_the_line_of_their_value() -> None:
    assert read_yaml("a: 1\nb:\n  c: 1\n  c: 2\n").repeated == ('line 4: key "c" already set in map',)


def test_every_document_of_a_text_is_read() -> None:
    assert [document.value for document in read_yaml_documents("a: 1\n---\nb: 2\n--- # nothing\n")] == [
        {"a": 1},
        {"b": 2},
        None,
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [1", "yaml: line 1: did not find expected ',' or ']'"),
        ("a: [", "yaml: line 1: did not find expected node content"),
        ("a: &a [*a]", "yaml: anchor 'a' value contains itself"),
        ("a: *b", "yaml: unknown anchor 'b' referenced"),
        ("null: 1", "Unsupported map key of type: %!s(<nil>), key: <nil>, value: 1"),
        ("? [a]\n: b", "yaml: invalid map key"),
        ("a: .inf", "json: unsupported value: +Inf"),
        ("a: !!int x", "yaml: cannot decode !!str `x` as a !!int"),
        ("a: !!binary '*'", "yaml: !!binary value contains invalid base64 data"),
        ("<<: 1", "yaml: map merge requires map or sequence of maps as the value"),
        ("- \x01", "yaml: control characters are not allowed"),
        ("[" * 60_000, f"yaml: exceeded max depth of {MAX_DEPTH}"),
        ("a:\n  " + "[" * 60_000, f"yaml: exceeded max depth of {MAX_DEPTH}"),
        ("- " * 60_000, f"yaml: exceeded max depth of {MAX_DEPTH}"),
        ("? " * 60_000, f"yaml: exceeded max depth of {MAX_DEPTH}"),
    ],
)
def test_what_json_cannot_say_is_refused_in_the_librarys_words(text: str, problem: str) -> None:
    with pytest.raises(DecodeError) as refusal:
        read_yaml(text)
    assert str(refusal.value).startswith(problem)


def laughs(levels: int, each: int) -> str:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * each)}]" for level in range(1, levels)]
    return "\n".join(rows)


def merges(rows: int) -> str:
    keys = ", ".join(f"k{number}: v" for number in range(100))
    return f"a: &a {{{keys}}}\n" + "".join(f"m{row}:\n  <<: [*a, *a, *a, *a]\n" for row in range(rows))


BOMBS = {
    "nested aliases": laughs(9, 9),
    "many aliases": "a: &a [x]\nb: [" + "*a," * 700_000 + "]",
    "merge keys": merges(60_000),
    "a long text repeated": "a: &a " + "x" * 1_500_000 + "\nb: [" + "*a," * 300_000 + "]",
    "many nodes": "[" + "1," * 1_500_000 + "]",
    "many keys": "".join(f"k{number}: 1\n" for number in range(250_000)) + "z: [",
    "one key very often": "a: 1\n" * 390_000 + "z: [",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_within_two_seconds(name: str) -> None:
    with costs_less_than(2.0), pytest.raises(DecodeError, match="yaml: "):
        read_yaml(BOMBS[name])
