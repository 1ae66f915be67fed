"""The regular expressions of schemas, with RE2's syntax and its guarantee: no pattern takes more than linear time."""

from __future__ import annotations

from typing import Any

__all__ = ["compiled_pattern", "pattern_problem"]


def compiled_pattern(text: str) -> Any:
    """The compiled pattern, which has ``search``; None if it is no regular expression."""
    found = _compile(text)
    return None if isinstance(found, str) else found


def pattern_problem(text: str) -> str:
    """Why ``text`` is no regular expression, in the words of Go's ``regexp``; empty if it is one."""
    found = _compile(text)
    return found if isinstance(found, str) else ""


def _compile(text: str) -> Any:
    # RE2 is loaded with the first pattern: a server without custom resources starts faster.
    from cathedra.cel.library.regex import compile_pattern
    from cathedra.cel.values import Failure

    found = compile_pattern(text)
    return found.text if isinstance(found, Failure) else found
