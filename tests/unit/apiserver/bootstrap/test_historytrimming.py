"""How long lists and watches can be resumed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.apiserver.bootstrap.historytrimming import TRIM_SECONDS, HistoryTrimming
from cathedra.client.resources import CONFIGMAPS, SECRETS
from tests.unit.apiserver.guarded import Guarded, guarded


@asynccontextmanager
async def trimming(api: Guarded) -> AsyncIterator[None]:
    running = asyncio.create_task(HistoryTrimming(api.server.context).run())
    await asyncio.sleep(0)
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def first_change(api: Guarded, ref: Any, revision: str) -> str:
    """The name of the first object that changed after ``revision``."""
    async with api.admin.resource(ref, "default").watch(resource_version=revision) as changes:
        async for change in changes:
            return str(change.object.metadata.name)
    raise AssertionError("the watch has ended")


def test_a_watch_resumes_for_five_minutes_and_is_too_old_after_ten() -> None:
    async def body(api: Guarded) -> None:
        maps = api.admin.resource(CONFIGMAPS, "default")
        async with trimming(api):
            start = (await maps.create(ConfigMap(metadata=ObjectMeta(name="a")))).metadata.resource_version
            await maps.create(ConfigMap(metadata=ObjectMeta(name="b")))
            await asyncio.sleep(TRIM_SECONDS + 1)
            assert await first_change(api, CONFIGMAPS, start) == "b"
            await asyncio.sleep(TRIM_SECONDS)
            with pytest.raises(StatusError, match="too old resource version"):
                await first_change(api, CONFIGMAPS, start)

    guarded(body)


def test_a_resource_without_changes_can_be_resumed_however_long_ago() -> None:
    async def body(api: Guarded) -> None:
        async with trimming(api):
            start = (await api.admin.resource(SECRETS, "default").list()).resource_version
            await api.admin.resource(CONFIGMAPS, "default").create(ConfigMap(metadata=ObjectMeta(name="a")))
            await asyncio.sleep(10 * TRIM_SECONDS)
            async with api.admin.resource(SECRETS, "default").watch(resource_version=start):
                pass

    guarded(body)


def test_what_is_held_of_the_past_does_not_grow_with_the_hours() -> None:
    async def body(api: Guarded) -> None:
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

    guarded(body)


def test_what_was_not_written_for_minutes_is_encoded_anew_for_its_next_reader() -> None:
    async def body(api: Guarded) -> None:
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

    guarded(body)
