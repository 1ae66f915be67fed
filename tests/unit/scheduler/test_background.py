"""Work beside the next pod's cycle."""

from __future__ import annotations

import asyncio
import logging

import pytest

from cathedra.clock import run_virtual
from cathedra.scheduler.background import Background


def test_leaving_cancels_what_still_runs_and_waits_for_its_end() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(1)
            ended.append("cleaned up")

    async def main() -> None:
        async with Background(2) as background:
            background.start(work())
            await asyncio.sleep(0)
            assert background.running == 1
        assert ended == ["cleaned up"]
        assert background.running == 0

    run_virtual(main())


def test_a_defect_is_logged_and_ends_nothing_but_itself(caplog: pytest.LogCaptureFixture) -> None:
    done = asyncio.Event()

    async def breaks() -> None:
        raise KeyError("lost")

    async def goes_on() -> None:
        await asyncio.sleep(1)
        done.set()

    async def main() -> None:
        async with Background(2) as background:
            background.start(breaks())
            background.start(goes_on())
            await done.wait()

    with caplog.at_level(logging.ERROR):
        run_virtual(main())
    assert "work in the background broke" in caplog.text


def test_nothing_is_begun_once_the_scheduler_stops() -> None:
    begun: list[str] = []

    async def late() -> None:
        begun.append("late")

    async def starts_another(background: Background) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            background.start(late())

    async def main() -> None:
        async with Background(2) as background:
            background.start(starts_another(background))
            await asyncio.sleep(0)

    run_virtual(main())
    assert begun == []


def test_so_many_may_write_at_the_same_time() -> None:
    async def main() -> int:
        writing = most = 0

        async def work(background: Background) -> None:
            nonlocal writing, most
            async with background.writing:
                writing += 1
                most = max(most, writing)
                await asyncio.sleep(1)
                writing -= 1

        async with Background(3) as background:
            for _ in range(10):
                background.start(work(background))
            await asyncio.sleep(10)
        return most

    assert run_virtual(main()) == 3
