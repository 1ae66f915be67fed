"""One call at a time, in a process and among processes."""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
from pathlib import Path

import pytest

from cathedra.clock import LoopClock, run_virtual
from cathedra.driver.preparing.lock import LOCK_FILE, FileLock, NoLock, ProcessLock, Serializer


async def overlap(lock: Serializer) -> int:
    """How many of three calls were inside at the same time."""
    inside = most = 0

    async def call() -> None:
        nonlocal inside, most
        async with lock.held():
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(1)
            inside -= 1

    await asyncio.gather(*(call() for _ in range(3)))
    return most


def test_calls_follow_each_other_unless_the_driver_looks_after_itself(tmp_path: Path) -> None:
    async def body() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        assert await overlap(NoLock()) == 3
        assert await overlap(ProcessLock()) == 1
        assert await overlap(FileLock(tmp_path, clock)) == 1

    run_virtual(body())


def test_another_process_is_waited_for(tmp_path: Path) -> None:
    async def body() -> None:
        lock = FileLock(tmp_path, LoopClock(asyncio.get_running_loop()))
        other = os.open(tmp_path / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(other, fcntl.LOCK_EX)
        entered = asyncio.Event()

        async def call() -> None:
            async with lock.held():
                entered.set()

        waiting = asyncio.ensure_future(call())
        await asyncio.sleep(10)
        assert not entered.is_set()
        os.close(other)
        await waiting
        assert entered.is_set()

    run_virtual(body())


def test_a_call_that_is_cancelled_gives_its_turn_back(tmp_path: Path) -> None:
    async def body() -> None:
        lock = FileLock(tmp_path, LoopClock(asyncio.get_running_loop()))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1), lock.held():
                await asyncio.sleep(10)
        async with lock.held():
            pass

    run_virtual(body())


def test_other_users_cannot_take_the_lock(tmp_path: Path) -> None:
    async def body() -> None:
        before = os.umask(0)
        try:
            async with FileLock(tmp_path, LoopClock(asyncio.get_running_loop())).held():
                assert stat.S_IMODE((tmp_path / LOCK_FILE).stat().st_mode) == 0o600
        finally:
            os.umask(before)

    run_virtual(body())
