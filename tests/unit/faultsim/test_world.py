"""Whole worlds: two schedulers that work at the same time, an advisor, and partitions of the oldest release."""

from __future__ import annotations

import asyncio

import pytest

from cathedra.faultsim.plan import FaultPlan, PlannedStep, Setup
from cathedra.faultsim.runs import run_plan
from cathedra.faultsim.world import FaultedCluster
from cathedra.releases import NEWEST


def pods(number: int) -> tuple[PlannedStep, ...]:
    # At one moment, so that two schedulers choose for them at one moment too.
    return tuple(PlannedStep(at=60.0, do="pod", on=f"pod-{one}", count=1) for one in range(number))


@pytest.mark.parametrize("named", [False, True])
def test_two_active_schedulers_lose_races_and_give_no_device_twice(named: bool) -> None:
    lost = 0
    for seed in range(2):
        setup = Setup(release=NEWEST, nodes=2, devices=3, schedulers=2, elected=False, named=named)
        outcome = run_plan(FaultPlan(seed=seed, hours=0.1, setup=setup, steps=pods(6)))
        assert not outcome.failed, outcome.text
        lost += outcome.messages.get("lost-allocations", 0)
    # On the same pods the locks of pod and claims decide the races.
    assert lost > 0 or not named


def test_partitions_of_the_oldest_release_run() -> None:
    setup = Setup(release="1.34", gates={"DRAPartitionableDevices": True}, nodes=1, devices=1, supply="partitions")
    outcome = run_plan(FaultPlan(seed=1, hours=0.1, setup=setup, steps=pods(1)))
    assert not outcome.failed, outcome.text


def test_an_advisor_explains_pods_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    worlds: list[FaultedCluster] = []
    original = FaultedCluster.__init__

    def noted(self: FaultedCluster, plan: FaultPlan) -> None:
        original(self, plan)
        worlds.append(self)

    monkeypatch.setattr(FaultedCluster, "__init__", noted)
    setup = Setup(release=NEWEST, nodes=1, devices=1, advisor=True)
    outcome = run_plan(FaultPlan(seed=1, hours=0.1, setup=setup, steps=pods(2)))
    assert not outcome.failed, outcome.text
    events = worlds[0].chronicle.state.objects["events"].values()
    assert [one.reason for one in events if one.reporting_component == "cathedra-advisor"] == ["DevicesExplained"]


def test_a_part_that_does_not_end_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(self: FaultedCluster) -> None:
        await asyncio.sleep(1e6)

    monkeypatch.setattr(FaultedCluster, "heal", never)
    outcome = run_plan(FaultPlan(seed=1, hours=0.01, setup=Setup(release=NEWEST, nodes=1)))
    assert (outcome.invariant, outcome.text) == ("Progress", "the faults do not end within 600 s")
