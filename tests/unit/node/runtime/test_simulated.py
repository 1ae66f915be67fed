"""Containers that only pretend, in virtual time: how they run, stop, and are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cathedra.clock import LoopClock, run_virtual
from cathedra.node.runtime.runtime import (
    LOST_MESSAGE,
    LOST_REASON,
    ContainerRun,
    ContainerSpec,
    PodIdentity,
    RuntimeFailure,
)
from cathedra.node.runtime.simulated import EXIT_CODE, RUN_SECONDS, Act, SimulatedRuntime, by_annotations
from tests.running import run_with


def spec(name: str = "c", **annotations: str) -> ContainerSpec:
    return ContainerSpec(name, PodIdentity("d", "p", "u"), name, 0, ("x",), annotations=annotations)


def play(body: Callable[[SimulatedRuntime, list[ContainerRun]], Awaitable[None]], act: Act) -> None:
    async def main() -> None:
        ended: list[ContainerRun] = []
        runtime = SimulatedRuntime(LoopClock(asyncio.get_running_loop()), behaviour=lambda _: act)
        assert await runtime.open(ended.append) == ()
        await body(runtime, ended)

    run_virtual(main())


@run_with(lambda test: play(test, Act(seconds=10, exit_code=3)))
async def test_a_container_runs_for_its_time_and_ends_with_its_code(
    runtime: SimulatedRuntime, ended: list[ContainerRun]
) -> None:
    run = await runtime.start(spec())
    await asyncio.sleep(9)
    assert ended == []
    await asyncio.sleep(2)
    assert [(each.exit_code, each.reason) for each in ended] == [(3, "Error")]
    assert ended[0].finished_at == run.started_at + 10


@run_with(lambda test: play(test, Act(stop_seconds=5)))
async def test_a_signal_ends_it_after_the_time_it_takes_and_sigkill_at_once(
    runtime: SimulatedRuntime, ended: list[ContainerRun]
) -> None:
    for name in ("a", "b"):
        await runtime.start(spec(name))
    await runtime.signal("a", 15)
    await runtime.signal("b", 9)
    assert [(each.id, each.exit_code, each.signal) for each in ended] == [("b", 137, 9)]
    await asyncio.sleep(5)
    assert [(each.id, each.exit_code) for each in ended[1:]] == [("a", 0)]
    await runtime.signal("unknown", 9)


@run_with(lambda test: play(test, Act(seconds=50)))
async def test_a_lost_shim_ends_what_runs_once_and_leaves_what_has_ended(
    runtime: SimulatedRuntime, ended: list[ContainerRun]
) -> None:
    for name in ("a", "b"):
        await runtime.start(spec(name))
    await runtime.signal("a", 9)
    runtime.lose_shim()
    runtime.lose_shim()
    assert [each.id for each in ended] == ["a", "b"]
    assert (ended[1].exit_code, ended[1].reason, ended[1].message) == (137, LOST_REASON, LOST_MESSAGE)
    await asyncio.sleep(100)
    assert len(ended) == 2, "its time does not end it again"
    with pytest.raises(RuntimeFailure, match="is not running"):
        await runtime.exec("b", ("true",))


def test_annotations_say_what_a_container_does_and_nonsense_is_refused() -> None:
    assert by_annotations(spec()) == Act()
    assert by_annotations(spec(**{RUN_SECONDS: "1.5", EXIT_CODE: "7"})) == Act(1.5, 7)
    for name, value in ((RUN_SECONDS, "soon"), (EXIT_CODE, "256"), (EXIT_CODE, "-1")):
        with pytest.raises(RuntimeFailure, match=f'annotation {name}: "{value}"'):
            by_annotations(spec(**{name: value}))
