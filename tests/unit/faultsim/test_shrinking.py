"""Shrinking of plans, with failures that a function of the steps decides."""

from __future__ import annotations

from cathedra.faultsim.plan import FaultPlan, PlannedStep, Setup
from cathedra.faultsim.shrinking import shrink


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
