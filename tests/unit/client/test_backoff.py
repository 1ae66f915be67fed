"""Delays between attempts."""

from __future__ import annotations

import asyncio

from cathedra.client.backoff import DatedBackoff, DoublingPauses
from cathedra.clock import LoopClock, run_virtual


def test_a_pause_doubles_with_every_failure_and_starts_over_after_a_long_time() -> None:
    async def main() -> list[float]:
        clock = LoopClock(asyncio.get_running_loop())
        backoff: DatedBackoff[str] = DatedBackoff(clock, base=1.0, maximum=4.0)
        pauses = [backoff.pause("a")]
        for _ in range(4):
            backoff.failed("a")
            pauses.append(backoff.pause("a"))
        await clock.sleep(3)
        pauses += [backoff.pause("a"), backoff.pause("b")]
        await clock.sleep(8)
        backoff.failed("a")
        pauses.append(backoff.pause("a"))
        return pauses

    assert run_virtual(main()) == [0, 1, 2, 4, 4, 1, 0, 1]


def test_doubling_pauses_stop_growing_and_start_over_when_they_are_reset() -> None:
    pauses = DoublingPauses(1.0, 5.0)
    assert [pauses.take() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    pauses.reset()
    assert pauses.take() == 1.0
