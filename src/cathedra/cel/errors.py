"""Errors of expressions, as data first and as text second.

An expression that is refused raises `CompileError` before any claim is allocated with it. An accepted one that fails on
a certain device raises `EvaluationError`. Both have Kubernetes' own wording, because users search for it
(docs/spec/cel.md §4.2 and §8).

    CELError
    ├── CompileError      the expression is refused (`type` is the reason in the API)
    └── EvaluationError   the expression failed on one input
        └── EvaluationAborted           in a way that ``&&`` and ``||`` cannot absorb
            ├── CostLimitExceeded   it was stopped, as it had cost too much
            └── Interrupted         it was stopped, as it had taken too long
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

_MAX_SNIPPET = 16384
_MAX_REPORTED = 100


class CELError(Exception):
    """Base of everything this package raises about an expression."""


class Issue(msgspec.Struct, frozen=True):
    """One finding of the parser, the checker or a validator.

    ``offset`` counts Unicode code points from the beginning of the expression; -1 means the expression as a whole.
    """

    offset: int
    message: str

    def position(self, source: str) -> tuple[int, int]:
        """Return line and column in ``source``, both counted from 1; (-1, 0) for the expression as a whole."""
        if self.offset < 0:
            return -1, 0
        before = source[: self.offset]
        return before.count("\n") + 1, self.offset - (before.rfind("\n") + 1) + 1


class CompileError(CELError):
    """The expression is refused.

    ``type`` is ``RuleInvalid`` (the user's mistake; the API answers Invalid) or ``InternalError``; ``text`` is the
    whole text that Kubernetes reports; ``issues`` are the single findings, empty if the text is not a report.
    """

    def __init__(self, type_: str, text: str, issues: tuple[Issue, ...] = ()) -> None:
        self.type, self.text, self.issues = type_, text, issues
        super().__init__(text)


class EvaluationError(CELError):
    """The expression failed on one input; ``text`` is Kubernetes' wording without any wrapping."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(text)


class EvaluationAborted(EvaluationError):
    """The evaluation ended at once: an error that nothing can absorb."""


class CostLimitExceeded(EvaluationAborted):
    """The evaluation was stopped because it had cost more than it may."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Interrupted(EvaluationAborted):
    """The evaluation was stopped because it had taken too long."""

    def __init__(self) -> None:
        super().__init__("operation interrupted")


def display(source: str, issues: Iterable[Issue]) -> str:
    """Return the report that users know: one ``ERROR: <input>:1:8: …`` per issue, the line, and a caret under the
    place."""
    lines = source.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    located = [(*_locate(starts, issue.offset if source else 0), issue.message) for issue in issues]
    hidden = len(located) - _MAX_REPORTED
    located = sorted(located[:_MAX_REPORTED], key=lambda item: item[:2])
    texts = [_display_one(lines, line, column, message) for line, column, message in located]
    if hidden > 0:
        texts.append(f"{hidden} more errors were truncated")
    return "\n".join(texts)


def _locate(starts: list[int], offset: int) -> tuple[int, int]:
    if offset < 0:
        return -1, -1
    line = 0
    while line + 2 < len(starts) and starts[line + 1] <= offset:
        line += 1
    return line + 1, offset - starts[line]


def _display_one(lines: list[str], line: int, column: int, message: str) -> str:
    text = f"ERROR: <input>:{line}:{column + 1}: {message}"
    if line < 1:
        return text
    if lines == [""]:
        return f"ERROR: <input>:{line}:{column}: {message}"
    snippet = lines[line - 1].replace("\t", " ")
    if len(snippet.encode("utf-8", "surrogatepass")) > _MAX_SNIPPET:
        return text
    dots = "".join("." if ord(c) < 128 else "．" for c in snippet[:column])
    at = snippet[column : column + 1]
    caret = "＾" if at and ord(at) >= 128 else "^"
    return f"{text}\n | {snippet}\n | {dots}{caret}"
