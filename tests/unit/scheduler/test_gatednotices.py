"""Pods that are kept out of the queue: told after a while, not before, and only if it is still true."""

from __future__ import annotations

from typing import Any

from cathedra.scheduler.gatednotices import PATIENCE_SECONDS
from tests.unit.scheduler.objects import claim, device_class, exactly, node, pod, slice_
from tests.unit.scheduler.world import World, play

MISSING = 'could not find ResourceClaim "default/mine"'
USING: list[dict[str, Any]] = [{"name": "gpu", "resourceClaimName": "mine"}]


def test_a_pod_whose_claim_nobody_made_is_told_after_a_while() -> None:
    async def body(world: World) -> None:
        await world.create(node("n1"), pod("p", resourceClaims=USING))
        await world.settle(PATIENCE_SECONDS - 1)
        assert await world.events("p") == []
        await world.settle(2)
        assert await world.events("p") == [("FailedScheduling", MISSING)]
        assert await world.condition("p") == ("", "")

    play(body)


def test_a_pod_whose_claim_arrives_in_time_is_told_nothing() -> None:
    async def body(world: World) -> None:
        await world.create(node("n1"), device_class(), slice_("n1"), pod("p", resourceClaims=USING))
        await world.settle(PATIENCE_SECONDS - 1)
        await world.create(claim("mine", exactly()))
        await world.settle(PATIENCE_SECONDS * 2)
        assert [reason for reason, _ in await world.events("p")] == ["Scheduled"]

    play(body)


def test_scheduling_gates_are_the_users_own_wish() -> None:
    async def body(world: World) -> None:
        await world.create(node("n1"), pod("p", schedulingGates=[{"name": "example.com/wait"}]))
        await world.settle(PATIENCE_SECONDS * 2)
        assert await world.events("p") == []

    play(body)
