"""Every demo of the examples has the result that its folder describes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cathedra.clock import run_virtual
from tests.simulation.demos import commands, play

DEMOS = Path(__file__).parents[2] / "examples" / "demos"
FOLDERS = sorted(page.parent for page in DEMOS.glob("*/README.md"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_demo_shows_what_its_folder_says(folder: Path) -> None:
    assert run_virtual(play(folder)) == (folder / "expected.txt").read_text()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_page_applies_every_manifest_of_its_folder(folder: Path) -> None:
    applied = [command.split("/")[-1] for command in commands(folder / "README.md") if "apply" in command]
    assert sorted(applied) == sorted(path.name for path in folder.glob("*.yaml"))


def test_the_index_names_every_demo() -> None:
    named = re.findall(r"^\| \[([a-z-]+)\]", (DEMOS / "README.md").read_text(), re.MULTILINE)
    assert sorted(named) == [folder.name for folder in FOLDERS]
