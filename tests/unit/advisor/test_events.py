"""Selection of events: each reason once for an object, within the limit, also if events expire."""

from __future__ import annotations

import asyncio
from typing import Any

from cathedra.advisor.events import COMPONENT, EXPLAINED, SETTLE_SECONDS, AdvisorEvents
from cathedra.api.core.core_v1 import Event
from cathedra.api.scheme import GroupResource
from cathedra.api.status import forbidden
from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.resources import EVENTS
from cathedra.client.transport import APICall, Transport
from tests.running import run_with
from tests.unit.advisor.world import World, with_world
from tests.unit.scheduler.objects import pod


def events_of(world: World, per_minute: int = 60, client: Client | None = None) -> AdvisorEvents:
    recorder = EventRecorder(client or world.client, COMPONENT, world.clock)
    found = AdvisorEvents(recorder, world.api.informers, world.clock, per_minute=per_minute, enabled=True)
    world.running.append(asyncio.create_task(recorder.run()))
    world.running.append(asyncio.create_task(world.api.informers.run()))
    return found


@run_with(with_world)
async def test_an_object_gets_no_second_event_of_a_reason_before_it_has_settled(world: World) -> None:
    events, about = events_of(world), pod("a")
    assert events.report(about, EXPLAINED, "needs 4, 2 are free")
    assert events.report(about, EXPLAINED, "needs 4, 1 are free")
    assert not events.report(about, EXPLAINED, "the pool is incomplete")
    await world.clock.sleep(SETTLE_SECONDS)
    assert events.report(about, EXPLAINED, "the pool is incomplete")
    assert events.counts == {"written": 2, "repeated": 1, "deferred": 1}


@run_with(with_world)
async def test_reports_beyond_the_bound_wait(world: World) -> None:
    events = events_of(world, per_minute=2)
    assert [events.report(pod(name), EXPLAINED, "x") for name in "abc"] == [True, True, False]
    await world.clock.sleep(31)
    assert events.report(pod("c"), EXPLAINED, "x")


@run_with(with_world)
async def test_a_reason_whose_event_has_expired_is_written_again(world: World) -> None:
    events, about = events_of(world), pod("a")
    events.report(about, EXPLAINED, "x")
    (name,) = [one.metadata.name for one in await _written(world, 1)]
    await world.clock.sleep(1)
    events.report(about, EXPLAINED, "x")
    assert events.counts["repeated"] == 1
    await world.client.resource(EVENTS, "default").delete(name)
    await world.clock.sleep(1)
    events.report(about, EXPLAINED, "x")
    await _written(world, 1)
    assert events.counts["written"] == 2


@run_with(with_world)
async def test_what_is_kept_of_an_event_is_enough_to_repeat_nothing_after_a_restart(world: World) -> None:
    events_of(world).report(pod("a"), EXPLAINED, "needs 4, 2 are free")
    (written,) = await _written(world, 1)
    await world.stop()
    again = events_of(world)
    await world.api.informers.wait_synced()
    (kept,) = world.api.informers.of(EVENTS, field_selector=f"reportingComponent={COMPONENT}").store
    assert (kept.message, kept.metadata.name) == (written.message, written.metadata.name)
    # What an event carries beyond that, such as its object and source, is not kept in memory.
    assert (kept.involved_object.name, kept.source.component, kept.first_timestamp) == ("", "", None)
    assert again.report(pod("a"), EXPLAINED, "needs 4, 1 are free")
    assert again.counts == {"written": 0, "repeated": 1, "deferred": 0}


@run_with(with_world)
async def test_a_refused_event_is_written_later_and_the_one_before_is_not_repeated(
    world: World,
) -> None:
    refusing = _Refusing(world.client.transport)
    events, about = events_of(world, client=Client(refusing, clock=world.clock)), pod("a")
    events.report(about, EXPLAINED, "the pool is incomplete")
    await _written(world, 1)
    await world.clock.sleep(SETTLE_SECONDS)
    refusing.refuses = True
    events.report(about, EXPLAINED, "a device is tainted")
    await world.clock.sleep(1)
    refusing.refuses = False
    # True again, and its event is there.
    assert events.report(about, EXPLAINED, "the pool is incomplete")
    assert not events.report(about, EXPLAINED, "a device is tainted")
    await world.clock.sleep(SETTLE_SECONDS)
    assert events.report(about, EXPLAINED, "a device is tainted")
    found = await _written(world, 2)
    assert [(one.message, one.count) for one in found] == [("the pool is incomplete", 1), ("a device is tainted", 1)]


class _Refusing:
    """A server that refuses new events for a while."""

    def __init__(self, server: Transport) -> None:
        self._server, self.refuses = server, False

    async def call(self, call: APICall) -> Any:
        if self.refuses and call.verb == "create":
            raise forbidden(GroupResource("", "events"), "", "the namespace is terminating")
        return await self._server.call(call)

    def watch(self, call: APICall) -> Any:
        return self._server.watch(call)

    async def close(self) -> None:
        await self._server.close()


async def _written(world: World, count: int) -> tuple[Event, ...]:
    while len(found := await world.events()) < count:
        await world.clock.sleep(0.1)
    return tuple(found)
