"""Work beside the next pod's cycle."""

from __future__ import annotations

import asyncio
import logging

import pytest

from cathedra.clock import run_virtual
from cathedra.scheduler.background import STOP_SECONDS, Background, TaskLimit


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


def test_leaving_in_the_turn_in_which_the_last_work_ends_comes_to_an_end() -> None:
    ended: list[str] = []

    async def work() -> None:
        ended.append("work")

    async def main() -> None:
        async with Background(2) as background:
            background.start(work())
            await asyncio.sleep(0)

    run_virtual(main())
    assert ended == ["work"]


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
            with await background.writing.place():
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


def test_what_is_spared_comes_to_its_end_but_does_not_take_for_ever() -> None:
    ended: list[str] = []

    async def work(background: Background, name: str, seconds: float) -> None:
        try:
            background.spare(name)
            await asyncio.sleep(seconds)
            ended.append(f"{name} done")
        except asyncio.CancelledError:
            ended.append(f"{name} cancelled")
            raise

    async def main() -> float:
        async with Background(2) as background:
            background.start(work(background, "quick", STOP_SECONDS / 2), "quick")
            background.start(work(background, "slow", 3600.0), "slow")
            await asyncio.sleep(0)
            began = asyncio.get_running_loop().time()
        return asyncio.get_running_loop().time() - began

    assert run_virtual(main()) == STOP_SECONDS
    assert ended == ["quick done", "slow cancelled"]


def test_a_place_that_comes_free_for_one_who_is_cancelled_goes_to_the_next() -> None:
    entered: list[str] = []

    async def enter(places: TaskLimit, name: str) -> None:
        with await places.place():
            entered.append(name)
            await asyncio.sleep(1)

    async def main() -> None:
        places = TaskLimit(1)
        with await places.place():
            tasks = [asyncio.create_task(enter(places, name)) for name in ("gone", "leaving", "last")]
            await asyncio.sleep(1)
            tasks[0].cancel()
        # Its turn has come, but it has not run since.
        tasks[1].cancel()
        await asyncio.wait(tasks)
        await enter(places, "later")

    run_virtual(main())
    assert entered == ["last", "later"]
