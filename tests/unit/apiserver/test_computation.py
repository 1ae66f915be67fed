"""Long computations of requests: a turn on the loop, then the thread, within the processor time of one request."""

from __future__ import annotations

import asyncio
import threading

import pytest

from cathedra.apiserver.computation import LARGE, Allowance, Computations, Limit
from cathedra.offload import DeadlineExceeded


class Processor:
    """Processor time that passes when the test advances it."""

    def __init__(self) -> None:
        self.used = 0.0

    def __call__(self) -> float:
        return self.used


def until_in_thread(limit: Limit) -> str:
    """Work on until it is in the thread; its name."""
    if threading.current_thread() is threading.main_thread():
        while not limit():
            pass
    return threading.current_thread().name


async def test_short_work_stays_on_the_loop() -> None:
    assert await Allowance(Computations(), "ada", 1.0).complete(lambda _: threading.current_thread()) is (
        threading.main_thread()
    )


async def test_work_that_outlasts_its_turn_starts_again_in_the_thread() -> None:
    computations = Computations()
    assert (await computations.allowance("ada", 1.0).complete(until_in_thread)).startswith("compute")
    computations.close()


async def test_large_objects_and_later_work_of_a_request_without_turn_go_to_the_thread_at_once() -> None:
    computations = Computations()
    allowance = computations.allowance("ada", 1.0)
    assert (await allowance.complete(lambda _: threading.current_thread().name, size=LARGE)).startswith("compute")
    await allowance.complete(until_in_thread)
    assert (await allowance.complete(lambda _: threading.current_thread().name)).startswith("compute")
    computations.close()


async def test_a_user_with_work_in_the_thread_has_no_turn_and_others_have_a_short_one() -> None:
    computations = Computations()
    going = threading.Event()
    task = asyncio.create_task(computations.compute(lambda _: going.wait(), "ada"))
    await asyncio.sleep(0)
    assert computations.turn_of("ada") == 0
    assert 0 < computations.turn_of("bob") < 0.005
    going.set()
    await task
    assert computations.turn_of("ada") == computations.turn_of("bob") > 0.005
    computations.close()


async def test_the_computations_of_a_request_share_its_processor_time() -> None:
    processor = Processor()
    computations = Computations(cpu=processor)
    allowance = computations.allowance("ada", 1.0)

    def spend(limit: Limit) -> int:
        calls = 0
        while not limit():
            calls += 1
            processor.used += 0.001
        return calls

    first = await allowance.complete(spend, size=LARGE)
    assert 1000 <= first <= 1100
    second = await allowance.complete(spend, size=LARGE)
    assert second < 100
    computations.close()


async def test_a_check_ends_work_whose_time_is_used_up() -> None:
    processor = Processor()
    computations = Computations(cpu=processor)

    def work(limit: Limit) -> None:
        while True:
            processor.used += 0.1
            limit.check()

    with pytest.raises(DeadlineExceeded):
        await computations.allowance("ada", 1.0).complete(work, size=LARGE)
    assert computations.statistics()["computed"] == 1
    computations.close()
