"""Plans that once failed: ``cathedra simulate-faults --write-test`` adds them, and each must pass for good."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.faultsim.plan import read_plan
from cathedra.faultsim.runs import run_plan

PLANS = sorted((Path(__file__).parent / "plans").glob("*.json"))


@pytest.mark.parametrize("file", PLANS, ids=lambda file: file.stem)
def test_a_plan_that_once_failed_passes(file: Path) -> None:
    outcome = run_plan(read_plan(file))
    assert not outcome.failed, f"{outcome.invariant}: {outcome.text}"
