"""Ending containers: grace, stop signals and the order, in virtual time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cathedra.api.core.core_v1 import Container, Lifecycle, LifecycleHandler, SleepAction
from cathedra.clock import LoopClock
from cathedra.node.containers.records import ContainerRecord, ContainerTable
from cathedra.node.containers.termination import GracePeriod, Terminator, with_termination_message
from cathedra.node.runtime.runtime import ContainerRun, ContainerSpec, PodIdentity
from cathedra.node.runtime.simulated import Act, SimulatedRuntime
from cathedra.node.setup.directories import PodDirectories
from tests.running import on_virtual_clock
from tests.unit.node.fakes import make_pod

IDENTITY = PodIdentity("d", "p", "u")


class Ending:
    """Containers of a simulated runtime that end ``stop_seconds`` after their signal."""

    def __init__(self, stop_seconds: float) -> None:
        self.clock = LoopClock(asyncio.get_running_loop())
        self.runtime = SimulatedRuntime(self.clock, behaviour=lambda _: Act(stop_seconds=stop_seconds))
        self.table = ContainerTable()
        self.order: list[str] = []

    async def run(self, *records: ContainerRecord) -> None:
        await self.runtime.open(self.ended)
        for record in records:
            run = await self.runtime.start(ContainerSpec(record.name, IDENTITY, record.name, 0, ("x",)))
            self.table.put(record.begin(run, 0.0))

    def ended(self, run: ContainerRun) -> None:
        self.table.put(self.table[run.name].end(run, 0.0, restarts=False))

    async def end(self, seconds: float) -> float:
        """End all of them; how long that took."""
        loop = asyncio.get_running_loop()
        grace, began = GracePeriod(self.clock), loop.time()
        grace.limit(seconds)
        names = [record.name for record in self.table.all]
        terminator = Terminator(self.table, self.runtime, self.clock, address="127.0.0.1", stopping=self.order.append)
        await terminator.end(names, grace)
        assert not any(record.running for record in self.table.all)
        return loop.time() - began


@on_virtual_clock
async def test_containers_end_together_and_sidecars_after_them_in_reverse_order() -> None:
    ending = Ending(stop_seconds=3)
    sidecars = [ContainerRecord(Container(name=name, restart_policy="Always"), init=True) for name in ("s1", "s2")]
    await ending.run(*sidecars, *(ContainerRecord(Container(name=name)) for name in "ab"))
    assert await ending.end(30) == 9
    assert ending.order == ["a", "b", "s2", "s1"]


@on_virtual_clock
async def test_what_does_not_end_in_time_is_killed() -> None:
    ending = Ending(stop_seconds=1000)
    await ending.run(ContainerRecord(Container(name="c")))
    assert await ending.end(7) == 7
    run = ending.table["c"].ended
    assert run is not None
    assert (run.exit_code, run.signal) == (137, 9)


@on_virtual_clock
async def test_a_hook_counts_against_the_grace_period_but_leaves_two_seconds() -> None:
    hook = Lifecycle(pre_stop=LifecycleHandler(sleep=SleepAction(seconds=100)))
    ending = Ending(stop_seconds=1000)
    await ending.run(ContainerRecord(Container(name="c", lifecycle=hook)))
    assert await ending.end(5) == 7


@on_virtual_clock
async def test_a_container_lost_during_its_hook_ends_the_waiting() -> None:
    hook = Lifecycle(pre_stop=LifecycleHandler(sleep=SleepAction(seconds=100)))
    ending = Ending(stop_seconds=1000)
    await ending.run(ContainerRecord(Container(name="c", lifecycle=hook)))
    asyncio.get_running_loop().call_later(4, ending.runtime.lose_shim)
    assert await ending.end(60) == 4


@on_virtual_clock
async def test_a_grace_period_can_only_become_shorter() -> None:
    grace = GracePeriod(LoopClock(asyncio.get_running_loop()))
    grace.limit(10)
    grace.limit(20)
    assert grace.left == 10
    waiting = asyncio.create_task(grace.over())
    await asyncio.sleep(1)
    grace.limit(1)
    await waiting
    assert asyncio.get_running_loop().time() == 2


FALLBACK = Container(name="c", termination_message_policy="FallbackToLogsOnError")


class Left:
    """Record of one ended run of a container."""

    def __init__(self, root: Path) -> None:
        self.directories = PodDirectories(root, make_pod())
        self.file = self.directories.termination_log("c", 0)
        self.log = self.directories.log("c", 0)
        for path in (self.file, self.log):
            path.parent.mkdir(parents=True)

    def message(self, container: Container, code: int) -> str:
        run = ContainerRun("id", PodIdentity("d", "p", "u"), "c", 0, 1.0, finished_at=2.0, exit_code=code)
        return with_termination_message(self.directories, container, run).message


@pytest.fixture
def left(tmp_path: Path) -> Left:
    return Left(tmp_path)


def test_the_file_is_the_message_up_to_4096_bytes(left: Left) -> None:
    left.file.write_bytes(b"x" * 5000)
    assert left.message(Container(name="c"), 0) == "x" * 4096


def test_without_a_file_there_is_none_unless_the_policy_falls_back_after_an_error(left: Left) -> None:
    left.log.write_text("2026-01-01T00:00:00Z stdout F one\n2026-01-01T00:00:00Z stderr F two words\n")
    assert left.message(Container(name="c"), 1) == ""
    assert left.message(FALLBACK, 0) == ""
    assert left.message(FALLBACK, 1) == "one\ntwo words"


def test_the_fallback_is_the_last_80_lines_and_2048_characters(left: Left) -> None:
    left.log.write_text("".join(f"2026-01-01T00:00:00Z stdout F {number}\n" for number in range(200)))
    assert left.message(FALLBACK, 1).split("\n") == [str(number) for number in range(120, 200)]
    left.log.write_text(f"2026-01-01T00:00:00Z stdout F {'y' * 3000}\n")
    assert left.message(FALLBACK, 1) == "y" * 2048


def test_the_file_goes_before_the_log(left: Left) -> None:
    left.file.write_text("file")
    left.log.write_text("2026-01-01T00:00:00Z stdout F log\n")
    assert left.message(FALLBACK, 1) == "file"
