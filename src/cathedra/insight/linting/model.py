"""The answer of `lint`: findings, each with its place."""

from __future__ import annotations

import msgspec

from cathedra.api.jsonvalue import JSONObject
from cathedra.insight.explanation.model import API_VERSION
from cathedra.insight.linting.rules import Level
from cathedra.insight.reading.state import Note

__all__ = ["LintFinding", "LintReport"]


class LintFinding(msgspec.Struct, frozen=True, rename="camel"):
    """One thing that is wrong, and where."""

    rule: str
    level: Level
    message: str
    file: str
    line: int
    """Counted from 1."""
    column: int
    """Of the first character, counted from 1."""
    length: int = 1
    """Characters on that line that it concerns."""
    object: str = ""
    """«kind/name» or «kind/namespace/name» of the object; "" where there is none."""
    path: str = ""
    """The field, as ``spec.devices.requests[0].exactly``."""
    hint: str = ""
    """What to write instead, where that is known."""
    source: str = ""
    """The line of the file."""


class LintReport(msgspec.Struct, frozen=True, rename="camel"):
    """All findings, in the order of files and lines."""

    findings: tuple[LintFinding, ...]
    files: int = 0
    objects: int = 0
    """Objects that were looked at; kinds that are not known are passed over."""
    allowed: int = 0
    """Findings that comments allow."""
    notes: tuple[Note, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether there is no finding."""
        return not self.findings

    def to_dict(self) -> JSONObject:
        """The answer as plain values."""
        found: JSONObject = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "LintReport", **found, "clean": self.clean}
