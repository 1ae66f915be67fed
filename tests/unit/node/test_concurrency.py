"""The first of several, tasks that end with their block, and wake-ups, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from cathedra.clock import run_virtual
from cathedra.node.concurrency import BlockTasks, Event, Wakeup, first_of, until_gone, until_set


def virtual(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def play() -> None:
        run_virtual(test())

    play.__name__ = test.__name__
    return play


async def after(seconds: float, done: list[float]) -> None:
    await asyncio.sleep(seconds)
    done.append(seconds)


@virtual
async def test_the_first_ends_the_others() -> None:
    done: list[float] = []
    await first_of(after(3, done), after(1, done), after(2, done))
    assert (done, asyncio.get_running_loop().time()) == ([1], 1)
    await asyncio.sleep(5)
    assert done == [1]


@virtual
async def test_an_error_of_one_reaches_the_caller() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ExceptionGroup) as caught:
        await first_of(fail(), asyncio.sleep(9))
    assert caught.group_contains(ValueError, match="no")


@virtual
async def test_work_ends_when_the_event_is_set() -> None:
    done: list[float] = []
    event = Event()
    asyncio.get_running_loop().call_later(2, event.set)
    await until_set(event, after(3, done))
    assert (done, asyncio.get_running_loop().time()) == ([], 2)
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0
    await until_set(event, after(3, done))  # it is set already
    assert (done, asyncio.get_running_loop().time()) == ([], 2)


@virtual
async def test_work_that_is_done_is_not_ended_later() -> None:
    done: list[float] = []
    event = Event()
    await until_set(event, after(1, done))
    event.set()
    await asyncio.sleep(1)
    assert done == [1]


@virtual
async def test_work_that_sets_the_event_itself_and_is_done_leaves_its_task_uncancelled() -> None:
    event = Event()

    async def work() -> None:
        event.set()

    await until_set(event, work())
    await asyncio.sleep(1)
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


@virtual
async def test_a_cancellation_of_the_task_ends_more_than_the_work() -> None:
    event = Event()
    reached: list[str] = []

    async def task() -> None:
        await until_set(event, after(9, []))
        reached.append("after the work")

    for set_as_well in (False, True):
        running = asyncio.create_task(task())
        await asyncio.sleep(1)
        if set_as_well:
            event.set()
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
    assert reached == []


@virtual
async def test_an_error_of_the_work_reaches_the_caller() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await until_set(Event(), fail())


@virtual
async def test_tasks_end_with_their_block() -> None:
    done: list[float] = []
    async with BlockTasks() as tasks:
        tasks.start(after(1, done))
        tasks.start(after(9, done))
        await asyncio.sleep(2)
    assert (done, asyncio.get_running_loop().time()) == ([1], 2)
    work = after(1, done)
    with pytest.raises(RuntimeError, match="only be started inside the block"):
        tasks.start(work)


@virtual
async def test_tasks_can_be_cancelled_while_the_block_goes_on() -> None:
    done: list[float] = []
    async with BlockTasks() as tasks:
        tasks.start(after(1, done))
        tasks.cancel_all()
        await asyncio.sleep(2)
        tasks.start(after(1, done))
        await asyncio.sleep(2)
    assert done == [1]


@virtual
async def test_a_failing_task_ends_the_block() -> None:
    async def fail() -> None:
        raise ValueError("no")

    async def block() -> None:
        async with BlockTasks() as tasks:
            tasks.start(fail())
            await asyncio.sleep(100)

    with pytest.raises(ExceptionGroup):
        await block()
    assert asyncio.get_running_loop().time() == 0


@virtual
async def test_a_wait_ends_with_its_time_or_with_a_notification_that_may_come_before() -> None:
    wakeup, loop = Wakeup(), asyncio.get_running_loop()
    await wakeup.wait(3)
    assert loop.time() == 3
    wakeup.notify()
    await wakeup.wait(None)
    assert loop.time() == 3
    wakeup.notify()
    wakeup.clear()
    await wakeup.wait(2)
    assert loop.time() == 5


async def test_a_stream_ends_with_its_client_and_keeps_none_of_its_frames() -> None:
    """The reader of a connection keeps its error; frames in the error's traceback would keep the reader."""
    error = ConnectionResetError()

    @until_gone
    async def serve() -> None:
        raise error

    await serve()
    assert error.__traceback__ is None


async def test_what_is_no_end_of_a_stream_is_raised() -> None:
    @until_gone
    async def serve() -> None:
        raise ValueError("no end")

    with pytest.raises(ValueError, match="no end"):
        await serve()


@virtual
async def test_an_event_wakes_all_that_wait_and_none_that_was_cancelled() -> None:
    event, woken = Event(), list[str]()

    async def wait(name: str) -> None:
        await event.wait()
        woken.append(name)

    tasks = [asyncio.create_task(wait(name)) for name in ("a", "b", "c")]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.sleep(0)
    assert not event.is_set()
    event.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (woken, event.is_set()) == (["a", "c"], True)
    await event.wait()
    event.clear()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await event.wait()
