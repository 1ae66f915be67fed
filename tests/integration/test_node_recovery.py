"""A node agent that is killed at the worst moment and started again on what it left (docs/spec/node.md §11.3)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from cathedra.client.resources import PODS
from tests.integration.node_world import RUNTIMES, World, node_world


@pytest.fixture(params=RUNTIMES)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async with node_world(request.param) as found:
        yield found


async def test_running_containers_go_on_and_ended_ones_are_not_started_again(world: World) -> None:
    await world.create("long", f"echo $$ >> {world.directory}/long; trap 'exit 0' TERM; sleep 600 & wait")
    go = world.directory / "go"
    script = f"echo $$ >> {world.directory}/short; until [ -e {go} ]; do sleep 0.02; done"
    await world.create("short", f"{script}; echo over >> {world.directory}/short-end; exit 5")
    before = await world.until_phase("Running", "long")
    await world.until(lambda: len(world.lines("short")) == 1)
    await world.kill_agent()
    go.touch()
    await world.until(lambda: world.lines("short-end") == ["over"])
    assert world.calls("unprepare") == []
    await world.start_agent()
    ended = await world.until_phase("Failed", "short")
    terminated = ended.status.container_statuses[0].state.terminated
    assert terminated is not None
    assert terminated.exit_code == 5
    after = await world.until_phase("Running", "long")
    (was,), (now,) = before.status.container_statuses, after.status.container_statuses
    assert (now.container_id, now.restart_count) == (was.container_id, 0)
    assert (len(world.lines("long")), len(world.lines("short"))) == (1, 1)
    assert sorted(world.calls("prepare")) == ["long", "short"]
    assert world.calls("unprepare") == ["short"]
    await world.client.resource(PODS, "default").delete("long")
    await world.until(lambda: world.calls("unprepare") == ["short", "long"])


async def test_a_pod_deleted_while_no_agent_was_there_is_ended_and_its_claim_let_go_once(world: World) -> None:
    await world.create("p", f"trap 'echo bye >> {world.directory}/bye; exit 0' TERM; echo up; sleep 600 & wait")
    await world.until_phase("Running", "p")
    await world.kill_agent()
    await world.client.resource(PODS, "default").delete("p")
    await world.start_agent()
    await world.until_gone("p")
    assert world.lines("bye") == ["bye"]
    assert (world.calls("prepare"), world.calls("unprepare")) == (["p"], ["p"])


async def test_a_pod_force_deleted_while_no_agent_was_there_leaves_nothing_behind(world: World) -> None:
    await world.create("p", "trap 'exit 0' TERM; sleep 600 & wait")
    await world.until_phase("Running", "p")
    await world.kill_agent()
    await world.client.resource(PODS, "default").delete("p", grace_period_seconds=0)
    await world.start_agent()
    await world.until(lambda: world.calls("unprepare") == ["p"])
    containers = world.root / "containers"
    await world.until(lambda: not list(containers.glob("*/container.json")))


async def test_killing_the_agent_again_and_again_while_pods_end_calls_nothing_twice_for_good(world: World) -> None:
    """The agent dies at any moment: each container runs once, and in the end every claim is released."""
    names = [f"p{i}" for i in range(4)]
    for name in names:
        await world.create(name, f"echo $$ >> {world.directory}/{name}; sleep 0.3")
    moments: tuple[Callable[[], bool], ...] = (
        lambda: any(world.lines(name) for name in names),
        lambda: len(world.calls("unprepare")) >= 1,
        lambda: len(world.calls("unprepare")) >= 2,
    )
    for moment in moments:
        await world.until(moment)
        await world.kill_agent()
        await world.start_agent()
    await world.create("last", "true")
    await world.until_phase("Succeeded", "last")
    for name in names:
        await world.until_phase("Succeeded", name)
        assert len(world.lines(name)) == 1, "no container runs twice"
    assert set(world.calls("unprepare")) == {*names, "last"}
    state = (world.root / "dra_manager_state").read_text()
    assert all(name not in state for name in names)
