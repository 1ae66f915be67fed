"""A device breaks while a job runs: its pod goes, the job goes on elsewhere, and the device is not allocated again."""

from __future__ import annotations

from cathedra.api.core.batch_v1 import Job
from cathedra.api.resource import DeviceTaintRule, ResourceClaim
from cathedra.api.struct import from_dict
from cathedra.client.resources import DEVICETAINTRULES, JOBS, PODS, RESOURCECLAIMS
from cathedra.clock import run_virtual
from tests.simulation.history import History
from tests.simulation.test_whole_cluster import COMPLETIONS, is_complete, lasting
from tests.simulation.world import World, demo, running

BROKEN = ("gpu.example.com", "node-0", "gpu-0")


def holds(claim: ResourceClaim) -> bool:
    """Return True if the claim holds the device that is going to break."""
    allocation = claim.status.allocation
    return allocation is not None and any(
        (result.driver, result.pool, result.device) == BROKEN for result in allocation.devices.results
    )


async def work(world: World) -> None:
    """Only the job of the demo, on nodes with one device each."""
    for ref, obj in demo():
        if ref in (PODS, RESOURCECLAIMS):
            continue
        await world.of(ref).create(lasting(obj, world.random, 600))
    await world.until(JOBS, "train", lambda job: job.status.ready == 2)


async def break_device(world: World) -> int:
    """Taint it; the revision from which on it may not be allocated."""
    selector = {"driver": BROKEN[0], "pool": BROKEN[1], "device": BROKEN[2]}
    taint = {"key": "broken", "effect": "NoExecute"}
    body = {"metadata": {"name": "broken"}, "spec": {"deviceSelector": selector, "taint": taint}}
    await world.of(DEVICETAINTRULES).create(from_dict(DeviceTaintRule, body))
    await world.clock.sleep(60)
    return world.server.revision


def test_a_job_goes_on_without_the_device_that_broke() -> None:
    async def main() -> tuple[History, int, Job]:
        async with running(3, gpus=1) as world:
            await work(world)
            revision = await break_device(world)
            assert not any(holds(claim) for claim in (await world.of(RESOURCECLAIMS).list()).items)
            job = await world.until(JOBS, "train", is_complete, hours=12)
            return world.history, revision, job

    history, revision, job = run_virtual(main())
    history.check_running_pods()
    assert job.status.succeeded == COMPLETIONS
    assert job.status.failed == 1
    assert history.reasons()["DeviceTaintManagerEviction"] == 1
    later = [moment.obj for moment in history.moments if moment.ref == RESOURCECLAIMS and moment.revision > revision]
    assert later
    assert not any(isinstance(claim, ResourceClaim) and holds(claim) for claim in later)
