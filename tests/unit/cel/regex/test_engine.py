"""Regular expressions: all engines give the same answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.cel.regex import PatternError, compile_with
from cathedra.cel.regex.engine import EngineMissing, engine_name, installed_engines
from tests.unit.cel.regex.engines import EACH_ENGINE

_ATOMS = (
    *"abké.^$()|*+?", "[a-c]", "[^a]", r"\d", r"\W", r"\pL", r"\PN", r"\p{Greek}", "(?i)", "(?i:k)", "(?s:.)", "(?m:^)",
    "(?m:$)", r"\b", r"\B", r"\z", r"\A", "*?", "{2}", "{1,3}", "{0,2}?", "{,2}", "{3", "(?:", "(?P<n>", "[[:alpha:]]",
    r"\x{e9}", r"\Q*\E", "(?U)", r"[\d-z]", "(?i)[^k]", r"[^\s]", r"\C", "(?=",
)  # fmt: skip


def _answers(engine: str, pattern: str, text: str) -> object:
    try:
        compiled = compile_with(engine, pattern)
    except PatternError as error:
        return str(error)
    return compiled.matches(text), list(compiled.found(text))


@given(st.lists(st.sampled_from(_ATOMS), max_size=7).map("".join), st.text("abkKsſKéÉ1 \n_αΑ-*", max_size=8))
def test_all_engines_agree(pattern: str, text: str) -> None:
    assert len({repr(_answers(engine, pattern, text)) for engine in installed_engines()}) == 1


@EACH_ENGINE
@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("", "ab", ["", "", ""]),
        ("a*", "baac", ["", "aa", ""]),
        ("a|ab", "abab", ["a", "a"]),
        ("(|a)*", "aa", ["", "", ""]),
        ("(|a)+", "aa", ["", "", ""]),
        ("a+?", "aa", ["a", "a"]),
        ("(?U)a+", "aa", ["a", "a"]),
        ("^a", "aa", ["a"]),
        ("(?m)^a$", "a\nb\na", ["a", "a"]),
        ("a$", "a\n", []),
        (".", "é\n", ["é"]),
        ("[^a]", "\n", ["\n"]),
        (r"\d", "٣", []),
        (r"\pN", "٣", ["٣"]),
        (r"\w+", "éa_1", ["a_1"]),
        (r"(?i)\w", "ſK", ["ſ", "K"]),
        ("(?i)k", "kKK", ["k", "K", "K"]),
        (r"\bé", "aé", ["é"]),
        (r"\B", "é", ["", ""]),
        (r"\p{Han}\P{Han}", "漢a", ["漢a"]),
        (r"\p{^Greek}", "αa", ["a"]),
        ("a{,2}", "a{,2}", ["a{,2}"]),
        ("a{2,3}", "aaaaa", ["aaa", "aa"]),
        ("(?P<x>a)(?<y>b)", "ab", ["ab"]),
        (r"\x{1F600}\n\t\101", "\U0001f600\n\tA", ["\U0001f600\n\tA"]),
        (r"\Qa.b\E+", "a.bb", ["a.bb"]),
        ("[]a-]+", "]a-", ["]a-"]),
        ("[[:^alpha:][:word:]]+", "é_", ["é_"]),
        ("x{1000}", "x" * 1001, ["x" * 1000]),
    ],
)
def test_a_pattern_finds_what_it_finds_in_go(engine: str, pattern: str, text: str, found: list[str]) -> None:
    compiled = compile_with(engine, pattern)
    assert list(compiled.found(text)) == found
    assert compiled.matches(text) is bool(found)


@EACH_ENGINE
@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("a**", "invalid nested repetition operator: `**`"),
        ("a++", "invalid nested repetition operator: `++`"),
        ("|*", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(a{100}){100}", "invalid repeat count: `{100}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<!a)", "invalid named capture: `(?<!a)`"),
        ("(?P<a-b>x)", "invalid named capture: `(?P<a-b>`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
        (r"\p{Nothing}", r"invalid character class range: `\p{Nothing}`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[[:nothing:]]", "invalid character class range: `[:nothing:]`"),
        ("b[a", "missing closing ]: `[a`"),
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        ("\ud800", "invalid UTF-8: ``"),
    ],
)
def test_a_pattern_that_go_refuses_is_refused_in_its_words(engine: str, pattern: str, problem: str) -> None:
    with pytest.raises(PatternError) as refused:
        compile_with(engine, pattern)
    assert str(refused.value) == f"error parsing regexp: {problem}"


def test_an_engine_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATHEDRA_REGEX", "perl")
    engine_name.cache_clear()
    try:
        with pytest.raises(EngineMissing, match=r"CATHEDRA_REGEX=perl: installed engines are .*python"):
            engine_name()
    finally:
        engine_name.cache_clear()
