"""The same walk while requests, answers and watches get lost: nothing may be held twice, and everything must end."""

from __future__ import annotations

import pytest

from cathedra.client.resources import JOBS, PODS, RESOURCECLAIMS
from cathedra.clock import run_virtual
from tests.simulation.faults import FaultPlan
from tests.simulation.history import History
from tests.simulation.test_whole_cluster import COMPLETIONS, train
from tests.simulation.world import World, running


def survive(seed: int, plan: FaultPlan) -> History:
    async def main() -> History:
        async with running(seed, disturb=plan.over) as world:
            await train(world, longest=1800)
            await check_end(world)
            return world.history

    return run_virtual(main())


async def check_end(world: World) -> None:
    assert [claim.metadata.name for claim in (await world.of(RESOURCECLAIMS).list()).items] == ["shared-gpu"]
    pods = (await world.of(PODS).list()).items
    assert {pod.status.phase for pod in pods} <= {"Succeeded", "Failed"}
    succeeded = sum(pod.status.phase == "Succeeded" for pod in pods)
    job = await world.of(JOBS).get("train")
    assert job.status.succeeded == succeeded == COMPLETIONS


@pytest.mark.parametrize("seed", range(8))
def test_a_job_survives_faults(seed: int) -> None:
    history = survive(seed, FaultPlan())
    history.check_running_pods()
    assert history.holders == {}
