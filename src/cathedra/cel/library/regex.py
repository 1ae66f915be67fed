"""Regular expressions with RE2's semantics, by RE2 itself (docs/spec/cel.md §6.3)."""

from __future__ import annotations

from typing import Final

from cathedra.cel.errors import CostLimitExceeded
from cathedra.cel.library.costs import SEARCHED
from cathedra.cel.library.overload import Functions, declare
from cathedra.cel.values import CELValue, Failure
from cathedra.remembering import remembered

_REWRITES: Final = (
    ("missing argument to repetition operator", "missing argument to repetition operator"),
    ("no argument for repetition operator", "missing argument to repetition operator"),
    ("bad repetition operator", "invalid nested repetition operator"),
    ("invalid repetition size", "invalid repeat count"),
    ("invalid perl operator", "invalid or unsupported Perl syntax"),
    ("missing )", "missing closing )"),
    ("unexpected )", "unexpected )"),
    ("missing ]", "missing closing ]"),
    ("invalid character class range", "invalid character class range"),
    ("trailing \\", "trailing backslash at end of expression"),
    ("invalid escape sequence", "invalid escape sequence"),
    ("invalid named capture group", "invalid named capture"),
)

_LONGEST_REMEMBERED: Final = 1000
"""Patterns may come from objects, so their number and length are the users'."""
_MOST_MATCHES: Final = 1 << 19
"""More matches take seconds to collect; Kubernetes counts nothing for them, and goes on."""


def compile_pattern(pattern: str) -> CELValue:
    """The compiled pattern, or a `Failure` worded as Go's regexp does."""
    return _remembered(pattern) if len(pattern) <= _LONGEST_REMEMBERED else _compile(pattern)


@remembered("cel.library.regex.remembered", size=1024)
def _remembered(pattern: str) -> CELValue:
    return _compile(pattern)


def _compile(pattern: str) -> CELValue:
    # start-up time: few expressions have patterns
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        return Failure(_worded(error, pattern))
    except UnicodeEncodeError:
        return Failure("error parsing regexp: invalid UTF-8: ``")


def _worded(error: Exception, pattern: str) -> str:
    detail = error.args[0] if error.args else ""
    text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
    kind, _, argument = text.partition(": ")
    for theirs, ours in _REWRITES:
        if kind == theirs:
            kind = ours
            break
    if kind in ("missing closing )", "unexpected )"):
        argument = pattern
    return f"error parsing regexp: {kind}: `{argument}`" if argument else f"error parsing regexp: {kind}"


def matches(value: CELValue, pattern: CELValue) -> CELValue:
    """matches: whether the pattern is found somewhere."""
    compiled = compile_pattern(pattern)
    return compiled if isinstance(compiled, Failure) else compiled.search(value) is not None


def _illegal(failure: Failure) -> Failure:
    return Failure(f"Illegal regex: {failure.text}")


def find(value: CELValue, pattern: CELValue) -> CELValue:
    """find: the first match, or empty."""
    compiled = compile_pattern(pattern)
    if isinstance(compiled, Failure):
        return _illegal(compiled)
    match = compiled.search(value)
    return match.group(0) if match is not None else ""


def find_all(value: CELValue, pattern: CELValue, limit: CELValue = -1) -> CELValue:
    """findAll: all matches, or the first ``limit``."""
    compiled = compile_pattern(pattern)
    if isinstance(compiled, Failure):
        return _illegal(compiled)
    # In bytes, since RE2 would encode a text again for each search.
    encoded = value.encode("utf-8", "surrogatepass")
    found: list[str] = []
    position, last_end = 0, -1
    while position <= len(encoded) and (limit < 0 or len(found) < limit):
        match = compiled.search(encoded, position)
        if match is None:
            break
        start, end = match.span()
        if start != end or start != last_end:  # an empty match right after a match does not count
            found.append(encoded[start:end].decode("utf-8", "surrogatepass"))
            if len(found) > _MOST_MATCHES:
                raise CostLimitExceeded
        last_end = end
        position = end if end > position else _next_character(encoded, position)
    return found


def _next_character(encoded: bytes, position: int) -> int:
    position += 1
    while position < len(encoded) and encoded[position] & 0xC0 == 0x80:
        position += 1
    return position


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
