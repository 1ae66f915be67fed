"""Differences, the deviations that are declared, and the report."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

__all__ = ["DECLARED", "Declared", "Difference", "Report", "read_declared", "written"]

DECLARED = Path(__file__).parent / "declared.toml"


@dataclass(frozen=True, order=True)
class Difference:
    """One difference between Kubernetes and Cathedra."""

    subject: str
    """As ``gates`` or ``fields``."""
    name: str
    """A difference: a gate, a kind, a field, a text."""
    theirs: str
    ours: str
    file: str
    """The file of Kubernetes that shows it."""


@dataclass(frozen=True)
class Declared:
    """A deliberate deviation: differences of a subject whose names match a pattern."""

    subject: str
    names: tuple[str, ...]
    """Patterns as those of a shell; ``*`` matches everything."""
    reason: str
    releases: tuple[str, ...] = ()
    """Empty: every release."""

    def covers(self, difference: Difference, release: str) -> bool:
        """Return True if the difference is this deviation."""
        if self.subject != difference.subject or (self.releases and release not in self.releases):
            return False
        return any(fnmatchcase(difference.name, pattern) for pattern in self.names)


@dataclass
class Report:
    """The differences of one release."""

    release: str
    open: list[Difference] = field(default_factory=list)
    declared: Counter[str] = field(default_factory=Counter)
    """Reason → how many differences it covers."""
    missing: list[str] = field(default_factory=list)
    """Subjects that were not compared, with the file that the source lacks."""

    def add(self, differences: Iterable[Difference], declared: Iterable[Declared]) -> None:
        """Sort differences into open ones and declared ones."""
        rows = list(declared)
        for difference in differences:
            row = next((one for one in rows if one.covers(difference, self.release)), None)
            if row is None:
                self.open.append(difference)
            else:
                self.declared[row.reason] += 1


def read_declared(path: Path = DECLARED) -> list[Declared]:
    """Return the declared deviations.

    Raises:
        KeyError: an entry lacks its subject, its names or its reason.
    """
    return [
        Declared(one["subject"], tuple(one["names"]), one["reason"], tuple(one.get("releases", ())))
        for one in tomllib.loads(path.read_text()).get("deviation", ())
    ]


def written(report: Report, *, names_declared: bool = False) -> str:
    """Return the report as text: open differences by file, then what is declared and what was not compared."""
    lines: list[str] = []
    file = ""
    for difference in sorted(report.open, key=lambda one: (one.subject, one.file, one.name)):
        if difference.file != file:
            file = difference.file
            lines.append(f"{difference.subject}: {file}")
        lines.append(f"  {difference.name}: Kubernetes {difference.theirs}; Cathedra {difference.ours}")
    lines += [f"not compared: {missing}" for missing in report.missing]
    total = sum(report.declared.values())
    lines.append(f"{len(report.open)} differences to Kubernetes {report.release}, {total} declared deviations")
    if names_declared:
        lines += [f"  {count} × {reason}" for reason, count in report.declared.most_common()]
    return "\n".join(lines)
