"""Events end an hour after they were last written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from cathedra.api.core.core_v1 import Event, ObjectReference
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import replace
from cathedra.apiserver.bootstrap.eventexpiry import EVENT_SECONDS, PASS_SECONDS, EventExpiry
from cathedra.client.resources import EVENTS
from tests.unit.apiserver.guarded import Guarded, guarded


def event(name: str) -> Event:
    return Event(
        metadata=ObjectMeta(name=name, namespace="default"),
        involved_object=ObjectReference(kind="Pod", name="p", namespace="default"),
        type="Normal",
        reason="Tried",
    )


def of(api: Guarded) -> Any:
    return api.admin.resource(EVENTS, "default")


def count(api: Guarded) -> int:
    return api.server.context.registry.count(GroupResource("", "events"))


@asynccontextmanager
async def expiry(api: Guarded) -> AsyncIterator[EventExpiry]:
    expiring = EventExpiry(api.server.context)
    running = asyncio.create_task(expiring.run())
    await asyncio.sleep(0)
    try:
        yield expiring
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_an_event_stays_for_an_hour_and_at_most_a_minute_longer() -> None:
    async def body(api: Guarded) -> None:
        async with expiry(api):
            await of(api).create(event("a"))
            await asyncio.sleep(EVENT_SECONDS - 1)
            assert count(api) == 1
            await asyncio.sleep(1 + PASS_SECONDS)
            assert count(api) == 0

    guarded(body)


def test_the_hour_begins_anew_with_every_write() -> None:
    async def body(api: Guarded) -> None:
        async with expiry(api):
            made = await of(api).create(event("a"))
            await asyncio.sleep(EVENT_SECONDS / 2)
            await of(api).update(replace(made, count=2))
            await asyncio.sleep(EVENT_SECONDS - 1)
            assert count(api) == 1
            await asyncio.sleep(1 + PASS_SECONDS)
            assert count(api) == 0

    guarded(body)


def test_events_of_an_earlier_life_count_from_when_they_were_written() -> None:
    async def body(api: Guarded) -> None:
        await of(api).create(event("a"))
        await asyncio.sleep(EVENT_SECONDS - PASS_SECONDS)
        await of(api).create(event("b"))
        async with expiry(api):
            await asyncio.sleep(2 * PASS_SECONDS)
            assert [one.metadata.name for one in (await of(api).list()).items] == ["b"]

    guarded(body)


def test_watches_hear_that_an_event_has_gone() -> None:
    async def body(api: Guarded) -> None:
        async with expiry(api), of(api).watch(resource_version=str(api.server.revision)) as changes:
            await of(api).create(event("a"))
            seen = []
            async for change in changes:
                seen.append(str(change.type))
                if len(seen) == 2:
                    break
            assert [one.rpartition(".")[2].lower() for one in seen] == ["added", "deleted"]

    guarded(body)


def test_what_is_held_of_events_does_not_grow_however_many_come() -> None:
    """Four a minute for half a day: there are never more than those of an hour and a minute."""

    async def body(api: Guarded) -> None:
        async with expiry(api) as expiring:
            most = 0
            for number in range(12 * 60):
                await asyncio.gather(*(of(api).create(event(f"e{number}-{n}")) for n in range(4)))
                await asyncio.sleep(60)
                assert len(expiring) == count(api)
                most = max(most, count(api))
            assert most <= 4 * 62
            await asyncio.sleep(EVENT_SECONDS + 2 * PASS_SECONDS)
            assert len(expiring) == count(api) == 0

    guarded(body)
