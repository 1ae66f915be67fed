"""The pages that name files name files that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = (ROOT, ROOT / "src" / "cathedra")
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|toml|json))`")


@pytest.mark.parametrize("page", ["architecture.md", "where.md"])
def test_every_path_on_the_page_exists(page: str) -> None:
    named = PATH.findall((ROOT / "docs" / page).read_text())
    assert len(named) > 30
    beside = {"resource.k8s.io/v1", "defaults.py", "disabled_fields.py", "conversion.py"}
    missing = [path for path in named if path not in beside and not any((place / path).exists() for place in PLACES)]
    assert not missing


def test_every_package_is_on_the_page() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    packages = {path.name for path in PLACES[1].iterdir() if (path / "__init__.py").exists() and path.name[0] != "_"}
    assert not {name for name in packages if f"`{name}`" not in page}
