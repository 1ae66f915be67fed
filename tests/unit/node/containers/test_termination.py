"""Ending containers: grace, stop signals and the order, in virtual time."""

from __future__ import annotations

import asyncio

from cathedra.api.core.core_v1 import Container, Lifecycle, LifecycleHandler, SleepAction
from cathedra.clock import LoopClock, run_virtual
from cathedra.node.containers.records import ContainerRecord
from cathedra.node.containers.table import ContainerTable
from cathedra.node.containers.termination import GracePeriod, Terminator
from cathedra.node.runtime.runtime import ContainerRun, ContainerSpec, PodIdentity
from cathedra.node.runtime.simulated import Act, SimulatedRuntime

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


def test_containers_end_together_and_sidecars_after_them_in_reverse_order() -> None:
    async def main() -> None:
        ending = Ending(stop_seconds=3)
        sidecars = [ContainerRecord(Container(name=name, restart_policy="Always"), init=True) for name in ("s1", "s2")]
        await ending.run(*sidecars, *(ContainerRecord(Container(name=name)) for name in "ab"))
        assert await ending.end(30) == 9
        assert ending.order == ["a", "b", "s2", "s1"]

    run_virtual(main())


def test_what_does_not_end_in_time_is_killed() -> None:
    async def main() -> None:
        ending = Ending(stop_seconds=1000)
        await ending.run(ContainerRecord(Container(name="c")))
        assert await ending.end(7) == 7
        run = ending.table["c"].ended
        assert run is not None
        assert (run.exit_code, run.signal) == (137, 9)

    run_virtual(main())


def test_a_hook_counts_against_the_grace_period_but_leaves_two_seconds() -> None:
    async def main() -> None:
        hook = Lifecycle(pre_stop=LifecycleHandler(sleep=SleepAction(seconds=100)))
        ending = Ending(stop_seconds=1000)
        await ending.run(ContainerRecord(Container(name="c", lifecycle=hook)))
        assert await ending.end(5) == 7

    run_virtual(main())


def test_a_container_lost_during_its_hook_ends_the_waiting() -> None:
    async def main() -> None:
        hook = Lifecycle(pre_stop=LifecycleHandler(sleep=SleepAction(seconds=100)))
        ending = Ending(stop_seconds=1000)
        await ending.run(ContainerRecord(Container(name="c", lifecycle=hook)))
        asyncio.get_running_loop().call_later(4, ending.runtime.lose_shim)
        assert await ending.end(60) == 4

    run_virtual(main())


def test_a_grace_period_can_only_become_shorter() -> None:
    async def main() -> None:
        grace = GracePeriod(LoopClock(asyncio.get_running_loop()))
        grace.limit(10)
        grace.limit(20)
        assert grace.left == 10
        waiting = asyncio.create_task(grace.over())
        await asyncio.sleep(1)
        grace.limit(1)
        await waiting
        assert asyncio.get_running_loop().time() == 2

    run_virtual(main())
