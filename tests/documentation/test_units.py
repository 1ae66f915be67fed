"""The units of systemd call commands that exist, with options that exist."""

from __future__ import annotations

import inspect
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from cathedra.cli.main import _parser
from tests.requirements import program

SYSTEMD = Path(__file__).parents[2] / "examples" / "systemd"
UNITS = sorted(SYSTEMD.glob("*.service"))
DROP_IN = SYSTEMD / "cathedra-apiserver.service.d" / "several-hosts.conf"
PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


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


def test_the_drop_in_for_several_hosts_replaces_the_command_of_its_unit() -> None:
    lines = DROP_IN.read_text()
    assert "\nExecStart=\n" in lines
    (line,) = re.findall(r"^ExecStart=(/(?:.*\\\n)*.*)$", lines, re.MULTILINE)
    program, *words = shlex.split(line.replace("\\\n", " "))
    assert program == "/usr/local/bin/cathedra"
    assert _parser(words).parse_args(words).store == "${STORE}"


def blocks() -> list[str]:
    """The blocks of the sections on several hosts."""
    _, _, page = PAGE.read_text().partition("## Several hosts\n")
    page, _, _ = page.partition("## Health and metrics")
    return [
        inspect.cleandoc(block)
        for block in re.findall(r"^ *```(?:sh|text)\n(.*?)^ *```$", page, re.MULTILINE | re.DOTALL)
    ]


def commands() -> list[str]:
    lines = "\n".join(blocks()).replace("\\\n", " ").splitlines()
    return [line.partition(" > ")[0] for line in lines if line.lstrip().startswith("cathedra ")]


@pytest.mark.parametrize("command", commands())
def test_a_command_for_several_hosts_exists_with_its_options(command: str) -> None:
    _, *words = shlex.split(command)
    assert _parser(words).parse_args(words).command


def test_the_variables_of_etcd_are_options_of_etcd() -> None:
    named = re.findall(r"^ETCD_([A-Z_]+)=", "\n".join(blocks()), re.MULTILINE)
    assert len(named) == 7
    program("etcd")
    known = subprocess.run(["etcd", "--help"], capture_output=True, text=True, timeout=60, check=False)
    for name in named:
        assert f"--{name.lower().replace('_', '-')} " in known.stdout + known.stderr
