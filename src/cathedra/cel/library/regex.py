"""The functions with regular expressions (docs/spec/cel.md §6.3)."""

from __future__ import annotations

from itertools import islice
from typing import Final

from cathedra.cel.errors import CostLimitExceeded
from cathedra.cel.library.costs import SEARCHED
from cathedra.cel.library.overload import Functions, declare
from cathedra.cel.regex import PatternError, compile_with, engine_name
from cathedra.cel.values import CELValue, Failure
from cathedra.remembering import remembered

_LONGEST_REMEMBERED: Final = 1000
"""Patterns may come from objects, so users control their number and length."""
_MOST_MATCHES: Final = 1 << 19
"""More matches take seconds to collect; Kubernetes does not charge them, and continues."""


def compile_pattern(pattern: str) -> CELValue:
    """Return the compiled pattern, or a `Failure` worded as Go's regexp does."""
    return _remembered(pattern) if len(pattern) <= _LONGEST_REMEMBERED else _compile(pattern)


@remembered("cel.library.regex.remembered", size=1024)
def _remembered(pattern: str) -> CELValue:
    return _compile(pattern)


def _compile(pattern: str) -> CELValue:
    try:
        return compile_with(engine_name(), pattern)
    except PatternError as error:
        return Failure(str(error))


def matches(value: CELValue, pattern: CELValue) -> CELValue:
    """``matches``: True if the text contains a match."""
    compiled = compile_pattern(pattern)
    return compiled if isinstance(compiled, Failure) else compiled.matches(value)


def _illegal(failure: Failure) -> Failure:
    return Failure(f"Illegal regex: {failure.text}")


def find(value: CELValue, pattern: CELValue) -> CELValue:
    """Evaluate find: the first match, or empty."""
    compiled = compile_pattern(pattern)
    if isinstance(compiled, Failure):
        return _illegal(compiled)
    return next(compiled.found(value), "")


def find_all(value: CELValue, pattern: CELValue, limit: CELValue = -1) -> CELValue:
    """Evaluate findAll: all matches, or the first ``limit``."""
    compiled = compile_pattern(pattern)
    if isinstance(compiled, Failure):
        return _illegal(compiled)
    found: list[str] = []
    for text in islice(compiled.found(value), limit if limit >= 0 else None):
        found.append(text)
        if len(found) > _MOST_MATCHES:
            raise CostLimitExceeded
    return found


OVERLOADS: Final[Functions] = {
    "find": (declare("string_find_string: string., string -> string", find, SEARCHED, dear=True, pattern=True),),
    "findAll": (
        declare("string_find_all_string: string., string -> list(string)", find_all, SEARCHED, dear=True, pattern=True),
        declare(
            "string_find_all_string_int: string., string, int -> list(string)",
            find_all,
            SEARCHED,
            dear=True,
            pattern=True,
        ),
    ),
}
