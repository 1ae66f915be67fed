"""An advisor beside an API server: events once for each reason, also over restarts, and no more than allowed."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import ResourceClaim, ResourceSlice
from cathedra.api.struct import replace
from cathedra.client.resources import RESOURCESLICES as _SLICES
from tests.running import run_with
from tests.unit.advisor.world import World, waiting, with_world
from tests.unit.scheduler.objects import claim, exactly, node, pod, slice_

LESS = "lower the count of request 'gpu' of claim default/a from 4 to 2"


@run_with(with_world)
async def test_a_pod_that_waits_gets_the_reason_and_the_smallest_change_that_helps(world: World) -> None:
    world.advise()
    await world.create(*waiting("a", 4))
    (text,) = await world.until_event("a")
    assert text.startswith("request 'gpu' needs 4, 2 devices in reach. Would help (tried): ")
    assert LESS in text


@run_with(with_world)
async def test_a_pod_that_fits_and_is_bound_gets_no_event(world: World) -> None:
    advisor = world.advise()
    await world.create(*waiting("a", 2))
    await world.clock.sleep(2)
    await world.bind("a")
    await world.clock.sleep(60)
    assert await world.events() == ()
    assert advisor.statistics()["waiting"] == 0


@run_with(with_world)
async def test_pods_without_devices_are_left_to_the_scheduler(world: World) -> None:
    world.advise()
    await world.create(pod("plain", requests={"cpu": "100"}))
    await world.clock.sleep(60)
    assert await world.events() == ()


@run_with(with_world)
async def test_an_event_is_written_again_only_when_the_reason_changes(world: World) -> None:
    world.advise()
    await world.create(*waiting("a", 4))
    await world.until_event("a")
    # Another figure of the same reason.
    await world.create(node("n2"), slice_("n2", 3))
    await world.clock.sleep(120)
    assert len(await world.texts("a", "Pod")) == 1
    await world.change(ResourceSlice, "n1-gpu.example.com", _incomplete)
    await world.client.resource(_SLICES).delete("n2-gpu.example.com")
    await world.clock.sleep(120)
    assert len(await world.texts("a", "Pod")) == 2


def _incomplete(piece: ResourceSlice) -> ResourceSlice:
    return replace(piece, spec=replace(piece.spec, pool=replace(piece.spec.pool, generation=2, resource_slice_count=2)))


@run_with(with_world)
async def test_a_restart_repeats_nothing(world: World) -> None:
    world.advise()
    await world.create(*waiting("a", 4))
    await world.until_event("a", 2)
    before = await world.events()
    await world.stop()
    advisor = world.advise()
    await world.clock.sleep(120)
    assert advisor.statistics()["judged"] > 0
    assert await world.events() == before


@run_with(with_world)
async def test_equal_pods_are_answered_once(world: World) -> None:
    advisor = world.advise()
    shared = claim("shared", exactly(count=4))
    entry = {"name": "gpu", "resourceClaimName": "shared"}
    await world.create(shared, *(pod(f"p{number}", resourceClaims=[entry]) for number in range(20)))
    await world.until_event("p19")
    assert len(await world.events()) == 20
    assert advisor.statistics()["judged"] <= 3


@run_with(with_world)
async def test_no_more_events_are_written_in_a_minute_than_allowed(world: World) -> None:
    world.advise(events_per_minute=6)
    entry = {"name": "gpu", "resourceClaimName": "shared"}
    await world.create(claim("shared", exactly(count=4)))
    await world.create(*(pod(f"p{number}", resourceClaims=[entry]) for number in range(20)))
    await world.clock.sleep(30)
    assert 6 <= len(await world.events()) <= 9
    await world.clock.sleep(240)
    # Each pod, and the claim, which no pod can use.
    assert len(await world.events()) == 21


@pytest.mark.parametrize(
    ("options", "judged"),
    [({"events": False}, 1), ({"namespace": "elsewhere"}, 0)],
    ids=["events are off", "pods of other namespaces are not explained"],
)
@run_with(with_world)
async def test_no_event_is_written(world: World, *, options: dict[str, Any], judged: int) -> None:
    advisor = world.advise(**options)
    await world.create(*waiting("a", 4))
    await world.clock.sleep(60)
    assert await world.events() == ()
    found = advisor.statistics()
    assert (found["judged"], found["answers"]) == (judged, judged)


@run_with(with_world)
async def test_the_reason_follows_the_cluster(world: World) -> None:
    advisor = world.advise()
    await world.create(*waiting("a", 4))
    await world.until_event("a")
    await world.create(node("n2"), slice_("n2", 4))
    await world.api.until(lambda: advisor.alarm.current)
    assert advisor.alarm.current[0].node == "n2"


@run_with(with_world)
async def test_churn_writes_no_storm_of_events_and_keeps_nothing(world: World) -> None:
    advisor = world.advise()
    await world.create(*waiting("always", 4))
    await world.until_event("always", 2)
    sizes = []
    for number in range(120):
        # Pods come, are bound or refused, and go; the free devices change all the time.
        name = f"p{number}"
        await world.create(*waiting(name, 1 + number % 3))
        await world.clock.sleep(5)
        if number % 3 < 2:
            await world.bind(name)
        await world.clock.sleep(4)
        await world.delete(Pod, name)
        await world.delete(ResourceClaim, name)
        await world.clock.sleep(1)
        sizes.append(sum(advisor.statistics().values()) - advisor.statistics()["judged"])
    # One event for each pod that wants more than there is, and one for each that nothing had scheduled for 5 s.
    assert len(await world.events()) <= 122
    assert max(sizes[60:]) <= max(sizes[:60])
    assert advisor.statistics()["judged"] < 1000
