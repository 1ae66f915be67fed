"""How long a request may take, as its ``timeout`` says."""

from __future__ import annotations

import asyncio

import pytest

from cathedra.api.status import StatusError
from cathedra.apiserver.pipeline.deadlines import Deadlines, deadline_of
from cathedra.clock import run_virtual


@pytest.mark.parametrize(
    ("text", "seconds"), [("", 60), ("0", 60), ("1s", 1), ("1m30s", 60), ("250ms", 0.25), ("-1s", 60), ("1.5s", 1.5)]
)
def test_a_request_says_how_long_it_may_take(text: str, seconds: float) -> None:
    assert deadline_of(text) == seconds


def test_a_duration_that_is_none_is_refused() -> None:
    with pytest.raises(StatusError, match='time: invalid duration "x"'):
        deadline_of("x")


@pytest.mark.parametrize("text", ["1" * 200 + "s", "300y", "1", "1s1", "--1s", "١s", "9999999999999h"])
def test_what_go_does_not_read_as_a_duration_is_refused(text: str) -> None:
    with pytest.raises(StatusError, match="invalid duration"):
        deadline_of(text)


async def lasting(deadlines: Deadlines, limit: float, seconds: float) -> float | str:
    """When work of so many seconds ended within a limit, or why it did not."""
    try:
        with deadlines.within(limit):
            await asyncio.sleep(seconds)
    except TimeoutError:
        return f"over at {asyncio.get_running_loop().time():.3f}"
    return asyncio.get_running_loop().time()


def test_what_takes_too_long_ends_at_its_own_deadline() -> None:
    """The shorter ones come later: the timer has to be set anew for them."""

    async def body() -> None:
        deadlines = Deadlines()
        limits = ((60.0, 100.0), (60.0, 1.0), (5.0, 100.0), (2.0, 100.0), (2.5, 1.5))
        found = await asyncio.gather(*(lasting(deadlines, *limit) for limit in limits))
        assert found == ["over at 60.000", 1.0, "over at 5.000", "over at 2.000", 1.5]
        assert await lasting(deadlines, 10.0, 20.0) == "over at 70.000"

    run_virtual(body())


def test_a_cancellation_from_elsewhere_is_no_deadline() -> None:
    async def body() -> None:
        task = asyncio.create_task(lasting(Deadlines(), 60.0, 100.0))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(body())


def test_a_deadline_within_another_leaves_that_alone() -> None:
    async def body() -> None:
        deadlines = Deadlines()
        with deadlines.within(60.0):
            assert await lasting(deadlines, 1.0, 10.0) == "over at 1.000"
            await asyncio.sleep(10)
        current = asyncio.current_task()
        assert current is not None
        assert current.cancelling() == 0

    run_virtual(body())
