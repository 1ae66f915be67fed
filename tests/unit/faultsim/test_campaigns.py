"""Campaigns: figures of runs that a function plays, and their limit of time."""

from __future__ import annotations

from cathedra.faultsim.campaigns import Campaign, figures, runs, shrink
from cathedra.faultsim.plan import FaultPlan, Options, PlannedStep, Setup
from cathedra.faultsim.runs import Outcome


def played(plan: FaultPlan) -> Outcome:
    broken = "DevicesAreHeldOnce" if plan.seed == 2 else ""
    return Outcome(
        digest="x",
        events=3,
        hours=2.0,
        cpu=0.5,
        invariant=broken,
        text="twice",
        faults={"kill": 1800.0},
        messages={"delays": 4},
    )


def test_the_figures_are_sums_and_name_what_failed() -> None:
    campaign = Campaign()
    for plan, outcome in runs(range(1, 4), Options(hours=2.0), run=played):
        campaign.add(plan, outcome)
    found = figures(campaign)
    assert (found["seeds"], found["hours"], found["cpu"], found["events"]) == (3, 6.0, 1.5, 9)
    assert found["failed"] == {2: "DevicesAreHeldOnce: twice"}
    assert (found["faults"], found["messages"]) == ({"kill": 1.5}, {"delays": 12})


def test_no_seed_begins_after_the_time() -> None:
    assert list(runs(range(9), Options(hours=2.0), seconds=0.0, run=played)) == []


# Shrinking of plans, with failures that a function of the steps decides.


def plan(steps: int) -> FaultPlan:
    made = tuple(PlannedStep(at=float(number), do="pod", on=f"pod-{number}") for number in range(steps))
    return FaultPlan(seed=1, hours=5.0, setup=Setup(release="x", nodes=3, devices=2, servers=2), steps=made)


def test_only_the_steps_that_are_needed_together_are_left() -> None:
    def fails(candidate: FaultPlan) -> bool:
        return {"pod-3", "pod-17"} <= {step.on for step in candidate.steps}

    short = shrink(plan(40), fails)
    assert [step.on for step in short.steps] == ["pod-3", "pod-17"]
    assert (short.setup.nodes, short.setup.servers, short.hours) == (1, 1, 0.01)


def test_the_cluster_keeps_what_the_failure_needs() -> None:
    short = shrink(plan(4), lambda candidate: candidate.setup.nodes == 3)
    assert (short.steps, short.setup.nodes, short.setup.devices) == ((), 3, 1)


def test_without_time_the_plan_stays() -> None:
    assert shrink(plan(4), lambda _: True, 0.0) == plan(4)
