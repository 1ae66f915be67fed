"""The parser of patterns: limits."""

from __future__ import annotations

import pytest

from cathedra.cel.regex.syntax import PatternError, parse


def test_deep_nesting_is_refused_without_recursion() -> None:
    with pytest.raises(PatternError, match="expression nests too deeply"):
        parse("(" * 5000 + ")" * 5000)


def test_a_program_that_is_too_large_is_refused_before_it_is_made() -> None:
    with pytest.raises(PatternError, match="expression too large"):
        parse("(" + "ab" * 1000 + "){1000}")
