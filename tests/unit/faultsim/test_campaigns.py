"""Campaigns: figures of runs that a function plays, and their limit of time."""

from __future__ import annotations

from cathedra.faultsim.campaigns import Campaign, figures, runs
from cathedra.faultsim.plan import FaultPlan, Options
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
