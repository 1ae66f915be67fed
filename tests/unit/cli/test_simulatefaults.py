"""``cathedra simulate-faults``: seeds, plans in files, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cathedra.cli.main import main
from tests.simulation.planted import PLANTED

SHORT = ("simulate-faults", "--hours", "0.2")


def test_a_seed_is_run_written_and_replayed_with_the_same_hash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, figures = tmp_path / "plan.json", tmp_path / "figures.json"
    assert main([*SHORT, "--seed", "3", "--write", str(plan), "--figures", str(figures)]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("seed 3: ok, ")
    assert json.loads(figures.read_text())["failed"] == {}
    assert main(["simulate-faults", "--replay", str(plan)]) == 0
    assert hash_of(capsys.readouterr().out.splitlines()[0]) == hash_of(first)


def hash_of(line: str) -> str:
    return line.rpartition("hash ")[2]


def test_a_failure_prints_its_shortest_plan_and_its_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with PLANTED["lost write"]():
        assert main([*SHORT, "--seed", "1", "--release", "1.36", "--shrink", "5"]) == 1
    shown = capsys.readouterr().out
    # Which of the two notices the lost write first depends on the plan.
    assert "AcknowledgedWritesSurvive: " in shown or "WatchesAreComplete: " in shown
    assert "shortest plan found: " in shown
    assert "VIOLATION" in shown.splitlines()[-1]


@pytest.mark.parametrize(
    "words", [["--release", "1.26"], ["--faults", "rain"], ["--replay", "/no/such/plan"], ["--gates", "Nothing=true"]]
)
def test_a_wrong_call_is_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHORT, *words]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
