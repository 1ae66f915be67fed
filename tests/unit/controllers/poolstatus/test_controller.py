"""Requests for the status of pools are answered once, and rightly."""

from __future__ import annotations

import pytest

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.resource_v1alpha3 import (
    ResourcePoolStatusRequest,
    ResourcePoolStatusRequestSpec,
    ResourcePoolStatusRequestStatus,
)
from cathedra.api.resource import (
    Device,
)
from cathedra.api.struct import replace
from cathedra.client.resources import RESOURCEPOOLSTATUSREQUESTS, RESOURCESLICES
from cathedra.controllers.poolstatus.controller import ResourcePoolStatusRequestController
from cathedra.releases import FeatureGates
from tests.unit.controllers.poolstatus.objects import slice_
from tests.unit.controllers.world import World, play

GATES = FeatureGates.for_release("1.37", {"DRAResourcePoolStatus": True})


def request(name: str = "q", **spec: object) -> ResourcePoolStatusRequest:
    made = ResourcePoolStatusRequestSpec(driver="d.example.com", **spec)  # type: ignore[arg-type]
    return ResourcePoolStatusRequest(metadata=ObjectMeta(name=name), spec=made)


async def status_of(world: World, name: str = "q") -> ResourcePoolStatusRequestStatus | None:
    return (await world.of(RESOURCEPOOLSTATUSREQUESTS).get(name)).status


def test_a_request_is_answered_and_goes_after_an_hour() -> None:
    async def story(world: World) -> None:
        await world.create(RESOURCESLICES, slice_("s", Device(name="a")))
        await world.create(RESOURCEPOOLSTATUSREQUESTS, request())
        await world.quiet()
        answer = await status_of(world)
        assert answer is not None
        assert (answer.pool_count, len(answer.pools), answer.pools[0].total_devices) == (1, 1, 1)
        (condition,) = answer.conditions
        assert (condition.type, condition.status, condition.reason, condition.message) == (
            "Complete",
            "True",
            "CalculationComplete",
            "Calculated status for 1 pools",
        )
        await world.clock.sleep(3500)
        assert await world.names(RESOURCEPOOLSTATUSREQUESTS) == ["q"]
        await world.clock.sleep(800)
        assert await world.names(RESOURCEPOOLSTATUSREQUESTS) == []

    play(ResourcePoolStatusRequestController, story, gates=GATES)


@pytest.mark.parametrize(("limit", "shown"), [(1, 1), (2, 2), (5, 3), (None, 3)])
def test_no_more_pools_are_shown_than_wanted_but_all_are_counted(limit: int | None, shown: int) -> None:
    async def story(world: World) -> None:
        for pool in ("a", "b", "c"):
            made = slice_(pool, Device(name="d"))
            of_pool = replace(made.spec.pool, name=pool)
            await world.create(RESOURCESLICES, replace(made, spec=replace(made.spec, pool=of_pool)))
        await world.create(RESOURCEPOOLSTATUSREQUESTS, request(limit=limit))
        await world.quiet()
        answer = await status_of(world)
        assert answer is not None
        assert (answer.pool_count, [pool.pool_name for pool in answer.pools]) == (3, ["a", "b", "c"][:shown])
        assert answer.conditions[0].message == f"Calculated status for {shown} pools"

    play(ResourcePoolStatusRequestController, story, gates=GATES)


def test_no_matching_pool_is_an_answer_too() -> None:
    async def story(world: World) -> None:
        await world.create(RESOURCEPOOLSTATUSREQUESTS, request(pool_name="nowhere"))
        await world.quiet()
        answer = await status_of(world)
        assert answer is not None
        assert (answer.pool_count, answer.pools) == (0, ())

    play(ResourcePoolStatusRequestController, story, gates=GATES)


def test_an_incomplete_pool_leaves_the_request_pending() -> None:
    async def story(world: World) -> None:
        await world.create(RESOURCESLICES, slice_("s", count=2))
        await world.create(RESOURCEPOOLSTATUSREQUESTS, request())
        await world.clock.sleep(100)
        assert await status_of(world) is None

    play(ResourcePoolStatusRequestController, story, gates=GATES)
