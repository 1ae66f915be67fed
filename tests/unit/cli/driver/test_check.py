"""``cathedra driver-check`` as far as it needs no driver, and with `cathedra driver`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cathedra.cli.main import main


def test_the_checks_are_listed_with_their_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["driver-check", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "idempotent – preparing again gives the same answer (docs/spec/driver-sdk.md §1 (1))" in lines
    assert len(lines) > 30


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give the driver's command after --, or --kubeconfig of the API server that it speaks to"),
        (["--only", "nothing"], "there is no check nothing; see: cathedra driver-check --list"),
        (["--", "./no-such-program"], "cannot start ./no-such-program: No such file or directory"),
        (["--", "false"], "the driver has ended by itself"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_examined_is_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["driver-check", *words]) == 2
    assert capsys.readouterr().err == f"cathedra: {said}\n"


def test_the_command_that_runs_a_driver_can_be_examined(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its node and directories are in the environment, as those of a DaemonSet's pod."""
    monkeypatch.chdir(tmp_path)
    assert main(["driver-new", "lamp", "--directory", "."]) == 0
    checks = ("--only=describes-itself", "--only=prepares", "--only=cdi-resolvable")
    command = (sys.executable, "-m", "cathedra.cli.main", "driver", "--module", "lamp:LampDriver")
    assert main(["driver-check", *checks, "--", *command]) == 0
    assert capsys.readouterr().out.endswith("3 passed, 0 failed, 0 skipped\n")
