"""The work queue's promises, in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.scheme import GroupResource
from cathedra.api.status import conflict, not_found
from cathedra.client.backoff import ItemBackoff, TokenBucket
from cathedra.client.workqueue import (
    TURN_KEYS,
    NotRetryable,
    QueueShutDown,
    WorkQueue,
    one_of_many,
    run_workers,
)
from cathedra.clock import LoopClock, run_virtual
from tests.running import run_with


def virtual(make: Any) -> Any:
    async def main() -> Any:
        return await make(WorkQueue(LoopClock(asyncio.get_running_loop())))

    return run_virtual(main())


@run_with(virtual)
async def test_a_key_added_twice_is_given_out_once(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


@run_with(virtual)
async def test_a_key_added_while_in_work_comes_again_after_done_and_not_before(queue: WorkQueue[str]) -> None:
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    assert len(queue) == 0
    queue.done(key)
    assert await queue.get() == "a"
    queue.done("a")
    assert queue.idle


def test_of_two_delays_the_shorter_counts() -> None:
    async def body(queue: WorkQueue[str]) -> float:
        queue.add_after("a", 50)
        queue.add_after("a", 5)
        queue.add_after("a", 500)
        await queue.get()
        queue.done("a")
        return asyncio.get_running_loop().time()

    assert virtual(body) == 5


def test_failing_key_comes_back_with_doubling_delay_and_starts_over_after_success() -> None:
    async def body(queue: WorkQueue[str]) -> list[float]:
        loop = asyncio.get_running_loop()
        times = []
        for _ in range(4):
            queue.add_rate_limited("a")
            await queue.get()
            times.append(round(loop.time(), 6))
            queue.done("a")
        queue.forget("a")
        queue.add_rate_limited("a")
        await queue.get()
        times.append(round(loop.time(), 6))
        return times

    assert virtual(body) == [0.005, 0.015, 0.035, 0.075, 0.08]


def test_the_longest_delay_is_a_thousand_seconds() -> None:
    backoff: ItemBackoff[str] = ItemBackoff()
    assert max(backoff.delay("a") for _ in range(5000)) == 1000


def test_all_failing_keys_together_are_bound_to_ten_per_second() -> None:
    async def body(queue: WorkQueue[int]) -> float:
        for key in range(200):
            queue.add_rate_limited(key)
        for _ in range(200):
            queue.done(await queue.get())
        return asyncio.get_running_loop().time()

    assert virtual(body) == pytest.approx(10.0, abs=0.2)


def test_keys_whose_write_lost_a_race_do_not_wait_for_each_other() -> None:
    async def body(queue: WorkQueue[str]) -> float:
        conflicts, done, ended = set[str](), set[str](), asyncio.Event()

        async def reconcile(key: str) -> None:
            if key not in conflicts:
                conflicts.add(key)
                raise conflict(GroupResource("", "pods"), key, "the object has been modified")
            done.add(key)
            if len(done) == 1000:
                ended.set()

        for number in range(1000):
            queue.add(f"k{number}")
        working = asyncio.create_task(run_workers(queue, reconcile))
        await ended.wait()
        working.cancel()
        return asyncio.get_running_loop().time()

    assert virtual(body) < 1


@run_with(virtual)
async def test_shutting_down_wakes_everybody_who_waits(queue: WorkQueue[str]) -> None:
    waiting = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.add_after("late", 10)
    queue.shut_down()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(outcome, QueueShutDown) for outcome in outcomes)
    queue.add("a")
    assert len(queue) == 0


@run_with(virtual)
async def test_a_cancelled_worker_loses_no_key(queue: WorkQueue[str]) -> None:
    first, second = asyncio.ensure_future(queue.get()), asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await second == "a"


def test_workers_retry_what_fails_and_not_what_cannot_succeed() -> None:
    async def body(queue: WorkQueue[str]) -> dict[str, int]:
        seen: dict[str, int] = {}

        async def reconcile(key: str) -> float | None:
            seen[key] = seen.get(key, 0) + 1
            if key == "flaky" and seen[key] < 3:
                raise not_found(GroupResource("", "pods"), "x")
            if key == "bug" and seen[key] < 2:
                raise ZeroDivisionError
            if key == "never":
                raise NotRetryable("no use")
            return 60 if key == "periodic" and seen[key] < 4 else None

        for key in ("flaky", "bug", "never", "periodic"):
            queue.add(key)
        task = asyncio.ensure_future(run_workers(queue, reconcile, workers=2))
        await asyncio.sleep(1000)
        await cancelled(task)
        return seen

    assert virtual(body) == {"flaky": 3, "bug": 2, "never": 1, "periodic": 4}


def test_one_key_is_never_worked_on_by_two_workers_at_a_time() -> None:
    async def body(queue: WorkQueue[str]) -> int:
        running: set[str] = set()
        runs = 0

        async def reconcile(key: str) -> None:
            nonlocal runs
            assert key not in running
            running.add(key)
            runs += 1
            queue.add(key) if runs < 50 else None
            await asyncio.sleep(1)
            running.discard(key)

        task = asyncio.ensure_future(run_workers(queue, reconcile, workers=8))
        queue.add("a")
        queue.add("b")
        await asyncio.sleep(500)
        await cancelled(task)
        return runs

    assert virtual(body) >= 50


@given(st.lists(st.floats(0, 5), max_size=50))
def test_a_bucket_never_lets_more_through_than_burst_and_rate(pauses: list[float]) -> None:
    class Hand:
        at = 0.0

        def monotonic(self) -> float:
            return self.at

        def now(self) -> float:
            return self.at

        def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
            return asyncio.sleep(seconds)

    clock = Hand()
    bucket = TokenBucket(clock, rate=2, burst=3)
    taken = 0
    for pause in pauses:
        clock.at += pause
        taken += bucket.take()
        assert taken <= 3 + 2 * clock.at + 1e-6


async def cancelled(task: asyncio.Future[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_what_fails_on_one_of_many_is_logged_and_the_loop_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    done = []
    for number, failure in enumerate([TypeError("odd"), not_found(GroupResource("", "pods"), "p"), None]):
        with one_of_many(logging.getLogger("parts"), "pod %d", number):
            if failure is not None:
                raise failure
            done.append(number)
    assert done == [2]
    assert [(record.levelname, record.message) for record in caplog.records] == [("ERROR", "pod 0")]
    with pytest.raises(asyncio.CancelledError), one_of_many(logging.getLogger("parts"), "pod"):
        raise asyncio.CancelledError


def test_other_tasks_run_between_many_keys_that_need_no_waiting() -> None:
    async def body() -> tuple[int, int]:
        queue: WorkQueue[int] = WorkQueue(LoopClock(asyncio.get_running_loop()))
        done: list[int] = []

        async def reconcile(key: int) -> None:
            done.append(key)

        async def look() -> int:
            return len(done)

        for key in range(100):
            queue.add(key)
        working = asyncio.create_task(run_workers(queue, reconcile))
        await asyncio.sleep(0)  # the group creates its tasks
        looking = asyncio.create_task(look())
        await asyncio.sleep(1)
        working.cancel()
        return await looking, len(done)

    found, in_the_end = run_virtual(body())
    assert 0 < found <= TURN_KEYS
    assert in_the_end == 100
