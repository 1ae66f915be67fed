"""The units of systemd call commands that exist, with options that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cathedra.cli.main import _parser

UNITS = sorted((Path(__file__).parents[2] / "examples" / "systemd").glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_what_a_unit_starts_is_a_command_of_ours(unit: Path) -> None:
    (line,) = re.findall(r"^ExecStart=((?:.*\\\n)*.*)$", unit.read_text(), re.MULTILINE)
    program, *words = shlex.split(line.replace("\\\n", " "))
    assert program == "/usr/local/bin/cathedra"
    assert _parser(words).parse_args(words).part in unit.name


def test_there_is_one_for_each_part() -> None:
    assert len(UNITS) == 5


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_part_that_ends_is_started_again_however_often(unit: Path) -> None:
    """A scheduler or controller manager that loses its lease ends, as Kubernetes' do."""
    lines = unit.read_text().splitlines()
    assert "Restart=on-failure" in lines
    assert "StartLimitIntervalSec=0" in lines
