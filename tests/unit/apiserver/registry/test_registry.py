"""Writes under way: giving up waiting changes nothing about them."""

from __future__ import annotations

import asyncio

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.apiserver.registry.layout import MAX_VALUE
from cathedra.apiserver.registry.registry import Registry, WriteConflict
from cathedra.apiserver.storage.protocol import Settled, StorageError, StoreContent, Write
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates

CONFIG_MAPS = GroupResource("", "configmaps")
MAP = ConfigMap(metadata=ObjectMeta(name="a", namespace="n"), data={"k": "v"})


class SlowStorage:
    """Settles writes when it is told to."""

    healthy = True

    def __init__(self) -> None:
        self.waiting: list[Settled] = []
        self.failing = False
        """Whether it refuses writes at once."""

    async def load(self) -> StoreContent:
        return StoreContent(0, ())

    def commit(self, write: Write, settled: Settled) -> None:
        if self.failing:
            settled(StorageError("the disk is full"))
            return
        self.waiting.append(settled)

    async def close(self) -> None:
        """Nothing to let go of."""


async def opened() -> tuple[Registry, SlowStorage]:
    storage = SlowStorage()
    registry = Registry(storage, all_definitions(FeatureGates.for_release()))
    await registry.load()
    return registry, storage


async def test_a_write_goes_on_when_its_caller_is_cancelled() -> None:
    registry, storage = await opened()
    table = registry.table(CONFIG_MAPS)
    writing = asyncio.ensure_future(registry.put(table, "n/a", None, MAP))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    with pytest.raises(WriteConflict):
        await registry.put(table, "n/a", None, MAP)
    storage.waiting[0](None)
    found = await registry.quiet(table, "n/a")
    assert found is not None
    assert found.object.data == {"k": "v"}


async def test_a_write_that_the_store_refuses_fails_and_the_next_may_come() -> None:
    registry, storage = await opened()
    table = registry.table(CONFIG_MAPS)
    writing = asyncio.ensure_future(registry.put(table, "n/a", None, MAP))
    await asyncio.sleep(0)
    storage.waiting.pop()(StorageError("the disk is full"))
    with pytest.raises(StatusError, match="the disk is full"):
        await writing
    again = asyncio.ensure_future(registry.put(table, "n/a", None, MAP))
    await asyncio.sleep(0)
    storage.waiting.pop()(None)
    assert (await again).revision == 2


async def test_a_write_that_the_store_refuses_at_once_is_not_under_way() -> None:
    registry, storage = await opened()
    table = registry.table(CONFIG_MAPS)
    entry = asyncio.ensure_future(registry.put(table, "n/a", None, MAP))
    await asyncio.sleep(0)
    storage.waiting.pop()(None)
    storage.failing = True
    with pytest.raises(StatusError, match="the disk is full"):
        await registry.put(table, "n/b", None, MAP)
    with pytest.raises(StatusError, match="the disk is full"):
        await registry.remove(table, await entry, MAP)
    assert not table.under_way


async def test_only_settled_objects_of_served_resources_are_counted() -> None:
    registry, storage = await opened()
    writing = asyncio.ensure_future(registry.put(registry.table(CONFIG_MAPS), "n/a", None, MAP))
    await asyncio.sleep(0)
    assert registry.count(CONFIG_MAPS) == 0
    storage.waiting[0](None)
    await writing
    assert registry.count(CONFIG_MAPS) == 1
    assert registry.count(GroupResource("example.com", "things")) == 0


async def test_a_last_state_and_its_removal_are_committed_in_one_turn_of_the_loop() -> None:
    """So a store has both in one transaction, and no kill leaves an object that is ended and not removed."""
    registry, storage = await opened()
    table = registry.table(CONFIG_MAPS)
    made = asyncio.ensure_future(registry.put(table, "n/a", None, MAP))
    await asyncio.sleep(0)
    storage.waiting.pop()(None)
    entry = await made
    ending = registry.end(table, entry, MAP)
    assert len(storage.waiting) == 2
    with pytest.raises(WriteConflict):
        registry.put(table, "n/a", entry, MAP)
    shown, removed = storage.waiting
    shown(None)
    assert "n/a" in table.under_way  # until the removal has been settled
    found = table.get("n/a")
    assert found is not None
    assert found.revision == 2
    removed(None)
    assert (await ending).revision == 3
    assert table.get("n/a") is None


async def test_a_removal_that_the_store_refuses_leaves_the_object() -> None:
    registry, storage = await opened()
    table = registry.table(CONFIG_MAPS)
    made = asyncio.ensure_future(registry.put(table, "n/a", None, MAP))
    await asyncio.sleep(0)
    storage.waiting.pop()(None)
    entry = await made
    ending = registry.end(table, entry, MAP)
    for settled in storage.waiting:
        settled(StorageError("the disk is full"))
    with pytest.raises(StatusError, match="the disk is full"):
        await ending
    assert table.get("n/a") is entry
    assert not table.under_way


async def test_an_object_that_etcd_would_refuse_is_refused_and_takes_no_revision() -> None:
    registry, storage = await opened()
    table = registry.table(CONFIG_MAPS)
    with pytest.raises(StatusError, match="etcdserver: request is too large") as refused:
        registry.put(table, "n/a", None, replace(MAP, data={"k": "v" * MAX_VALUE}))
    assert (refused.value.code, refused.value.reason) == (500, "")
    assert not table.under_way
    writing = registry.put(table, "n/a", None, MAP)
    storage.waiting.pop()(None)
    assert (await writing).revision == 1
