"""A container shim that is killed while the agent watches, and both of them killed at every named point."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cathedra.api.core.core_v1 import ContainerStateTerminated, Pod
from cathedra.client.resources import PODS
from cathedra.node.faultpoints import AGENT_POINTS, SHIM_POINTS
from tests.integration.node_world import RUNTIMES, World, node_world, traces


@pytest.fixture(params=RUNTIMES)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async with node_world(request.param) as found:
        yield found


def holding(world: World, name: str) -> str:
    """A script that runs for ever, and notes if an earlier run of it is still there."""
    lock, overlap = world.directory / f"{name}.lock", world.directory / "overlap"
    return f"exec 9>{lock}; flock -n 9 || echo {name} >> {overlap}; echo $$ >> {world.directory}/{name}; sleep 600"


def last_end(pod: Pod) -> ContainerStateTerminated | None:
    (status,) = pod.status.container_statuses
    return status.state.terminated or status.last_state.terminated


async def test_a_lost_shim_ends_its_containers_and_restart_policies_apply(world: World) -> None:
    await world.create("once", holding(world, "once"))
    await world.create("always", holding(world, "always"), restart="Always")
    await world.until_phase("Running", "once")
    before = await world.until_phase("Running", "always")
    await world.until(lambda: len(world.lines("always")) == 1)
    lost = world.shim_pid
    world.kill_shim()
    ended = last_end(await world.until_phase("Failed", "once"))
    assert ended is not None
    assert (ended.exit_code, ended.reason) == (137, "ContainerStatusUnknown")
    assert ended.message == (
        "The container could not be located when its container shim was lost.  The container used to be Running"
    )
    await world.until(lambda: len(world.lines("always")) == 2)
    after = await world.until_status("always", lambda s: s.restart_count == 1 and s.state.running is not None)
    (was,), (now,) = before.status.container_statuses, after.status.container_statuses
    assert now.state.running is not None
    assert now.last_state.terminated is not None
    assert now.last_state.terminated.container_id == was.container_id
    assert now.last_state.terminated.reason == "ContainerStatusUnknown"
    assert world.shim_pid not in {0, lost}
    assert world.lines("overlap") == [], "what a lost shim left is killed before its container is started again"
    assert (sorted(world.calls("prepare")), world.calls("unprepare")) == (["always", "once"], ["once"])


async def test_a_terminating_pod_whose_shim_is_lost_finishes_and_lets_its_claim_go(world: World) -> None:
    note = f">> {world.directory}/p"
    await world.create(
        "p", f"trap 'echo term {note}' TERM; echo up {note}; while :; do sleep 600 & wait; done", grace=600
    )
    await world.until(lambda: world.lines("p") == ["up"])
    await world.client.resource(PODS, "default").delete("p")
    await world.until(lambda: world.lines("p") == ["up", "term"])
    world.kill_shim()
    await world.until_gone("p")
    assert (world.calls("prepare"), world.calls("unprepare")) == (["p"], ["p"])


async def test_a_shim_that_is_lost_again_and_again_is_replaced_each_time(world: World) -> None:
    await world.create("p", f"echo $$ >> {world.directory}/p; sleep 600", restart="OnFailure")
    lost = set()
    await world.until(lambda: len(world.lines("p")) == 1)
    for _ in range(3):
        lost.add(world.shim_pid)
        world.kill_shim()
        await world.until(lambda: world.shim_pid not in {0, *lost})
    await world.until(lambda: len(world.lines("p")) == 2)
    await world.client.resource(PODS, "default").delete("p")
    await world.until_gone("p")


@asynccontextmanager
async def dying_at(world: World, point: str) -> AsyncIterator[None]:
    """Two pods during whose life a process dies at the point. In the end both are over, each run of a container began
    at most once, nothing of them is left, and the node runs the next pod."""
    mark = point.replace(":", "-")
    never, again, last = f"never-{mark}", f"again-{mark}", f"last-{mark}"
    end = f"echo done >> {world.directory}/{never}-end"
    lock = f"exec 9>{world.directory}/{again}.lock; flock -n 9 || echo {again} >> {world.directory}/overlap"
    world.arm_fault(point)
    await world.create(never, f"echo $$ >> {world.directory}/{never}; sleep 0.2; {end}")
    await world.create(again, f"{lock}; sleep 0.2", restart="OnFailure")
    await world.until(lambda: world.fault_happened)
    yield
    over = await world.until_over(never)
    assert len(world.lines(never)) <= 1, f"a run of a container began twice after {point}"
    # A script may have run to its end without anything having recorded that; never the other way round.
    assert over.status.phase == "Failed" or world.lines(f"{never}-end") == ["done"], point
    await world.until_phase("Succeeded", again)
    assert world.lines("overlap") == [], point
    await world.until(lambda: {never, again} <= set(world.calls("unprepare")))
    await world.until(lambda: not list((world.root / "containers").glob("*/container.json")))
    await world.create(last, "true")
    await world.until_phase("Succeeded", last)
    assert f'"{never}"' not in (world.root / "dra_manager_state").read_text(), point


async def test_a_shim_that_dies_at_any_point_is_replaced(world: World) -> None:
    await world.until_ready()
    for point in SHIM_POINTS:
        async with dying_at(world, point):
            pass


WITH_CONTAINERS = ("agent:container-starting", "agent:container-started", "agent:container-ended")
"""Points of the agent at which containers change: only there it matters what runs them."""


@pytest.mark.parametrize(
    ("runtime", "points"),
    [
        ("process", AGENT_POINTS),
        ("process", SHIM_POINTS),
        ("crun", WITH_CONTAINERS),
        ("crun", SHIM_POINTS),
    ],
    ids=["process-agent", "process-shim", "crun-agent", "crun-shim"],
)
async def test_agent_and_shim_that_die_together_at_any_point_leave_what_the_next_ones_finish(
    runtime: str, points: tuple[str, ...]
) -> None:
    async with node_world(runtime) as world:
        await world.until_ready()
        for point in points:
            async with dying_at(world, point):
                assert world.agent is not None
                if point in AGENT_POINTS:
                    await world.agent.wait()
                else:
                    await world.kill_agent()
                world.kill_shim()
                await world.start_agent()


async def test_a_shim_killed_after_the_agent_came_back_is_replaced_too(world: World) -> None:
    await world.create("p", holding(world, "p"), restart="Always")
    await world.until(lambda: len(world.lines("p")) == 1)
    await world.kill_agent()
    await world.start_agent()
    await world.until_status("p", lambda status: status.state.running is not None)
    world.kill_shim()
    await world.until(lambda: len(world.lines("p")) == 2)
    assert world.lines("overlap") == []


async def test_the_shim_of_an_earlier_protocol_is_refused_with_what_to_do(world: World) -> None:
    await world.until_ready()
    await world.stop_agent()
    # The shim removes its folder at its end, and the socket below would go with it.
    await world.until(lambda: not traces(world.root))
    containers = world.root / "containers"
    containers.mkdir(parents=True, exist_ok=True)
    folder = os.open(containers, os.O_RDONLY | os.O_DIRECTORY)
    server = await asyncio.start_unix_server(lambda *_: None, f"/proc/self/fd/{folder}/keeper.sock")
    try:
        await world.start_agent()
        assert world.agent is not None
        assert await world.agent.wait() == 1
    finally:
        server.close()
        os.close(folder)
        (containers / "keeper.sock").unlink()
    assert "speaks protocol 0, and this agent speaks 1; drain the node" in (world.directory / "agent.log").read_text()
