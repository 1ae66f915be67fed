"""Each planted bug is found by the first few seeds, and by the invariant that it breaks."""

from __future__ import annotations

import pytest

from cathedra.faultsim.invariants import LOST_ALLOCATIONS
from cathedra.faultsim.plan import FaultPlan, Options, PlannedStep, Setup, draw
from cathedra.faultsim.runs import Outcome, run_plan
from cathedra.releases import NEWEST
from tests.simulation.planted import PLANTED, unfenced

FOUND_BY = {
    "double allocation": {"DevicesAreHeldOnce", "CapacityIsNeverExceeded", "PreparedDevicesDoNotOverlap"},
    "lost write": {"AcknowledgedWritesSurvive", "WatchesAreComplete"},
    "leaked claim": {"FinishedClaimsAreFreed", "Progress"},
    "missed watch event": {"WatchesAreComplete"},
    "gang below minimum": {"GangsStartWhole"},
    "count overflow": {"CapacityIsNeverExceeded"},
    "null checkpoint": {"CheckpointsCoverPreparedClaims"},
    "claim freed while in use": {
        "ReservationsNamePods",
        "ContainersHaveTheirClaims",
        "NothingIsUnpreparedInUse",
        "FinishedClaimsAreFreed",
        "DevicesAreHeldOnce",
        "PreparedDevicesDoNotOverlap",
        "Progress",
    },
}


def first_failure(seeds: range) -> Outcome | None:
    return next((outcome for seed in seeds if (outcome := run_plan(draw(seed, Options(hours=2.0)))).failed), None)


@pytest.mark.parametrize("bug", sorted(set(PLANTED) - {"gang below minimum", "count overflow"}))
def test_a_planted_bug_is_found(bug: str) -> None:
    with PLANTED[bug]():
        outcome = first_failure(range(100))
    assert outcome is not None
    assert outcome.invariant in FOUND_BY[bug], outcome.text


def test_a_gang_that_starts_with_less_than_its_minimum_is_found() -> None:
    """By a plan of one gang: few seeds have gangs, and of those few a gang that does not fit."""
    gates = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
    # Later than the start of the parts, which a gang of the first seconds would share its moment with.
    plan = FaultPlan(
        seed=1,
        hours=0.2,
        setup=Setup(release=NEWEST, gates=gates, nodes=1, devices=2),
        steps=(PlannedStep(at=300.0, do="gang", on="gang-1", count=3),),
    )
    assert not run_plan(plan).failed
    with PLANTED["gang below minimum"]():
        assert run_plan(plan).invariant in FOUND_BY["gang below minimum"]


def test_partitions_that_consume_more_than_their_gpu_has_are_found() -> None:
    """By a plan of pods that need more partitions than one GPU has: few seeds have partitions and enough pods."""
    pods = tuple(PlannedStep(at=300.0 + number, do="pod", on=f"pod-{number}", count=1) for number in range(4))
    plan = FaultPlan(
        seed=1, hours=0.2, setup=Setup(release=NEWEST, nodes=1, devices=1, supply="partitions"), steps=pods
    )
    with PLANTED["count overflow"]():
        assert run_plan(plan).invariant in FOUND_BY["count overflow"]


def test_two_servers_that_do_not_compare_fences_are_found() -> None:
    """By a plan of pods that two active schedulers place at one moment, each through a server of its own."""
    pods = tuple(PlannedStep(at=300.0, do="pod", on=f"pod-{number}", count=1) for number in range(6))
    setup = Setup(release=NEWEST, nodes=1, devices=2, servers=2, schedulers=2, elected=False, named=True)
    plan = FaultPlan(seed=1, hours=0.2, setup=setup, steps=pods)
    outcome = run_plan(plan)
    assert not outcome.failed, outcome.text
    assert outcome.messages[LOST_ALLOCATIONS]
    with unfenced():
        assert run_plan(plan).invariant == "DevicesAreHeldOnce"
