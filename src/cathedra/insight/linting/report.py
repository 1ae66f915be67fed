"""Report of `lint`: the rules, and findings with their positions, as data, text and SARIF."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote

import msgspec

from cathedra import __version__
from cathedra.api.jsonvalue import JSONObject
from cathedra.insight.reading.state import Note
from cathedra.insight.rendering import API_VERSION, Style, plain, wrapped
from cathedra.printable import counted, printable_values

_IN_REPR: Final = 5
"""Findings that a report's repr names."""


class LintFinding(msgspec.Struct, frozen=True, rename="camel"):
    """One thing that is wrong, and where."""

    rule: str
    level: Level
    message: str
    file: str
    line: int
    """Line in the file, counted from 1."""
    column: int
    """Of the first character, counted from 1."""
    length: int = 1
    """Characters on that line that it concerns."""
    object: str = ""
    """«kind/name» or «kind/namespace/name» of the object; "" where there is none."""
    path: str = ""
    """The field, as ``spec.devices.requests[0].exactly``."""
    hint: str = ""
    """The correct text, if it is known."""
    source: str = ""
    """The line of the file."""


class LintReport(msgspec.Struct, frozen=True, rename="camel"):
    """All findings, in the order of files and lines."""

    findings: tuple[LintFinding, ...]
    files: int = 0
    objects: int = 0
    """Number of checked objects; objects of other kinds are skipped."""
    allowed: int = 0
    """Findings that comments allow."""
    notes: tuple[Note, ...] = ()

    def __repr__(self) -> str:
        found = [f"{one.file}:{one.line}: {one.rule}" for one in self.findings[:_IN_REPR]]
        more = f", {len(self.findings) - _IN_REPR} more" if len(self.findings) > _IN_REPR else ""
        return f"LintReport({found!r}{more}, objects={self.objects})"

    @property
    def clean(self) -> bool:
        """True if there is no finding."""
        return not self.findings

    def fails(self, level: FailOn = "error") -> bool:
        """Return True if there is a finding of ``level``, or a worse one; never for «never»."""
        if level == "never":
            return False
        return any(one.level == "error" or level == "warning" for one in self.findings)

    def to_dict(self) -> JSONObject:
        """Return the answer as plain values."""
        found: JSONObject = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "LintReport", **found, "clean": self.clean}


Level = Literal["error", "warning"]
FailOn = Literal["error", "warning", "never"]


class Rule(NamedTuple):
    """A rule: errors are refused by the server or fail for certain, warnings may be meant."""

    name: str
    level: Level
    summary: str


_ALL: Final = (
    Rule("broken-yaml", "error", "the document cannot be read"),
    Rule("unknown-field", "error", "a field that the version does not have, or has twice"),
    Rule("wrong-type", "error", "a value of the wrong type"),
    Rule("unknown-version", "error", "an API version that the release does not have"),
    Rule("invalid-object", "error", "the API server refuses the object"),
    Rule("all-with-count", "error", "allocationMode All together with a count"),
    Rule("cel-error", "error", "an expression that does not compile"),
    Rule("cel-cost", "warning", "an expression whose estimated cost is near the limit"),
    Rule("quantity-as-literal", "error", "a capacity compared with a text or a number"),
    Rule("attribute-as-quantity", "error", "an attribute used as if it were a capacity"),
    Rule("field-of-value", "error", "a field of an attribute or capacity, which is a plain value"),
    Rule("failing-literal", "error", "a literal that the function around it refuses"),
    Rule("deprecated-version", "warning", "an API version that a later release takes away"),
    Rule("server-warning", "warning", "the API server accepts the object with a warning"),
    Rule("dropped-field", "warning", "a field that the release drops without a word"),
    Rule("unguarded-attribute", "warning", "an attribute that is read without a test for its presence"),
    Rule("unqualified-name", "warning", "an attribute or domain that is not named in full"),
    Rule("version-as-string", "warning", "a version compared as a text"),
    Rule("never-true", "warning", "conditions that exclude each other"),
    Rule("unused-claim", "warning", "a claim of a pod that no container uses"),
    Rule("unused-request", "warning", "a request of a claim that no container uses"),
    Rule("unknown-request", "error", "a container names a request that the claim does not have"),
    Rule("unusable-preference", "warning", "preferred constraints of a claim that are ignored"),
    Rule("small-group", "warning", "a gang with fewer pods than it needs"),
    Rule("incomplete-pool", "warning", "a pool with fewer slices than resourceSliceCount"),
    Rule("duplicate-device", "error", "a device name that a pool has twice"),
    Rule("several-node-terms", "error", "a device whose node selector has more than one term"),
    Rule("unused-counters", "warning", "a counter set or counter that no device consumes"),
    Rule("unknown-counters", "error", "a device consumes a counter that its pool does not have"),
    Rule("exceeding-counters", "error", "a device consumes more of a counter than there is"),
    Rule("taints-everything", "warning", "a taint rule without a selection of devices"),
    Rule("unknown-class", "warning", "a device class that is not there"),
    Rule("unknown-claim", "warning", "a pod names a claim or template that is not there"),
    Rule("unknown-group", "warning", "a pod or group names a group that is not there"),
    Rule("unknown-attribute", "warning", "an attribute or capacity that no device has"),
    Rule("wrong-attribute-type", "warning", "an attribute compared with a value of another type"),
    Rule("failing-selector", "warning", "a selector that fails on some device"),
    Rule("matches-nothing", "warning", "selectors that match no device"),
    Rule("unknown-rule", "warning", "a comment allows a rule that does not exist"),
)
RULES: Final = {rule.name: rule for rule in _ALL}


# --- SARIF


_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(report: LintReport) -> JSONObject:
    """Return a log with one run."""
    names = list(RULES)
    rules: list[Any] = [
        {
            "id": rule.name,
            "shortDescription": {"text": rule.summary},
            "defaultConfiguration": {"level": rule.level},
        }
        for rule in RULES.values()
    ]
    driver: JSONObject = {
        "name": "kubectl-dra-lint",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": rules,
    }
    results = [_result(one, names.index(one.rule)) for one in report.findings]
    run: JSONObject = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [*results]}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(one: LintFinding, index: int) -> JSONObject:
    text = f"{one.message}\nhint: {one.hint}" if one.hint else one.message
    region: JSONObject = {
        "startLine": one.line,
        "startColumn": one.column,
        "endColumn": one.column + one.length,
        "snippet": {"text": one.source},
    }
    place: JSONObject = {"artifactLocation": {"uri": _uri(one.file)}, "region": region}
    location: JSONObject = {"physicalLocation": place}
    if one.object:
        location["logicalLocations"] = [{"fullyQualifiedName": f"{one.object}:{one.path}", "kind": "object"}]
    return {
        "ruleId": one.rule,
        "ruleIndex": index,
        "level": one.level,
        "message": {"text": text},
        "locations": [location],
    }


def _uri(file: str) -> str:
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


# --- text


_INDENT: Final = "    "
_MARGIN: Final = 12
"""Characters that are left in front of the place where a long line is cut."""


def lint_text(report: LintReport, width: int = 100, style: Style = plain) -> str:
    """Return all findings, and how many there are."""
    report = printable_values(report)
    lines = [line for one in report.findings for line in _finding(one, width, style)]
    for note in report.notes:
        lines += wrapped(f"! {note.text}", width, "", "  ")
    return "\n".join(line.rstrip() for line in [*lines, _summary(report, style)])


def _finding(one: LintFinding, width: int, style: Style) -> Iterator[str]:
    place = f"{one.file}:{one.line}:{one.column}:"
    lines = list(wrapped(f"{place} {one.level}: {one.message} [{one.rule}]", width, "", _INDENT))
    head = lines[0].removeprefix(place)
    shown = head.replace(f" {one.level}:", f" {style(f'{one.level}:', 'bad' if one.level == 'error' else 'title')}", 1)
    yield f"{style(place, 'title')}{shown}" if lines[0].startswith(place) else lines[0]
    yield from lines[1:]
    if one.source.strip():
        source, column, length = _cut(one, width - len(_INDENT))
        yield _INDENT + source
        yield _INDENT + " " * column + style("^" * length, "good")
    if one.hint:
        yield from wrapped(f"hint: {one.hint}", width, _INDENT, _INDENT + "  ")


def _cut(one: LintFinding, width: int) -> tuple[str, int, int]:
    """Return the line without what does not fit beside the place, and the column and length of the place in it."""
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
    if not report.objects and report.clean:
        return f"{where}: {style('nothing was checked', 'bad')}{allowed}"
    if report.clean:
        return f"{where}: {style('no findings', 'good')}{allowed}"
    return f"{where}: {counted(errors, 'error')}, {counted(warnings, 'warning')}{allowed}"
