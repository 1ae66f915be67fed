"""Scheduler and controllers of a cluster start again after a lost lease."""

from __future__ import annotations

import asyncio

import pytest

from cathedra.client.leaderelection import LostLeadership
from cathedra.clock import LoopClock, run_virtual
from cathedra.cluster.parts.controlplane import restart_after_lost_lease


class Runs:
    """Runs of a control plane: each ends with the next of ``errors``; times of their starts."""

    def __init__(self, clock: LoopClock, *errors: Exception | None, seconds: float = 0.0) -> None:
        self.clock, self.errors, self.seconds = clock, list(errors), seconds
        self.begun: list[float] = []

    async def run(self) -> None:
        self.begun.append(self.clock.monotonic())
        async with asyncio.TaskGroup() as group:
            group.create_task(self._part(self.errors.pop(0)))

    async def _part(self, error: Exception | None) -> None:
        await self.clock.sleep(self.seconds)
        if error is not None:
            raise error


def play(*errors: Exception | None, seconds: float = 0.0) -> list[float]:
    """The seconds between the starts of runs that end so."""

    async def main() -> list[float]:
        clock = LoopClock(asyncio.get_running_loop())
        runs = Runs(clock, *errors, seconds=seconds)
        await restart_after_lost_lease(runs.run, clock)
        return [after - before for before, after in zip(runs.begun, runs.begun[1:], strict=False)]

    return run_virtual(main())


def test_parts_that_lose_their_lease_start_again_after_growing_pauses() -> None:
    lost = LostLeadership("could not renew")
    assert play(lost, lost, lost, None) == [1.0, 2.0, 4.0]


def test_pauses_start_over_after_a_run_that_was_long_enough() -> None:
    lost = LostLeadership("could not renew")
    assert play(lost, lost, lost, None, seconds=100.0) == [101.0, 101.0, 101.0]


def test_any_other_error_ends_the_cluster() -> None:
    with pytest.raises(ExceptionGroup) as ended:
        play(ValueError("a defect"))
    assert ended.value.subgroup(ValueError) is not None
