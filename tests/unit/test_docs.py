"""The pages that name files name files that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = (ROOT, ROOT / "src" / "cathedra")
RECORDS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|toml|json))`")


@pytest.mark.parametrize("page", ["architecture.md", "where.md"])
def test_every_path_on_the_page_exists(page: str) -> None:
    named = PATH.findall((ROOT / "docs" / page).read_text())
    assert len(named) > 30
    beside = {"resource.k8s.io/v1", "defaults.py", "disabled_fields.py", "conversion.py"}
    missing = [path for path in named if path not in beside and not any((place / path).exists() for place in PLACES)]
    assert not missing


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_every_path_in_a_decision_exists(record: Path) -> None:
    named = [path for path in PATH.findall(record.read_text()) if path != "resource.k8s.io/v1"]
    assert not [path for path in named if not any((place / path).exists() for place in PLACES)]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_decision_has_context_decision_and_consequences(record: Path) -> None:
    lines = record.read_text().splitlines()
    assert lines[0].startswith(f"# {record.name[:4]}: ")
    assert [line for line in lines if line.startswith("## ")] == ["## Context", "## Decision", "## Consequences"]
    assert len(lines) <= 40


def test_the_index_lists_every_decision() -> None:
    index = (ROOT / "docs" / "decisions" / "index.md").read_text()
    assert re.findall(r"\]\((\d{4}-[a-z-]+\.md)\)", index) == [record.name for record in RECORDS]


def test_every_package_is_on_the_page() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    packages = {path.name for path in PLACES[1].iterdir() if (path / "__init__.py").exists() and path.name[0] != "_"}
    assert not {name for name in packages if f"`{name}`" not in page}
