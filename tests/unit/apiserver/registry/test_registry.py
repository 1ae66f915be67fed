"""Writes under way: giving up waiting changes nothing about them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import ConfigMap, Pod, PodSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.api.struct import encode, replace
from cathedra.apiserver.registry import registry as replication
from cathedra.apiserver.registry.layout import MAX_VALUE
from cathedra.apiserver.registry.registry import Registry, WriteConflict
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.registry.table import Table
from cathedra.apiserver.storage.primary import PrimaryStore
from cathedra.apiserver.storage.protocol import (
    MemoryStorage,
    Record,
    Settled,
    Storage,
    StorageError,
    StoreContent,
    Write,
)
from cathedra.client.transport import EventType
from cathedra.kinds.definition import AnyDefinition
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates
from tests.unit.apiserver.plain_definitions import plain_definitions

CONFIG_MAPS = GroupResource("", "configmaps")
MAP = ConfigMap(metadata=ObjectMeta(name="a", namespace="n"), data={"k": "v"})


class SlowStorage:
    """A log that settles writes when the test calls it."""

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
        """Release nothing."""


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


# A replica and its primary over a pair of sockets: what one writes the other has, in order and byte for byte.

MAPS = GroupResource("", "configmaps")
PODS = GroupResource("", "pods")
DEFINITIONS = plain_definitions()


class ReplicationSlowStorage:
    """Settles writes when it is told to; it holds one object from the beginning."""

    healthy = True

    def __init__(self) -> None:
        self.waiting: list[Settled] = []
        self.arrived = asyncio.Event()
        self.failing = False
        """Whether it refuses writes at once."""

    async def load(self) -> StoreContent:
        return StoreContent(7, [Record("//configmaps/n/old", 7, encode(config_map("old", "there")))])

    def commit(self, write: Write, settled: Settled) -> None:
        if self.failing:
            settled(StorageError("the disk is full"))
            return
        self.waiting.append(settled)
        self.arrived.set()

    async def close(self) -> None:
        """Release nothing."""


def config_map(name: str, value: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="n"), data={"k": value})


@asynccontextmanager
async def replicated(
    storage: Storage | None = None, definitions: Iterable[AnyDefinition] = DEFINITIONS
) -> AsyncIterator[tuple[Registry, Registry]]:
    """A primary and a replica of it."""
    primary = Registry(storage or MemoryStorage(), definitions)
    await primary.load()
    replica = await joined(primary, definitions)
    try:
        yield primary, replica
    finally:
        await replica.close()
        await primary.close()


async def joined(primary: Registry, definitions: Iterable[AnyDefinition] = DEFINITIONS) -> Registry:
    one, other = socket.socketpair()
    await primary.serve_replica(one)
    replica = Registry(await PrimaryStore.over(other), definitions)
    await replica.load()
    return replica


async def seen(registry: Registry, key: str, revision: int) -> Any:
    """The object of a key, once the registry has seen a revision."""
    await registry.catch_up()
    assert registry.revision >= revision
    return registry.table(MAPS).get(key)


def bodies(table: Table) -> dict[str, bytes]:
    return {entry.key: encode(entry.object) for entry in table.entries()}


async def test_what_was_stored_before_is_there_with_its_revision() -> None:
    async with replicated(ReplicationSlowStorage()) as (_, replica):
        assert replica.revision == 7
        (entry,) = replica.table(MAPS).entries()
        assert (entry.key, entry.revision, entry.object.data) == ("n/old", 7, {"k": "there"})
        assert entry.object.metadata.resource_version == "7"


async def test_a_write_of_the_replica_is_numbered_and_kept_by_the_primary() -> None:
    async with replicated() as (primary, replica):
        first = await primary.put(primary.table(MAPS), "n/a", None, config_map("a", "1"))
        await replica.catch_up()
        second = await replica.put(replica.table(MAPS), "n/b", None, config_map("b", "2"))
        assert (first.revision, second.revision) == (1, 2)
        assert second.object.metadata.resource_version == "2"
        assert bodies(primary.table(MAPS)) == bodies(replica.table(MAPS))
        kept = primary.table(MAPS).get("n/b")
        assert kept is not None
        assert kept.body_in(ConfigMap) == encode(second.object) == second.body_in(ConfigMap)


async def test_what_the_other_left_alone_stays_the_very_same_object() -> None:
    pod = Pod(metadata=ObjectMeta(name="p", namespace="n"), spec=PodSpec(hostname="h"))
    async with replicated() as (primary, replica):
        made = await replica.put(replica.table(PODS), "n/p", None, pod)
        before = primary.table(PODS).get("n/p")
        assert before is not None
        assert before.object.spec == pod.spec
        changed = replace(made.object, metadata=replace(made.object.metadata, labels={"a": "b"}))
        await replica.put(replica.table(PODS), "n/p", made, changed)
        after = primary.table(PODS).get("n/p")
        assert after is not None
        assert after.object.metadata.labels == {"a": "b"}
        assert after.object.spec is before.object.spec


async def test_a_removal_shows_the_last_state_on_the_other_side() -> None:
    async with replicated() as (primary, replica):
        made = await replica.put(replica.table(MAPS), "n/a", None, config_map("a", "1"))
        watcher = primary.table(MAPS).watch(Selection(namespace="n"), 1)
        removed = await replica.remove(replica.table(MAPS), made, made.object)
        (event,) = await watcher.take()
        assert (event.type, event.entry.object.data) == (EventType.DELETED, {"k": "1"})
        assert event.entry.revision == removed.revision == 2
        assert not bodies(primary.table(MAPS))
        again = await primary.put(primary.table(MAPS), "n/a", None, config_map("a", "2"))
        watcher = replica.table(MAPS).watch(Selection(namespace="n"), 2)
        await primary.remove(primary.table(MAPS), again, again.object)
        await replica.catch_up()
        assert [event.type for event in watcher.taken()] == [EventType.ADDED, EventType.DELETED]
        assert not bodies(replica.table(MAPS))


async def test_an_object_ends_at_two_revisions_on_both_sides() -> None:
    async with replicated() as (primary, replica):
        for number, side in enumerate((replica, primary)):
            made = await side.put(side.table(MAPS), "n/a", None, config_map("a", "1"))
            removed = await side.end(side.table(MAPS), made, config_map("a", "last"))
            assert removed.revision == 3 * number + 3
            assert side.table(MAPS).get("n/a") is None
        await replica.catch_up()
        ends = [(EventType.MODIFIED, "last"), (EventType.DELETED, "last")]
        for side in (primary, replica):
            seen = side.table(MAPS).watch(Selection(), 1).taken()
            assert [(one.type, one.entry.object.data["k"]) for one in seen[:2]] == ends
        assert _changes(replica) == _changes(primary)


async def test_the_end_of_an_object_that_was_written_meanwhile_is_refused_and_changes_nothing() -> None:
    async with replicated() as (primary, replica):
        made = await primary.put(primary.table(MAPS), "n/a", None, config_map("a", "1"))
        ending = replica.end(replica.table(MAPS), await seen(replica, "n/a", made.revision), config_map("a", "last"))
        await primary.put(primary.table(MAPS), "n/a", made, config_map("a", "2"))
        with pytest.raises(WriteConflict):
            await ending
        assert [entry.object.data for entry in primary.table(MAPS).entries()] == [{"k": "2"}]
        assert bodies(replica.table(MAPS)) == bodies(primary.table(MAPS))


async def test_who_wrote_from_an_older_state_is_refused_and_has_the_newer_one_then() -> None:
    async with replicated() as (primary, replica):
        made = await replica.put(replica.table(MAPS), "n/a", None, config_map("a", "1"))
        current = primary.table(MAPS).get("n/a")
        faster = await primary.put(primary.table(MAPS), "n/a", current, config_map("a", "2"))
        with pytest.raises(WriteConflict):
            await replica.put(replica.table(MAPS), "n/a", made, config_map("a", "3"))
        newer = replica.table(MAPS).get("n/a")
        assert newer is not None
        assert (newer.revision, newer.object.data) == (faster.revision, {"k": "2"})
        with pytest.raises(WriteConflict):
            await replica.put(replica.table(MAPS), "n/b", None, await _taken(primary, "n/b"))


async def _taken(primary: Registry, key: str) -> ConfigMap:
    """The primary makes an object of that key; another one for it, before the replica knows."""
    await primary.put(primary.table(MAPS), key, None, config_map("b", "first"))
    return config_map("b", "second")


async def test_a_write_waits_for_the_end_of_the_primarys_own() -> None:
    storage = ReplicationSlowStorage()
    async with replicated(storage) as (primary, replica):
        own = primary.put(primary.table(MAPS), "n/a", None, config_map("a", "own"))
        forwarded = replica.put(replica.table(MAPS), "n/a", None, config_map("a", "forwarded"))
        asked = asyncio.ensure_future(replica.catch_up())
        await asyncio.wait([asked])
        assert len(storage.waiting) == 1
        storage.waiting.pop()(None)
        with pytest.raises(WriteConflict):
            await forwarded
        assert (await own).object.data == {"k": "own"}


async def test_a_write_that_the_store_refuses_fails_at_the_replica_and_the_next_may_come() -> None:
    storage = ReplicationSlowStorage()
    async with replicated(storage) as (primary, replica):
        writing = replica.put(replica.table(MAPS), "n/a", None, config_map("a", "1"))
        await storage.arrived.wait()
        storage.waiting.pop()(StorageError("the disk is full"))
        with pytest.raises(StatusError, match="the disk is full"):
            await writing
        assert not replica.table(MAPS).under_way
        assert not primary.table(MAPS).under_way
        storage.arrived.clear()
        again = replica.put(replica.table(MAPS), "n/a", None, config_map("a", "1"))
        await storage.arrived.wait()
        storage.waiting.pop()(None)
        assert (await again).object.data == {"k": "1"}


async def test_a_write_that_the_store_refuses_at_once_is_not_under_way_replication() -> None:
    storage = ReplicationSlowStorage()
    storage.failing = True
    async with replicated(storage) as (primary, replica):
        with pytest.raises(StatusError, match="the disk is full"):
            await replica.put(replica.table(MAPS), "n/a", None, config_map("a", "1"))
        assert not replica.table(MAPS).under_way
        assert not primary.table(MAPS).under_way


async def test_a_write_goes_on_when_its_caller_is_cancelled_replication() -> None:
    async with replicated() as (primary, replica):
        replica.put(replica.table(MAPS), "n/a", None, config_map("a", "1")).cancel()
        found = await replica.quiet(replica.table(MAPS), "n/a")
        assert found is not None
        assert primary.table(MAPS).get("n/a") is not None


async def test_replicas_hear_of_each_other() -> None:
    async with replicated() as (primary, replica):
        other = await joined(primary)
        made = await other.put(other.table(MAPS), "n/a", None, config_map("a", "1"))
        found = await seen(replica, "n/a", made.revision)
        assert found.object.data == {"k": "1"}
        await other.close()


async def test_what_no_table_claims_is_there_when_its_resource_is_served() -> None:
    fewer = [one for one in DEFINITIONS if one.group_resource != MAPS]
    (maps,) = (one for one in DEFINITIONS if one.group_resource == MAPS)
    primary = Registry(MemoryStorage(), DEFINITIONS)
    await primary.load()
    await primary.put(primary.table(MAPS), "n/before", None, config_map("before", "1"))
    replica = await joined(primary, fewer)
    await primary.put(primary.table(MAPS), "n/after", None, config_map("after", "2"))
    gone = await primary.put(primary.table(MAPS), "n/gone", None, config_map("gone", "3"))
    await primary.remove(primary.table(MAPS), gone, gone.object)
    await replica.catch_up()
    table = replica.add_table(maps)
    assert bodies(table) == bodies(primary.table(MAPS))
    await replica.close()
    await primary.close()


async def test_what_is_written_of_a_resource_that_the_primary_does_not_serve_yet_is_there_when_it_does() -> None:
    (maps,) = (one for one in DEFINITIONS if one.group_resource == MAPS)
    storage = ReplicationSlowStorage()
    primary = Registry(storage, [one for one in DEFINITIONS if one.group_resource != MAPS])
    await primary.load()
    replica = await joined(primary)
    first = replica.put(replica.table(MAPS), "n/a", None, config_map("a", "1"))
    await storage.arrived.wait()
    storage.waiting.pop()(None)
    made = await first
    storage.arrived.clear()
    changing = replica.put(replica.table(MAPS), "n/a", made, config_map("a", "2"))
    await storage.arrived.wait()
    table = primary.add_table(maps)
    assert [entry.object.data for entry in (table.get("n/a"), table.get("n/old")) if entry] == [
        {"k": "1"},
        {"k": "there"},
    ]
    with pytest.raises(WriteConflict):
        await primary.put(table, "n/a", table.get("n/a"), config_map("a", "3"))
    storage.waiting.pop()(None)
    await changing
    found = await primary.quiet(table, "n/a")
    assert found is not None
    assert (found.object.data, found.revision) == ({"k": "2"}, 9)
    await replica.close()
    await primary.close()


async def test_a_replica_that_has_lost_its_primary_says_what_it_does_not_know() -> None:
    storage = ReplicationSlowStorage()
    primary = Registry(storage, DEFINITIONS)
    await primary.load()
    one, other = socket.socketpair()
    await primary.serve_replica(one)
    store = await PrimaryStore.over(other)
    replica = Registry(store, DEFINITIONS)
    await replica.load()
    assert not replica.problem
    writing = replica.put(replica.table(MAPS), "n/a", None, config_map("a", "1"))
    await storage.arrived.wait()
    await primary.close()
    await store.lost()
    with pytest.raises(StatusError) as unknown:
        await writing
    assert unknown.value.status.code == 504
    assert replica.problem
    with pytest.raises(StatusError) as away:
        await replica.put(replica.table(MAPS), "n/b", None, config_map("b", "1"))
    assert away.value.status.code == 503
    with pytest.raises(StatusError):
        await replica.catch_up()
    storage.waiting.pop()(None)
    assert primary.table(MAPS).get("n/a") is not None, "what was begun goes on"


async def test_a_replica_that_takes_nothing_any_more_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replication, "MOST_WAITING", 1024 * 1024)
    primary = Registry(MemoryStorage(), DEFINITIONS)
    await primary.load()
    one, other = socket.socketpair()
    await primary.serve_replica(one)
    large = config_map("a", "x" * 200_000)
    table, made = primary.table(MAPS), None
    for _ in range(40):
        made = await primary.put(table, "n/a", made, large)
    await asyncio.to_thread(_read_all, other)


def _read_all(connected: socket.socket) -> None:
    """Read until the other end closes."""
    with connected:
        while connected.recv(1 << 20):
            pass


async def test_what_is_no_message_ends_the_line() -> None:
    primary = Registry(MemoryStorage(), DEFINITIONS)
    await primary.load()
    one, other = socket.socketpair()
    await primary.serve_replica(one)
    other.sendall(b"\x00\x00\x00\x02{}")
    await asyncio.to_thread(_read_all, other)
    made = await primary.put(primary.table(MAPS), "n/a", None, config_map("a", "1"))
    assert made.revision == 1


@pytest.mark.parametrize("definition", all_definitions(FeatureGates.for_release()), ids=lambda one: one.plural)
def test_metadata_comes_first_in_every_kind(definition: AnyDefinition) -> None:
    """The position of the resource version in the JSON of the primary."""
    kind: Any = definition.type
    assert msgspec.structs.fields(kind)[0].encode_name in {"metadata", "kind"}
    name = '"resourceVersion":"0"'
    obj = kind(metadata=ObjectMeta(name=name, generate_name=name, namespace=name, uid=name, resource_version="0"))
    head, _, tail = encode(obj).partition(name.encode())
    assert msgspec.json.decode(head + b'"resourceVersion":"5"' + tail)["metadata"]["resourceVersion"] == "5"


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.sampled_from("xyz") | st.none()), max_size=25))
@settings(deadline=None)
def test_both_sides_hold_the_same_whatever_they_write(writes: list[tuple[bool, str, str | None]]) -> None:
    async def check() -> None:
        async with replicated() as (primary, replica):
            for mine, name, value in writes:
                await _write(replica if mine else primary, name, value)
            await replica.catch_up()
            assert replica.revision == primary.revision
            assert bodies(replica.table(MAPS)) == bodies(primary.table(MAPS))
            assert _changes(replica) == _changes(primary)

    asyncio.run(check())


async def _write(registry: Registry, name: str, value: str | None) -> None:
    """Write or remove; tried again if the other side was faster."""
    table, key = registry.table(MAPS), f"n/{name}"
    while True:
        found = await registry.quiet(table, key)
        try:
            if value is not None:
                await registry.put(table, key, found, config_map(name, value))
            elif found is not None:
                await registry.remove(table, found, found.object)
        except WriteConflict:
            continue
        return


def _changes(registry: Registry) -> list[tuple[EventType, int, bytes]]:
    """Return the events of a watcher without a selection."""
    seen = registry.table(MAPS).watch(Selection(), 0).taken()
    return [(one.type, one.entry.revision, encode(one.entry.object)) for one in seen]


async def test_a_replica_refuses_what_etcd_would_refuse() -> None:
    async with replicated() as (primary, replica):
        with pytest.raises(StatusError, match="request is too large"):
            replica.put(replica.table(MAPS), "n/a", None, config_map("a", "v" * MAX_VALUE))
        assert not replica.table(MAPS).under_way
        assert primary.count(MAPS) == 0
