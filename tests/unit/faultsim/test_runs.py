"""Runs: equal hashes for equal plans, also in another process and another Python; figures of campaigns."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cathedra.faultsim.campaigns import Campaign, figures, runs
from cathedra.faultsim.invariants import INVARIANTS
from cathedra.faultsim.plan import FaultPlan, InvalidPlan, Options, draw, plan_text
from cathedra.faultsim.runs import run_plan

SHORT = Options(hours=0.5)
SOURCES = Path(__file__).parents[3] / "src"
DOCUMENT = Path(__file__).parents[3] / "docs" / "reliability.md"


# Without bytecode: that of another version would stay in the sources of this one.
ENVIRONMENT = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": str(SOURCES), "PYTHONDONTWRITEBYTECODE": "1"}


def digest_in(interpreter: str, plan: FaultPlan, folder: Path) -> str:
    """Return the hash of a plan's history in a process of its own."""
    file = folder / "plan.json"
    file.write_bytes(plan_text(plan))
    code = (
        "import sys; from pathlib import Path; from cathedra.faultsim.plan import read_plan; "
        "from cathedra.faultsim.runs import run_plan; print(run_plan(read_plan(Path(sys.argv[1]))).digest)"
    )
    command = [interpreter, "-c", code, file]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT, timeout=120)
    return done.stdout.strip()


def can_simulate(interpreter: str) -> bool:
    command = [interpreter, "-c", "import cathedra.faultsim.runs"]
    return not subprocess.run(command, capture_output=True, check=False, env=ENVIRONMENT, timeout=120).returncode


def interpreters() -> list[str]:
    """Return this Python, and the others on the path that have the dependencies of Cathedra."""
    names = (shutil.which(f"python3.{minor}") for minor in range(11, 20) if minor != sys.version_info.minor)
    return [sys.executable, *(name for name in names if name and can_simulate(name))]


@pytest.mark.parametrize(("seed", "servers"), [(1, 1), (121, 2)])
def test_a_plan_has_one_history_in_each_process_and_version_of_python(seed: int, servers: int, tmp_path: Path) -> None:
    plan = draw(seed, SHORT)
    assert plan.setup.servers == servers
    first = run_plan(plan)
    assert not first.failed, first.text
    assert {digest_in(interpreter, plan, tmp_path) for interpreter in interpreters()} == {first.digest}


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
