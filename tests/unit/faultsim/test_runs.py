"""Runs: equal hashes for equal plans, also in another process with another hash seed; figures of campaigns."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cathedra.faultsim.campaigns import Campaign, figures, runs
from cathedra.faultsim.invariants import INVARIANTS
from cathedra.faultsim.plan import InvalidPlan, Options, draw, plan_text
from cathedra.faultsim.runs import run_plan

SHORT = Options(hours=0.5)
DOCUMENT = Path(__file__).parents[3] / "docs" / "reliability.md"


def test_a_plan_has_one_history_in_two_processes(tmp_path: Path) -> None:
    plan = draw(1, SHORT)
    first = run_plan(plan)
    assert not first.failed, first.text
    file = tmp_path / "plan.json"
    file.write_bytes(plan_text(plan))
    code = (
        "import sys; from pathlib import Path; from cathedra.faultsim.plan import read_plan; "
        "from cathedra.faultsim.runs import run_plan; print(run_plan(read_plan(Path(sys.argv[1]))).digest)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    done = subprocess.run(
        [sys.executable, "-c", code, file], capture_output=True, text=True, check=True, env=environment, timeout=120
    )
    assert done.stdout.strip() == first.digest


@pytest.mark.parametrize("seed", [2, 7])
def test_a_cluster_with_faults_keeps_its_invariants(seed: int) -> None:
    outcome = run_plan(draw(seed, SHORT))
    assert not outcome.failed, outcome.text
    assert outcome.events > 100
    assert outcome.hours > 0.5


def test_a_campaign_adds_up_its_runs() -> None:
    campaign = Campaign()
    for plan, outcome in runs(range(3, 5), SHORT):
        campaign.add(plan, outcome)
    assert (campaign.seeds, campaign.failed) == (2, {})
    assert figures(campaign)["seeds"] == 2
    assert sum(campaign.releases.values()) == 2
    assert list(runs(range(9), SHORT, seconds=0.0)) == []


def test_each_invariant_is_in_the_document_with_its_sentence() -> None:
    text = DOCUMENT.read_text()
    for invariant in INVARIANTS:
        assert f"`{invariant.__name__}`" in text
        assert invariant.sentence in text


def test_a_plan_of_an_unknown_release_is_refused() -> None:
    with pytest.raises(InvalidPlan):
        draw(1, Options(release="9.99"))
