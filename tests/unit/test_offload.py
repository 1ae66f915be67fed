"""Long computations beside the event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from cathedra.offload import ComputationLost, ComputeProcess, ComputeThread, DeadlineExceeded, Interruption


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


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def _exists(pid: int) -> bool:
    """Return True if there is such a process, which may have ended and not been waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@forks
async def test_a_process_computes_on_what_exists_and_changes_nothing_here() -> None:
    compute, known = ComputeProcess(), ["a"]

    def work(_: Interruption) -> tuple[int, list[str]]:
        known.append("b")
        return os.getpid(), known

    pid, found = await compute.run(work, seconds=30.0)
    assert pid != os.getpid()
    assert (found, known) == (["a", "b"], ["a"])
    assert not _exists(pid)


@forks
async def test_the_event_loop_runs_while_a_process_computes_without_pauses() -> None:
    compute = ComputeProcess()
    asked = asyncio.ensure_future(compute.run(lambda _: sorted(range(3_000_000), key=str)[0], seconds=60.0))
    turns = 0
    while not asked.done():
        await asyncio.sleep(0)
        turns += 1
    assert asked.result() == 0
    assert turns > 100


@forks
async def test_a_process_may_run_an_event_loop_of_its_own() -> None:
    async def body() -> int:
        await asyncio.sleep(0)
        return 7

    assert await ComputeProcess().run(lambda _: asyncio.run(body()), seconds=30.0) == 7


def _until_interrupted(interrupted: Interruption) -> None:
    while True:
        interrupted.check()


def _fail(_: Interruption) -> None:
    raise ValueError("odd")


@forks
async def test_a_process_that_takes_too_long_fails_or_dies_leaves_the_next_one_its_turn() -> None:
    compute = ComputeProcess()
    with pytest.raises(DeadlineExceeded):
        await compute.run(_until_interrupted, seconds=0.05)
    with pytest.raises(ComputationLost, match="ValueError: odd"):
        await compute.run(_fail, seconds=30.0)
    with pytest.raises(ComputationLost, match="without a result"):
        await compute.run(lambda _: os.kill(os.getpid(), signal.SIGKILL), seconds=30.0)
    assert await compute.run(lambda _: 1, seconds=30.0) == 1


@forks
async def test_a_process_ends_when_its_caller_is_cancelled() -> None:
    compute = ComputeProcess()
    read, write = os.pipe()

    def work(interrupted: Interruption) -> None:
        os.write(write, str(os.getpid()).encode())
        _until_interrupted(interrupted)

    running = asyncio.create_task(compute.run(work, seconds=60.0))
    pid = int(await asyncio.to_thread(os.read, read, 20))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not _exists(pid)
    assert await compute.run(lambda _: 1, seconds=30.0) == 1
    os.close(read)
    os.close(write)


@forks
async def test_nothing_is_forked_while_a_thread_computes() -> None:
    computing = asyncio.Lock()

    @asynccontextmanager
    async def still() -> AsyncIterator[None]:
        async with computing:
            yield

    compute = ComputeProcess(still)
    await computing.acquire()
    asked = asyncio.ensure_future(compute.run(lambda _: 1, seconds=30.0))
    done, _ = await asyncio.wait((asked,), timeout=0.05)
    assert not done
    computing.release()
    assert await asked == 1


async def test_work_for_which_no_thread_can_be_started_is_dropped_and_later_work_is_done() -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    done: list[str] = []
    thread = ComputeThread()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(MemoryError, match="can't start new thread"):
            await thread.run(lambda _: done.append("dropped"), seconds=1)
    await thread.run(lambda _: done.append("later"), seconds=1)
    thread.close()
    assert done == ["later"]
