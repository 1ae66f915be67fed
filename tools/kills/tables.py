"""The tables of kills and shortages as Markdown, and their place in docs/reliability.md."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = ["PAGE", "Cell", "Shortage", "kill_table", "shortage_table", "write_table", "written_table"]

PAGE: Final = Path(__file__).parents[2] / "docs" / "reliability.md"
LONGEST: Final = 260
"""Characters of a reported line that the table shows."""
CHANGING: Final = (
    (re.compile(r"^\S+ +(?:ERROR|WARNING|INFO) +\S+ +"), ""),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}"), "UID"),
    (re.compile(r"\b127\.0\.0\.1:\d+"), "ADDRESS"),
)
"""Texts that differ between two runs: heads of log lines, identifiers, and ports."""


@dataclass
class Cell:
    """Outcome of the kills at one point."""

    point: str
    kills: int = 0
    missed: int = 0
    """Times that the point was not reached."""
    slowest: float = 0.0
    """Seconds from the mark until everything was as it must be."""
    violations: list[str] = field(default_factory=list)

    @property
    def part(self) -> str:
        """The part that dies."""
        return self.point.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Shortage:
    """Outcome of one scenario of a shortage."""

    name: str
    line: str = ""
    """The line that was reported."""
    next_pod: float = 0.0
    """Seconds that the pod after the shortage took, from its creation until its claims were freed."""
    violation: str = ""


def kill_table(cells: Iterable[Cell]) -> str:
    """Return the kills by part."""
    by_part: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        if cell.kills:
            by_part[cell.part].append(cell)
    rows = ["| process | fault points | kills | slowest recovery | violations |", "|---|---|---|---|---|"]
    for part, found in sorted(by_part.items()):
        kills, slowest = sum(one.kills for one in found), max(one.slowest for one in found)
        wrong = sum(len(one.violations) for one in found)
        rows.append(f"| {part} | {len(found)} | {kills} | {slowest:.1f} s | {wrong} |")
    return "\n".join(rows)


def shortage_table(found: Iterable[Shortage], folder: Path) -> str:
    """Return a row for each scenario. Paths in ``folder`` are shown without it."""
    rows = ["| what is missing or damaged | what is reported | next pod | violations |", "|---|---|---|---|"]
    for one in found:
        text = _shown(one.line, folder)
        rows.append(f"| {one.name} | {text} | {one.next_pod:.1f} s | {1 if one.violation else 0} |")
    return "\n".join(rows)


def _shown(line: str, folder: Path) -> str:
    text = line.replace(f"{folder}/", "…/")
    for pattern, instead in CHANGING:
        text = pattern.sub(instead, text)
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}…"
    text = text.replace("|", "\\|")
    return text if text.startswith("nothing") else f"`{text}`"


def write_table(name: str, text: str, page: Path = PAGE) -> None:
    """Put a table between the comments of that name on the page."""
    before, begin, rest = page.read_text().partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    page.write_text(f"{before}{begin}{text}\n{end}{after}")


def written_table(name: str, page: Path = PAGE) -> list[str]:
    """Return the first column of the table of that name on the page."""
    text = page.read_text().partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0]
    return [row.split(" | ")[0].removeprefix("| ") for row in text.splitlines()[2:]]
