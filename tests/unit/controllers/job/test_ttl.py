"""Finished jobs go when their time is up."""

from __future__ import annotations

from cathedra.client.resources import JOBS
from cathedra.controllers.job.controller import JobController
from cathedra.controllers.job.ttl import TTLAfterFinishedController
from tests.running import run_with
from tests.unit.controllers.job.objects import active, end, job
from tests.unit.controllers.world import World, play


@run_with(lambda test: play((JobController, TTLAfterFinishedController), test))
async def test_a_finished_job_is_deleted_when_its_time_is_up(world: World) -> None:
    await world.create(JOBS, job(ttl_seconds_after_finished=100))
    await world.quiet()
    await end(world, (await active(world))[0])
    await world.clock.sleep(90)
    assert (await world.of(JOBS).get("j")).metadata.deletion_timestamp is None
    await world.clock.sleep(20)
    assert (await world.of(JOBS).get("j")).metadata.finalizers == ("foregroundDeletion",)
