"""Long computations beside the event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial

import pytest

from cathedra.offload import ComputeThread, DeadlineExceeded, Interruption


async def test_short_work_is_done_on_the_loop() -> None:
    compute = ComputeThread()
    assert await compute.complete(lambda _: threading.current_thread(), seconds=1.0) is threading.main_thread()
    assert compute.statistics()["computed"] == 0


async def test_long_work_starts_again_in_the_thread_and_the_loop_goes_on() -> None:
    compute = ComputeThread()
    longest = 0.0

    def work(interrupted: Interruption) -> str:
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            interrupted.check()
        return threading.current_thread().name

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.001)
            longest = max(longest, time.monotonic() - before)

    watching = asyncio.create_task(watch())
    assert (await compute.complete(work, seconds=5.0)).startswith("compute")
    watching.cancel()
    assert longest < 0.3, "the work takes 0.5 s; a turn takes 0.01 s"


async def test_work_that_takes_too_long_is_refused() -> None:
    compute = ComputeThread()

    def work(interrupted: Interruption) -> None:
        while True:
            interrupted.check()

    with pytest.raises(DeadlineExceeded):
        await compute.complete(work, seconds=0.05)
    assert await compute.run(lambda _: 1, seconds=1.0) == 1


async def test_cancelled_work_gives_the_thread_back() -> None:
    compute = ComputeThread()
    began = threading.Event()

    def work(interrupted: Interruption) -> None:
        began.set()
        while True:
            interrupted.check()

    running = asyncio.create_task(compute.run(work, seconds=3600.0))
    await asyncio.to_thread(began.wait)
    waiting = asyncio.create_task(compute.run(lambda _: 2, seconds=1.0))
    never = asyncio.create_task(compute.run(lambda _: 3, seconds=1.0))
    await asyncio.sleep(0)
    never.cancel()
    running.cancel()
    assert await waiting == 2
    assert running.cancelled() or await asyncio.wait({running})


async def test_owners_take_turns() -> None:
    compute = ComputeThread()
    order: list[str] = []
    begin = threading.Event()
    first = asyncio.create_task(compute.run(lambda _: begin.wait(), seconds=60.0, owner="a"))
    await asyncio.sleep(0)
    rest = []
    for name in ("a1", "a2", "a3", "b1"):
        work = partial(_append, order, name)
        rest.append(asyncio.create_task(compute.run(work, seconds=1.0, owner=name[0])))
        await asyncio.sleep(0)
    begin.set()
    await asyncio.gather(first, *rest)
    assert order == ["a1", "b1", "a2", "a3"]


def _append(order: list[str], name: str, _: Interruption) -> None:
    order.append(name)


async def test_work_is_counted_when_its_call_returns_however_short_it_is() -> None:
    compute = ComputeThread()
    for number in range(1, 200):
        await compute.run(lambda _: None, seconds=1.0)
        assert compute.statistics()["computed"] == number
