"""The walk of a claim through every part, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from cathedra.api.core.batch_v1 import Job
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.struct import replace
from cathedra.client.objects import with_metadata
from cathedra.client.resources import JOBS, PODS, RESOURCECLAIMS
from cathedra.clock import run_virtual
from cathedra.node.runtime.simulated import RUN_SECONDS
from tests.simulation.history import History
from tests.simulation.world import World, demo, running

COMPLETIONS = 10
LONGEST = 6 * 3600


def lasting(obj: Any, random: Random, longest: int) -> Any:
    """The demo's objects with more completions, and containers that compute for up to the given seconds."""
    seconds = {RUN_SECONDS: str(random.randint(60, longest))}
    if isinstance(obj, Job):
        template = with_metadata(obj.spec.template, annotations=seconds)
        return replace(obj, spec=replace(obj.spec, completions=COMPLETIONS, template=template))
    return obj


def is_complete(job: Job) -> bool:
    return any(c.type == "Complete" and c.status == "True" for c in job.status.conditions)


async def train(world: World, longest: int = LONGEST) -> None:
    """Apply the demo, wait for the job, take the rest away, and wait until every device is free."""
    for ref, obj in demo():
        await world.of(ref).create(lasting(obj, world.random, longest))
    job = await world.until(JOBS, "train", is_complete, hours=1 + COMPLETIONS * longest / 3600)
    assert job.status.succeeded == COMPLETIONS
    for name in ("notebook", "sharing-a", "sharing-b"):
        await world.of(PODS).delete(name)
    await world.until(RESOURCECLAIMS, "shared-gpu", lambda claim: claim.status.allocation is None)
    await world.clock.sleep(60)


def play(seed: int, story: Callable[[World], Any]) -> History:
    async def main() -> History:
        async with running(seed) as world:
            await story(world)
            return world.history

    return run_virtual(main())


def test_a_job_of_ten_runs_through_and_every_device_is_free_again() -> None:
    async def story(world: World) -> None:
        await train(world)
        assert [claim.metadata.name for claim in (await world.of(RESOURCECLAIMS).list()).items] == ["shared-gpu"]
        pods = (await world.of(PODS).list()).items
        assert {pod.status.phase for pod in pods} == {"Succeeded"}
        assert len(pods) == COMPLETIONS

    history = play(1, story)
    history.check_running_pods()
    assert history.holders == {}
    assert history.most_held == 4
    states = history.of(PODS)
    uids = {pod.metadata.uid for pod in states if isinstance(pod, Pod) and pod.spec.resource_claims}
    assert len(uids) == COMPLETIONS + 3
    assert history.moments[-1].at - history.moments[0].at > 3600


def test_the_same_seed_gives_the_same_history() -> None:
    async def story(world: World) -> None:
        await train(world, longest=3600)

    first, second = play(7, story), play(7, story)
    assert first.lines() == second.lines()
    assert first.lines() != play(8, story).lines()


def test_each_part_owns_what_it_has_written_under_its_own_name() -> None:
    async def story(world: World) -> None:
        for ref, obj in demo():
            await world.of(ref).create(obj)
        pod = await world.until(PODS, "notebook", lambda pod: pod.status.phase == "Running")
        (named,) = pod.status.resource_claim_statuses
        claim = await world.of(RESOURCECLAIMS).get(named.resource_claim_name or "")
        assert writers(claim) == {
            ("kube-controller-manager", "Update", ""),
            ("kube-scheduler", "Update", ""),
            ("kube-scheduler", "Update", "status"),
        }
        assert {("ResourceClaimController", "Apply", "status"), ("kubelet", "Update", "status")} <= writers(pod)

    def writers(obj: KubeObject) -> set[tuple[str, str, str]]:
        return {(entry.manager, entry.operation, entry.subresource) for entry in obj.metadata.managed_fields}

    play(1, story)
