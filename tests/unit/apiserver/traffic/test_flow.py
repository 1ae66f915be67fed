"""Seats and turns: no user is starved, no request waits for ever."""

from __future__ import annotations

import asyncio

import pytest

from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.traffic.flow import Flow
from cathedra.clock import run_virtual

ALICE, BOB = UserInfo("alice"), UserInfo("bob")


async def visit(flow: Flow, user: UserInfo, order: list[str]) -> None:
    """Take a seat, stay for a second, leave."""
    if not flow.acquire():
        await flow.queue_up(user)
    order.append(user.name)
    await asyncio.sleep(1)
    flow.release()


def test_users_are_served_in_turn() -> None:
    async def scenario() -> list[str]:
        flow, order = Flow(seats=1), list[str]()
        async with asyncio.TaskGroup() as group:
            for user in (ALICE, ALICE, ALICE, ALICE, BOB, BOB):
                group.create_task(visit(flow, user, order))
        assert flow.taken == 0
        return order

    assert run_virtual(scenario()) == ["alice", "alice", "bob", "alice", "bob", "alice"]


def test_a_full_queue_refuses_at_once_and_only_its_own_user() -> None:
    async def scenario() -> None:
        flow, order = Flow(seats=1, queue=1), list[str]()
        async with asyncio.TaskGroup() as group:
            group.create_task(visit(flow, ALICE, order))
            group.create_task(visit(flow, ALICE, order))
            await asyncio.sleep(0)
            with pytest.raises(StatusError, match="Too many requests") as refused:
                await flow.queue_up(ALICE)
            assert (refused.value.code, refused.value.status.details.retry_after_seconds) == (429, 1)  # type: ignore[union-attr]  # it has details
            group.create_task(visit(flow, BOB, order))
        assert order == ["alice", "alice", "bob"]
        assert flow.rejected == 1

    run_virtual(scenario())


def test_who_waits_too_long_is_told_to_come_again() -> None:
    async def scenario() -> None:
        flow = Flow(seats=1, wait=5)
        assert flow.acquire()
        with pytest.raises(StatusError, match="Too many requests"):
            await flow.queue_up(ALICE)
        assert flow.waiting == 0
        flow.release()
        assert flow.taken == 0

    run_virtual(scenario())


def test_a_cancelled_wait_leaves_no_trace() -> None:
    async def scenario() -> None:
        flow = Flow(seats=1)
        assert flow.acquire()
        waiting = asyncio.create_task(flow.queue_up(ALICE))
        await asyncio.sleep(0)
        flow.release()  # the seat is on its way to alice when she gives up
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert flow.taken == 0
        assert flow.acquire()

    run_virtual(scenario())
