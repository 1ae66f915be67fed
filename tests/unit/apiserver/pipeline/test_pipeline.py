"""The steps of a request between reading it and answering it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.user import MASTERS_GROUP, UserInfo
from cathedra.apiserver.pipeline.flowcontrol import FlowController
from cathedra.apiserver.pipeline.pipeline import Deadlines, Pipeline, deadline_of
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.requestinfo import request_info
from tests.running import on_virtual_clock
from tests.unit.apiserver.asgi import ASGIClient, open_asgi

JANE = UserInfo("jane")
ADMIN = UserInfo("root", (MASTERS_GROUP,))


def pipeline_of(asgi: ASGIClient, flow: FlowController, *, passes_on: bool = False) -> Pipeline:
    """A pipeline without authentication, beside the server's own."""
    nothing: Any = None
    return Pipeline(asgi.server.context, nothing, flow, metrics=asgi.server.app.metrics, passes_on=lambda _: passes_on)


def record(method: str, user: UserInfo = JANE, *, watch: bool = False, timeout: str = "") -> RequestRecord:
    made = RequestRecord(request_info(method, "/api/v1/pods", watch=watch), b"", "", 0.0, timeout=timeout)
    made.user = made.acting = user
    return made


def returning(value: Any) -> Callable[[], Awaitable[Any]]:
    async def work() -> Any:
        return value

    return work


async def test_a_request_holds_a_seat_for_as_long_as_it_is_carried_out() -> None:
    async with open_asgi() as asgi:
        flow, go_on = FlowController(seats=1), asyncio.Event()
        pipeline = pipeline_of(asgi, flow)
        wait: Any = go_on.wait
        working = asyncio.create_task(pipeline.run(record("POST"), wait))
        await asyncio.sleep(0)
        assert flow.taken == 1
        waiting = asyncio.create_task(pipeline.run(record("GET"), wait))
        await asyncio.sleep(0)
        assert (flow.taken, flow.waiting) == (1, 1)
        assert await pipeline.run(record("GET", ADMIN), returning("at once")) == "at once"
        go_on.set()
        await asyncio.gather(working, waiting)
        assert (flow.taken, flow.waiting) == (0, 0)


async def test_a_request_that_waits_too_long_for_a_seat_is_refused() -> None:
    async with open_asgi() as asgi:
        flow, go_on = FlowController(seats=1, wait=0.01), asyncio.Event()
        pipeline = pipeline_of(asgi, flow)
        wait: Any = go_on.wait
        working = asyncio.create_task(pipeline.run(record("POST"), wait))
        await asyncio.sleep(0)
        with pytest.raises(StatusError) as refused:
            await pipeline.run(record("GET"), returning(None))
        assert refused.value.code == 429
        go_on.set()
        await working


async def test_a_watch_holds_its_seat_until_its_first_events_are_sent() -> None:
    async with open_asgi() as asgi:
        flow = FlowController(seats=1)
        watch, taken = record("GET", watch=True), []

        async def work() -> None:
            taken.append(flow.taken)
            watch.seat.release()
            taken.append(flow.taken)

        await pipeline_of(asgi, flow).run(watch, work)
        assert taken == [1, 0]
        assert flow.taken == 0, "it is released once"


async def test_a_watch_that_another_server_answers_takes_no_seat() -> None:
    async with open_asgi() as asgi:
        flow = FlowController(seats=1)
        taken = []

        async def work() -> None:
            taken.append(flow.taken)

        await pipeline_of(asgi, flow, passes_on=True).run(record("GET", watch=True), work)
        assert taken == [0]


async def test_a_write_ends_with_its_deadline_and_a_read_has_none() -> None:
    async def slow() -> None:
        await asyncio.sleep(0.05)

    async with open_asgi() as asgi:
        pipeline = pipeline_of(asgi, FlowController())
        with pytest.raises(StatusError) as refused:
            await pipeline.run(record("POST", timeout="1ms"), slow)
        assert refused.value.code == 504
        await pipeline.run(record("GET", timeout="1ms"), slow)


async def test_a_timeout_that_is_no_duration_is_refused_for_reads_too() -> None:
    async with open_asgi() as asgi:
        with pytest.raises(StatusError, match="invalid timeout") as refused:
            await pipeline_of(asgi, FlowController()).run(record("GET", timeout="soon"), returning(None))
    assert refused.value.code == 400


# The time limit of a request, by its ``timeout``.


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
    """The time at which work of some seconds ended within a limit, or the error that ended it."""
    try:
        with deadlines.within(limit):
            await asyncio.sleep(seconds)
    except TimeoutError:
        return f"over at {asyncio.get_running_loop().time():.3f}"
    return asyncio.get_running_loop().time()


@on_virtual_clock
async def test_what_takes_too_long_ends_at_its_own_deadline() -> None:
    """The shorter ones come later: the timer has to be set anew for them."""
    deadlines = Deadlines()
    limits = ((60.0, 100.0), (60.0, 1.0), (5.0, 100.0), (2.0, 100.0), (2.5, 1.5))
    found = await asyncio.gather(*(lasting(deadlines, *limit) for limit in limits))
    assert found == ["over at 60.000", 1.0, "over at 5.000", "over at 2.000", 1.5]
    assert await lasting(deadlines, 10.0, 20.0) == "over at 70.000"


@on_virtual_clock
async def test_a_cancellation_from_elsewhere_is_no_deadline() -> None:
    task = asyncio.create_task(lasting(Deadlines(), 60.0, 100.0))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@on_virtual_clock
async def test_a_deadline_within_another_leaves_that_alone() -> None:
    deadlines = Deadlines()
    with deadlines.within(60.0):
        assert await lasting(deadlines, 1.0, 10.0) == "over at 1.000"
        await asyncio.sleep(10)
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0
