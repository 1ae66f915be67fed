"""Seats, turns and loans: no user is starved, no request waits for ever, free seats are used."""

from __future__ import annotations

import asyncio

import pytest

from cathedra.api.status import StatusError
from cathedra.apiserver.pipeline.flowcontrol import LevelLimits, PriorityLevel, SharedSeats
from cathedra.clock import run_virtual


def level(seats: int = 1, *, queues: int = 64, hand: int = 1, length: int = 200, wait: float = 15) -> PriorityLevel:
    return PriorityLevel(LevelLimits(own=seats, queues=queues, hand=hand, length=length), wait=wait)


async def visit(place: PriorityLevel, flow: str, order: list[str]) -> None:
    """Take a seat, stay for a second, leave."""
    if not place.acquire():
        await place.queue_up(flow)
    order.append(flow)
    await asyncio.sleep(1)
    place.release()


def test_flows_are_served_in_turn() -> None:
    async def scenario() -> list[str]:
        place, order = level(), list[str]()
        async with asyncio.TaskGroup() as group:
            for flow in ("alice", "alice", "alice", "alice", "bob", "bob"):
                group.create_task(visit(place, flow, order))
        assert place.taken == 0
        return order

    assert run_virtual(scenario()) == ["alice", "alice", "bob", "alice", "bob", "alice"]


def test_a_full_queue_refuses_at_once_and_only_its_own_flows() -> None:
    async def scenario() -> None:
        place, order = level(length=1), list[str]()
        async with asyncio.TaskGroup() as group:
            group.create_task(visit(place, "alice", order))
            group.create_task(visit(place, "alice", order))
            await asyncio.sleep(0)
            with pytest.raises(StatusError, match="Too many requests") as refused:
                await place.queue_up("alice")
            assert refused.value.code == 429
            assert refused.value.status.details is not None
            assert refused.value.status.details.retry_after_seconds == 1
            group.create_task(visit(place, "bob", order))
        assert order == ["alice", "alice", "bob"]
        assert place.rejected == 1

    run_virtual(scenario())


def test_a_level_without_queues_refuses_who_finds_no_seat() -> None:
    async def scenario() -> None:
        place = level(queues=0)
        assert place.acquire()
        with pytest.raises(StatusError, match="Too many requests"):
            await place.queue_up("alice")

    run_virtual(scenario())


def test_a_flow_with_several_queues_waits_in_the_shortest() -> None:
    """Two queues of one place each hold two requests of a flow that was dealt both."""

    async def scenario() -> None:
        place, order = level(queues=2, hand=2, length=1), list[str]()
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(visit(place, "alice", order))
            await asyncio.sleep(0)
            assert place.waiting == 2
            with pytest.raises(StatusError):
                await place.queue_up("alice")
        assert order == ["alice"] * 3

    run_virtual(scenario())


def test_who_waits_too_long_is_told_to_come_again() -> None:
    async def scenario() -> None:
        place = level(wait=5)
        assert place.acquire()
        with pytest.raises(StatusError, match="Too many requests"):
            await place.queue_up("alice")
        assert place.waiting == 0
        place.release()
        assert place.taken == 0

    run_virtual(scenario())


def test_a_cancelled_wait_leaves_no_trace() -> None:
    async def scenario() -> None:
        place = level()
        assert place.acquire()
        waiting = asyncio.create_task(place.queue_up("alice"))
        await asyncio.sleep(0)
        place.release()  # the seat is on its way to alice when she gives up
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert place.taken == 0
        assert place.acquire()

    run_virtual(scenario())


def shared(*shapes: LevelLimits) -> list[PriorityLevel]:
    levels = [PriorityLevel(shape) for shape in shapes]
    together = SharedSeats(levels)
    for one in levels:
        one.join(together)
    return levels


def test_a_level_takes_what_others_lend_and_no_more() -> None:
    low, high = shared(LevelLimits(own=1, queues=4), LevelLimits(own=2, lent=2))
    assert [low.acquire() for _ in range(4)] == [True, True, True, False]
    assert [high.acquire() for _ in range(3)] == [True, True, False]


def test_a_level_borrows_no_more_than_it_may() -> None:
    low, _ = shared(LevelLimits(own=1, most=2), LevelLimits(own=0, lent=5))
    assert [low.acquire() for _ in range(3)] == [True, True, False]


def test_a_borrowed_seat_goes_back_to_who_waits_for_it() -> None:
    async def scenario() -> None:
        low, high = shared(LevelLimits(own=1, queues=4), LevelLimits(own=0, lent=1, queues=4))
        assert [low.acquire(), low.acquire(), high.acquire()] == [True, True, False]
        waiting = asyncio.create_task(high.queue_up("x"))
        await asyncio.sleep(0)
        low.release()
        await waiting
        assert (low.taken, high.taken) == (1, 1)

    run_virtual(scenario())
