"""Patterns of schemas."""

from __future__ import annotations

import pytest

from cathedra.apiserver.custom.patterns import compiled_pattern, pattern_problem


def test_a_pattern_is_searched_for() -> None:
    assert compiled_pattern("^x").matches("xy")
    assert not compiled_pattern("^x").matches("ax")
    assert pattern_problem("^x") == ""


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("+", "error parsing regexp: missing argument to repetition operator: `+`"),
        (r"(a)\1", r"error parsing regexp: invalid escape sequence: `\1`"),
        ("(?=a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
    ],
)
def test_what_re2_does_not_know_is_refused_in_the_words_of_go(pattern: str, problem: str) -> None:
    assert compiled_pattern(pattern) is None
    assert pattern_problem(pattern) == problem
