"""The same walk while scheduler and controllers are killed in the middle of whatever they do."""

from __future__ import annotations

import pytest

from cathedra.clock import run_virtual
from tests.simulation.faults import FaultPlan
from tests.simulation.history import History
from tests.simulation.test_faults import check_end
from tests.simulation.test_whole_cluster import train
from tests.simulation.world import running


def survive(seed: int, life: float, plan: FaultPlan) -> History:
    async def main() -> History:
        async with running(seed, life=life, disturb=plan.over) as world:
            await train(world, longest=300)
            await world.clock.sleep(120)
            await check_end(world)
            return world.history

    return run_virtual(main())


@pytest.mark.parametrize("seed", range(4))
def test_a_job_survives_the_death_of_everybody_who_looks_after_it(seed: int) -> None:
    slow = FaultPlan(lost_requests=0.0, lost_answers=0.0, longest_delay=0.5)
    history = survive(seed, 15.0, slow)
    history.check_running_pods()
    assert history.holders == {}
