"""``cathedra driver-check`` as far as it needs no driver, and with `cathedra driver`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from cathedra.cli.main import main
from cathedra.drivercheck.checks import health


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
        (
            ["--upgrade-from", "x", "--kubeconfig", "k"],
            "--upgrade-from needs the command of the driver itself after --",
        ),
        (
            ["--nodes", "2", "--kubeconfig", "k", "--", "false"],
            "--nodes 2 plays both nodes and their API server: give the driver's command after --, "
            "without --kubeconfig and --socket",
        ),
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


FAULTS = {
    "one pool name": "pools-apart",
    "forgets its claims": "remembers",
    "answers differ": "idempotent",
    "deletes all slices": "neighbours",
    "one owner for ever": "node-left",
    "health without end": "health-ends",
    "reads no older checkpoint": "upgrade",
}
"""Fault of a driver → the check that finds it."""
PROGRAM = (sys.executable, "-m", "tests.unit.drivercheck.faulty_program")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_shows_in_the_process_or_on_two_nodes_is_found(
    fault: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_GRACE_SECONDS", 1.0)
    older = f"--upgrade-from={shlex.join(PROGRAM)}"
    assert main(["driver-check", "--nodes=2", older, f"--only={FAULTS[fault]}", "--", *PROGRAM, fault]) == 1
    assert capsys.readouterr().out.startswith(f"FAIL {FAULTS[fault]} – ")


def test_a_right_program_passes_what_needs_its_process_and_two_nodes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    checks = [f"--only={name}" for name in {*FAULTS.values(), "downgrade", "mixed-versions", "nodes-at-once"}]
    report, image, suite = (tmp_path / name for name in ("report.html", "badge.svg", "junit.xml"))
    files = (f"--html={report}", f"--badge={image}", f"--junit={suite}")
    older = f"--upgrade-from={shlex.join(PROGRAM)}"
    assert main(["driver-check", "--nodes=2", older, *checks, *files, "--", *PROGRAM]) == 0, capsys.readouterr().out
    said = capsys.readouterr().out.splitlines()
    assert said[-3:] == ["level core: passed (9)", "level health: passed (1)", "10 passed, 0 failed, 0 skipped"]
    assert "lamps.example.com" in report.read_text()
    assert "core, health" in image.read_text()
    assert 'tests="10"' in suite.read_text()


def test_a_previous_version_that_does_not_start_fails_its_checks_alone(capsys: pytest.CaptureFixture[str]) -> None:
    checks = ("--only=upgrade", "--only=health")
    assert main(["driver-check", "--upgrade-from=false", *checks, "--", *PROGRAM]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("FAIL upgrade – ")
    assert said[0].endswith("after the change of version it does not come back: the driver has ended by itself")
    assert said[1].startswith("ok   health – ")
