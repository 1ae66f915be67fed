"""Starting one container of a pod, and what follows from its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from cathedra.api.core.core_v1 import (
    Container,
    EnvVar,
    EnvVarSource,
    EphemeralContainer,
    ExecAction,
    Pod,
    Probe,
    SecretKeySelector,
)
from cathedra.api.struct import replace
from cathedra.node.concurrency import BlockTasks
from cathedra.node.containers.termination import GracePeriod
from cathedra.node.pods.lifecycle import PodStage
from cathedra.node.pods.resizer import ResourceGrants
from cathedra.node.pods.runner import ContainerRunner
from cathedra.node.runtime.runtime import ContainerRun, ContainerSpec, PodIdentity, RuntimeFailure
from cathedra.node.runtime.simulated import Act, SimulatedRuntime
from tests.running import run_with
from tests.unit.node.fakes import make_pod
from tests.unit.node.pods.onepod import OnePod
from tests.unit.node.pods.onepod import play as play_one

Story = Callable[[OnePod, ContainerRunner], Awaitable[None]]


def play(
    story: Story,
    pod: Pod | None = None,
    behaviour: Callable[[ContainerSpec], Act] = lambda spec: Act(),
    runtime: type[SimulatedRuntime] = SimulatedRuntime,
) -> None:
    async def body(one: OnePod) -> None:
        one.runtime = runtime(one.clock, behaviour=behaviour)
        context = msgspec.structs.replace(one.context, runtime=one.runtime)
        async with BlockTasks() as tasks:
            runner = ContainerRunner(
                one.object,
                one.preparation(),
                context,
                grants=ResourceGrants(one.object.pod),
                tasks=tasks,
                changed=one.wakeup.notify,
            )
            await one.runtime.open(runner.container_ended)
            await story(one, runner)

    play_one(body, pod)


@run_with(play)
async def test_a_container_that_starts_is_told_of_part_by_part(one: OnePod, runner: ContainerRunner) -> None:
    await runner.start("c")
    assert runner.table["c"].running
    field = "spec.containers{c}"
    assert [(type_, reason, where) for type_, reason, _, where in one.events.told] == [
        ("Normal", "Pulled", field),
        ("Normal", "Created", field),
        ("Normal", "Started", field),
    ]


def test_without_its_configuration_a_container_waits_and_that_is_no_run() -> None:
    missing = EnvVarSource(secret_key_ref=SecretKeySelector(name="s", key="k"))
    container = Container(name="c", image="i", env=(EnvVar(name="A", value_from=missing),))

    async def story(one: OnePod, runner: ContainerRunner) -> None:
        await runner.start("c")
        record = runner.table["c"]
        assert record.waiting is not None
        assert record.waiting.reason == "CreateContainerConfigError"
        assert (record.current, record.next_attempt) == (None, 0)
        assert one.events.messages("Failed") == ['Error: secret "s" not found']
        assert one.runtime.specs == {}

    play(story, make_pod("p", container))


class Refusing(SimulatedRuntime):
    """Cannot run the program."""

    async def start(self, spec: ContainerSpec) -> ContainerRun:
        raise RuntimeFailure("RunContainerError", "no such program")


@run_with(lambda test: play(test, runtime=Refusing))
async def test_a_program_that_cannot_be_run_is_a_run_that_failed(one: OnePod, runner: ContainerRunner) -> None:
    await runner.start("c")
    ended = runner.table["c"].ended
    assert ended is not None
    assert (ended.exit_code, ended.reason, ended.message) == (128, "StartError", "no such program")
    assert one.events.messages("Failed") == ["Error: no such program"]


class Hasty(SimulatedRuntime):
    """Its containers end before their start is answered."""

    async def start(self, spec: ContainerSpec) -> ContainerRun:
        run = await super().start(spec)
        self._end(self._containers[spec.id], 3, 0)
        return run


@run_with(lambda test: play(test, runtime=Hasty))
async def test_an_end_that_is_told_before_the_start_is_not_lost(one: OnePod, runner: ContainerRunner) -> None:
    await runner.start("c")
    ended = runner.table["c"].ended
    assert ended is not None
    assert ended.exit_code == 3
    assert one.events.messages("Started") == ["Container started"]


class Slow(SimulatedRuntime):
    """Its containers run a while before their start is answered."""

    async def start(self, spec: ContainerSpec) -> ContainerRun:
        run = await super().start(spec)
        await self._clock.sleep(5)
        return run


class SlowlyRefusing(Refusing):
    """Finds out late that it cannot run the program."""

    async def start(self, spec: ContainerSpec) -> ContainerRun:
        await self._clock.sleep(5)
        return await super().start(spec)


@pytest.mark.parametrize(("runtime", "runs"), [(Slow, True), (SlowlyRefusing, False)])
def test_a_container_whose_start_is_given_up_is_known_if_it_runs(runtime: type[SimulatedRuntime], runs: bool) -> None:
    async def story(one: OnePod, runner: ContainerRunner) -> None:
        starting = asyncio.ensure_future(runner.start("c"))
        await one.clock.sleep(1)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert runner.table["c"].running is runs

    play(story, runtime=runtime)


@run_with(play)
async def test_an_end_that_is_told_before_an_earlier_agents_container_is_adopted_is_not_lost(
    one: OnePod, runner: ContainerRunner
) -> None:
    run = ContainerRun("left", PodIdentity("default", "pod", "uid"), "c", 0, one.clock.now())
    runner.container_ended(msgspec.structs.replace(run, finished_at=one.clock.now(), exit_code=3))
    runner.adopt([runner.table["c"].adopt(run)])
    ended = runner.table["c"].ended
    assert ended is not None
    assert ended.exit_code == 3


@run_with(lambda test: play(test, make_pod(restart_policy="Always"), lambda spec: Act(0.1, 1)))
async def test_the_pauses_between_runs_that_fail_are_told_as_go_prints_them(
    one: OnePod, runner: ContainerRunner
) -> None:
    said = []
    for _ in range(5):
        await runner.start("c")
        await one.clock.sleep(1)
        waiting = runner.table["c"].waiting
        if waiting is not None:
            said.append(waiting.message.partition(" restarting ")[0])
    assert said == [f"back-off {pause}" for pause in ("10s", "20s", "40s", "1m20s")]
    told = one.events.messages("BackOff")
    assert set(told) == {"Back-off restarting failed container c in pod p_default(uid-p)"}


@run_with(lambda test: play(test, make_pod(restart_policy="Always")))
async def test_a_container_of_a_pod_that_is_ending_is_not_restarted(one: OnePod, runner: ContainerRunner) -> None:
    await runner.start("c")
    one.life.advance(PodStage.STOPPING)
    await runner.end_all(GracePeriod(one.clock))
    record = runner.table["c"]
    assert not record.running
    assert record.stopping
    assert record.waiting is None
    assert one.events.messages("Killing") == ["Stopping container c"]
    assert one.events.messages("BackOff") == []


def test_a_container_that_is_not_alive_is_killed_with_the_probes_own_grace() -> None:
    probe = Probe(
        exec=ExecAction(command=("false",)), period_seconds=5, failure_threshold=1, termination_grace_period_seconds=7
    )
    container = Container(name="c", image="i", liveness_probe=probe)

    class Sick(SimulatedRuntime):
        async def exec(self, *_: Any, **__: Any) -> Any:
            raise RuntimeFailure("NotFound", "nothing runs here")

    async def story(one: OnePod, runner: ContainerRunner) -> None:
        await runner.start("c")
        begun = one.clock.monotonic()
        await runner.table.until_ended("c")
        assert one.events.messages("Killing") == ["Container c failed liveness probe, will be restarted"]
        assert one.events.messages("Unhealthy")[0].startswith("Liveness probe failed: ")
        ended = runner.table["c"].ended
        assert ended is not None
        assert ended.signal == 9
        assert 7 <= one.clock.monotonic() - begun <= 13

    play(story, make_pod("p", container), lambda spec: Act(stop_seconds=100), Sick)


@run_with(play)
async def test_containers_for_debugging_are_added_while_the_pod_runs(one: OnePod, runner: ContainerRunner) -> None:
    await runner.start("c")
    ephemeral = (EphemeralContainer(name="debug", image="i"),)
    one.object.note_written(replace(one.object.pod, spec=replace(one.object.pod.spec, ephemeral_containers=ephemeral)))
    for _ in range(2):
        runner.add_ephemeral()
    assert [record.name for record in runner.table.all] == ["c", "debug"]
    assert runner.table["c"].running
    await runner.start("debug")
    assert one.events.told[-1][3] == "spec.ephemeralContainers{debug}"


@run_with(play)
async def test_the_end_of_a_container_that_nobody_knows_is_ignored(one: OnePod, runner: ContainerRunner) -> None:
    await runner.start("c")
    (spec,) = one.runtime.specs.values()
    runner.container_ended(ContainerRun("x", spec.pod, "other", 0, 0.0, finished_at=1.0, exit_code=0))
    runner.container_ended(ContainerRun("earlier", spec.pod, "c", 0, 0.0, finished_at=1.0, exit_code=0))
    assert runner.table["c"].running
