"""The page on driver scenarios names every scenario of the specification, and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/driver-scenarios.md").read_text()
ROW = re.compile(r"^\| ([A-P]\d+) \| [^|]+ \| (?:`([^`]+)::(\w+)`|–) \|$", re.MULTILINE)
RANGE = re.compile(r"^\* ([A-P])(\d+)(?:[–-]([A-P])?(\d+))?:", re.MULTILINE)


def specified() -> set[str]:
    """The scenarios of the specification; some stand as a range."""
    text = (ROOT / "docs/spec/driver-sdk.md").read_text().partition("## 20. Acceptance scenarios")[2]
    text = text.partition("\n## 21.")[0]
    return {
        f"{group}{number}"
        for group, first, _, last in RANGE.findall(text)
        for number in range(int(first), int(last or first) + 1)
    }


def test_every_scenario_has_a_row() -> None:
    assert {name for name, _, _ in ROW.findall(PAGE)} == specified()


def test_every_test_on_the_page_exists() -> None:
    missing = [
        f"{path}::{test}"
        for _, path, test in ROW.findall(PAGE)
        if path and f"def {test}(" not in (ROOT / path).read_text()
    ]
    assert missing == []


def test_the_page_counts_right() -> None:
    rows = ROW.findall(PAGE)
    assert f"{sum(bool(path) for _, path, _ in rows)} of {len(rows)} have a test." in PAGE
