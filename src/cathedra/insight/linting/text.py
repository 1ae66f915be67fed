"""Findings as people read them: the place first, as compilers write it, then the line with the place marked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cathedra.insight.explanation.funnels import counted
from cathedra.insight.explanation.text import Style, filled, plain
from cathedra.insight.linting.model import LintFinding, LintReport
from cathedra.printable import printable_values

__all__ = ["lint_text"]

_INDENT: Final = "    "
_MARGIN: Final = 12
"""Characters that are left in front of the place where a long line is cut."""


def lint_text(report: LintReport, width: int = 100, style: Style = plain) -> str:
    """All findings, and how many there are."""
    report = printable_values(report)
    lines = [line for one in report.findings for line in _finding(one, width, style)]
    for note in report.notes:
        lines += filled(f"! {note.text}", width, "", "  ")
    return "\n".join(line.rstrip() for line in [*lines, _summary(report, style)])


def _finding(one: LintFinding, width: int, style: Style) -> Iterator[str]:
    place = f"{one.file}:{one.line}:{one.column}:"
    lines = list(filled(f"{place} {one.level}: {one.message} [{one.rule}]", width, "", _INDENT))
    head = lines[0].removeprefix(place)
    shown = head.replace(f" {one.level}:", f" {style(f'{one.level}:', 'bad' if one.level == 'error' else 'title')}", 1)
    yield f"{style(place, 'title')}{shown}" if lines[0].startswith(place) else lines[0]
    yield from lines[1:]
    if one.source.strip():
        source, column, length = _cut(one, width - len(_INDENT))
        yield _INDENT + source
        yield _INDENT + " " * column + style("^" * length, "good")
    if one.hint:
        yield from filled(f"hint: {one.hint}", width, _INDENT, _INDENT + "  ")


def _cut(one: LintFinding, width: int) -> tuple[str, int, int]:
    """The line without what does not fit beside the place, and the place in it."""
    source, column = one.source.expandtabs(1), one.column - 1
    spare = len(source) - len(source.lstrip())
    spare = min(spare, column)
    source, column = source[spare:], column - spare
    if len(source) > width and column + min(one.length, width // 2) > width:
        begin = max(column - _MARGIN, 0)
        source, column = f"…{source[begin + 1 :]}", column - begin
    if len(source) > width:
        source = f"{source[: width - 1]}…"
    return source, column, max(min(one.length, width - column), 1)


def _summary(report: LintReport, style: Style) -> str:
    errors = sum(one.level == "error" for one in report.findings)
    warnings = len(report.findings) - errors
    where = f"{counted(report.objects, 'object')} in {counted(report.files, 'file')}"
    allowed = f", {report.allowed} allowed by comments" if report.allowed else ""
    if report.clean:
        return f"{where}: {style('no findings', 'good')}{allowed}"
    return f"{where}: {counted(errors, 'error')}, {counted(warnings, 'warning')}{allowed}"
