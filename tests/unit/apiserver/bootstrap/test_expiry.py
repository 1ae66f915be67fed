"""Events end an hour after they were last written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cathedra.api.core.core_v1 import ConfigMap, Event, ObjectReference
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.apiserver.bootstrap.expiry import (
    EVENT_SECONDS,
    PASS_SECONDS,
    TRIM_SECONDS,
    EventExpiry,
    HistoryTrimming,
)
from cathedra.client.resources import CONFIGMAPS, EVENTS, SECRETS
from tests.running import beside, run_with
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
    async with beside(expiring.run()):
        await asyncio.sleep(0)
        yield expiring


@run_with(guarded)
async def test_an_event_stays_for_an_hour_and_at_most_a_minute_longer(api: Guarded) -> None:
    async with expiry(api):
        await of(api).create(event("a"))
        await asyncio.sleep(EVENT_SECONDS - 1)
        assert count(api) == 1
        await asyncio.sleep(1 + PASS_SECONDS)
        assert count(api) == 0


@run_with(guarded)
async def test_the_hour_begins_anew_with_every_write(api: Guarded) -> None:
    async with expiry(api):
        made = await of(api).create(event("a"))
        await asyncio.sleep(EVENT_SECONDS / 2)
        await of(api).update(replace(made, count=2))
        await asyncio.sleep(EVENT_SECONDS - 1)
        assert count(api) == 1
        await asyncio.sleep(1 + PASS_SECONDS)
        assert count(api) == 0


@run_with(guarded)
async def test_events_of_an_earlier_life_count_from_when_they_were_written(api: Guarded) -> None:
    await of(api).create(event("a"))
    await asyncio.sleep(EVENT_SECONDS - PASS_SECONDS)
    await of(api).create(event("b"))
    async with expiry(api):
        await asyncio.sleep(2 * PASS_SECONDS)
        assert [one.metadata.name for one in (await of(api).list()).items] == ["b"]


@run_with(guarded)
async def test_watches_hear_that_an_event_has_gone(api: Guarded) -> None:
    async with expiry(api), of(api).watch(resource_version=str(api.server.revision)) as changes:
        await of(api).create(event("a"))
        seen = []
        async for change in changes:
            seen.append(str(change.type))
            if len(seen) == 2:
                break
        assert [one.rpartition(".")[2].lower() for one in seen] == ["added", "deleted"]


@run_with(guarded)
async def test_what_is_held_of_events_does_not_grow_however_many_come(api: Guarded) -> None:
    """Four a minute for half a day: there are never more than those of an hour and a minute."""
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


@asynccontextmanager
async def trimming(api: Guarded) -> AsyncIterator[None]:
    async with beside(HistoryTrimming(api.server.context).run()):
        await asyncio.sleep(0)
        yield


async def first_change(api: Guarded, ref: Any, revision: str) -> str:
    """The name of the first object that changed after ``revision``."""
    async with api.admin.resource(ref, "default").watch(resource_version=revision) as changes:
        async for change in changes:
            return str(change.object.metadata.name)
    raise AssertionError("the watch has ended")


@run_with(guarded)
async def test_a_watch_resumes_for_five_minutes_and_is_too_old_after_ten(api: Guarded) -> None:
    maps = api.admin.resource(CONFIGMAPS, "default")
    async with trimming(api):
        start = (await maps.create(ConfigMap(metadata=ObjectMeta(name="a")))).metadata.resource_version
        await maps.create(ConfigMap(metadata=ObjectMeta(name="b")))
        await asyncio.sleep(TRIM_SECONDS + 1)
        assert await first_change(api, CONFIGMAPS, start) == "b"
        await asyncio.sleep(TRIM_SECONDS)
        with pytest.raises(StatusError, match="too old resource version"):
            await first_change(api, CONFIGMAPS, start)


@run_with(guarded)
async def test_a_resource_without_changes_can_be_resumed_however_long_ago(api: Guarded) -> None:
    async with trimming(api):
        start = (await api.admin.resource(SECRETS, "default").list()).resource_version
        await api.admin.resource(CONFIGMAPS, "default").create(ConfigMap(metadata=ObjectMeta(name="a")))
        await asyncio.sleep(10 * TRIM_SECONDS)
        async with api.admin.resource(SECRETS, "default").watch(resource_version=start):
            pass


@run_with(guarded)
async def test_what_is_held_of_the_past_does_not_grow_with_the_hours(api: Guarded) -> None:
    maps = api.admin.resource(CONFIGMAPS, "default")
    one = await maps.create(ConfigMap(metadata=ObjectMeta(name="a")))
    table = api.server.context.registry.table(GroupResource("", "configmaps"))
    start = int(one.metadata.resource_version)
    async with trimming(api):
        held = []
        for number in range(240):
            one = await maps.update(replace(one, data={"number": str(number)}))
            await asyncio.sleep(60)
            held.append(int(one.metadata.resource_version) - max(table.floor, start))
        assert max(held) <= 12


@run_with(guarded)
async def test_what_was_not_written_for_minutes_is_encoded_anew_for_its_next_reader(api: Guarded) -> None:
    await api.admin.resource(CONFIGMAPS, "default").create(ConfigMap(metadata=ObjectMeta(name="a")))
    table = api.server.context.registry.table(GroupResource("", "configmaps"))
    entry = table.get("default/a")
    assert entry is not None
    (version,) = table.definition.versions
    async with trimming(api):
        written = entry.body(version)
        assert entry.body(version) is written
        await asyncio.sleep(2 * TRIM_SECONDS + 1)
        assert entry.body(version) == written
        assert entry.body(version) is not written
