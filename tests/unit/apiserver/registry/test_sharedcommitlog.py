"""The registry over a shared store: it follows the store's order, loses races properly, and catches up before it reads.

The store is a fake at the edge of the process: a list of writes, with a delay before followers hear of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.protobuf import encode_message, wrap
from cathedra.api.scheme import GroupResource, GroupVersionKind
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.apiserver.registry.layout import MAX_VALUE
from cathedra.apiserver.registry.registry import Registry, WriteConflict
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.registry.table import Table, TooOld
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.storage.protocol import (
    HistoryLost,
    Record,
    StorageError,
    StoreContent,
    StoreProgress,
    StoreUnavailable,
    Superseded,
    Write,
)
from cathedra.clock import run_virtual
from tests.running import run_with
from tests.unit.apiserver.plain_definitions import plain_definitions

MAPS = GroupResource("", "configmaps")


class FakeStore:
    """A shared store in memory; followers get writes ``delay`` seconds later, and ``away`` is its answer if set."""

    def __init__(self) -> None:
        self.problem = ""
        self.shares_revisions = False
        self.revision = 10
        self.log: list[Write] = []
        self.objects: dict[str, Record] = {}
        self.delay = 0.0
        self.away: StorageError | None = None
        self.floor = 0
        self.questions = 0
        self.nudges = 0
        self.closed = False
        self.compacted: Callable[[int], None] | None = None
        self._more = asyncio.Event()

    async def load(self, compacted: Callable[[int], None]) -> StoreContent:
        self.compacted = compacted
        self._answer()
        return StoreContent(self.revision, list(self.objects.values()))

    async def write(self, key: str, value: bytes | None, *, expected: int) -> int:
        await asyncio.sleep(0.001)
        self._answer()
        found = self.objects.get(key)
        if (found.revision if found else 0) != expected:
            raise Superseded(found.revision if found else self.revision)
        self.put(key, value)
        return self.revision

    def put(self, key: str, value: bytes | None) -> None:
        self.revision += 1
        if value is None:
            del self.objects[key]
        else:
            self.objects[key] = Record(key, self.revision, value)
        self.log.append(Write(key, self.revision, value))
        asyncio.get_running_loop().call_later(self.delay, self._more.set)

    async def latest(self) -> int:
        self.questions += 1
        await asyncio.sleep(0.001)
        self._answer()
        return self.revision

    async def nudge(self) -> int:
        self._answer()
        self.nudges += 1
        self.revision += 1
        self.log.append(Write("cathedra.dev/nudge", self.revision, b""))
        asyncio.get_running_loop().call_later(self.delay, self._more.set)
        return self.revision

    async def follow(self, after: int) -> AsyncGenerator[StoreProgress, None]:
        while True:
            if after < self.floor:
                raise HistoryLost("compacted")
            writes = tuple(write for write in self.log if write.revision > after)
            if writes:
                after = writes[-1].revision
                yield StoreProgress(after, writes)
            self._more.clear()
            await self._more.wait()

    async def close(self) -> None:
        self.closed = True

    def _answer(self) -> None:
        if self.away is not None:
            raise self.away


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="d"), data=data)


async def opened(store: FakeStore) -> tuple[Registry, Table]:
    registry = Registry(store, plain_definitions())
    await registry.load()
    return registry, registry.table(MAPS)


def virtual(test: Callable[[FakeStore], Any]) -> None:
    async def run() -> None:
        store = FakeStore()
        await test(store)

    run_virtual(run())


@run_with(virtual)
async def test_a_write_has_the_store_s_revision_and_can_be_read_at_once(store: FakeStore) -> None:
    store.delay = 0.005
    registry, table = await opened(store)
    made = await registry.put(table, "d/a", None, config_map("a"))
    assert made.revision == 11
    assert made.object.metadata.resource_version == "11"
    assert table.get("d/a") is made
    assert registry.revision == 11
    changed = await registry.put(table, "d/a", made, config_map("a", k="v"))
    assert table.get("d/a") is changed
    gone = await registry.remove(table, changed, changed.object)
    assert (gone.revision, table.get("d/a")) == (13, None)
    await registry.close()
    assert store.closed


@pytest.mark.parametrize("faster", [0, 1])
@run_with(virtual)
async def test_an_object_ends_in_two_writes_unless_another_server_is_faster(store: FakeStore, *, faster: int) -> None:
    registry, table = await opened(store)
    made = await registry.put(table, "d/a", None, config_map("a"))
    ending = registry.end(table, made, config_map("a", k="last"))
    with pytest.raises(WriteConflict):
        registry.put(table, "d/a", made, config_map("a"))
    if faster:
        store.put("configmaps/d/a", store.objects["configmaps/d/a"].value)
        with pytest.raises(WriteConflict):
            await ending
        assert table.get("d/a") is not None
    else:
        assert (await ending).revision == 13
        seen = table.watch(Selection(), 11).taken()
        assert [(one.type.value, one.entry.object.data) for one in seen] == [
            ("MODIFIED", {"k": "last"}),
            ("DELETED", {"k": "last"}),
        ]
    assert not table.under_way
    await registry.close()


@run_with(virtual)
async def test_values_have_kubernetes_form_and_no_resource_version(store: FakeStore) -> None:
    registry, table = await opened(store)
    await registry.put(table, "d/a", None, config_map("a", k="v"))
    value = store.objects["configmaps/d/a"].value
    assert value.startswith(b'{"kind":"ConfigMap","apiVersion":"v1",')
    assert b"resourceVersion" not in value
    await registry.close()


@run_with(virtual)
async def test_writes_of_others_are_seen_by_readers_watchers_and_observers(store: FakeStore) -> None:
    registry, table = await opened(store)
    seen: list[StoredChange] = []
    registry.observe(MAPS, seen.append)
    watcher = table.watch(Selection.parse(table.definition, "d", "", ""), registry.revision)
    store.put("configmaps/d/x", b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"d"}}')
    store.put("configmaps/d/x", None)
    await registry.catch_up()
    assert [(event.type.value, event.entry.revision) for event in await watcher.take()] == [
        ("ADDED", 11),
        ("DELETED", 12),
    ]
    assert [change.deleted for change in seen] == [False, True]
    await registry.close()


@run_with(virtual)
async def test_a_watch_from_a_revision_that_is_not_here_yet_is_silent_until_it_has_passed(store: FakeStore) -> None:
    """A client may come from another server that was further."""
    registry, table = await opened(store)
    watcher = table.watch(Selection.parse(table.definition, "d", "", ""), 12)
    for name in ("a", "b", "c"):
        await registry.put(table, f"d/{name}", None, config_map(name))
    assert [event.entry.revision for event in await watcher.take()] == [13]
    await registry.close()


@run_with(virtual)
async def test_who_loses_a_race_sees_the_winner_before_trying_again(store: FakeStore) -> None:
    registry, table = await opened(store)
    mine = await registry.put(table, "d/a", None, config_map("a"))
    theirs = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"d"},"data":{"w":"theirs"}}'
    store.delay = 0.01
    store.put("configmaps/d/a", theirs)
    with pytest.raises(WriteConflict):
        await registry.put(table, "d/a", mine, config_map("a", w="mine"))
    winner = table.get("d/a")
    assert winner is not None
    assert winner.object.data == {"w": "theirs"}
    assert (await registry.put(table, "d/a", winner, config_map("a", w="mine"))).revision == 13
    await registry.close()


@run_with(virtual)
async def test_catching_up_waits_for_events_on_their_way_and_nudges_when_none_come(store: FakeStore) -> None:
    registry, table = await opened(store)
    store.delay = 0.005
    store.put("configmaps/d/x", b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"}}')
    await registry.catch_up()
    assert table.get("d/x") is not None
    assert store.nudges == 0
    store.revision += 1  # something outside the prefix
    await registry.catch_up()
    assert store.nudges == 1
    assert registry.revision == store.revision
    await registry.close()


@run_with(virtual)
async def test_one_nudge_is_enough_for_all_that_wait(store: FakeStore) -> None:
    registry, _ = await opened(store)
    store.delay = 0.2
    store.revision += 1  # something outside the prefix
    await asyncio.gather(*(registry.catch_up() for _ in range(10)))
    assert store.nudges == 1
    await registry.close()


@run_with(virtual)
async def test_a_write_that_was_made_is_not_hastened(store: FakeStore) -> None:
    registry, table = await opened(store)
    store.delay = 0.5
    await asyncio.gather(*(registry.put(table, f"d/{name}", None, config_map(name)) for name in "abc"))
    assert store.nudges == 0
    await registry.close()


@run_with(virtual)
async def test_while_a_revision_is_late_the_problem_is_described(store: FakeStore) -> None:
    registry, table = await opened(store)
    store.delay = 3.0
    writing = registry.put(table, "d/a", None, config_map("a"))
    await asyncio.sleep(0.5)
    assert registry.problem == ""
    await asyncio.sleep(1)
    assert registry.problem == "this server has seen revision 10 of the store, 11 is still on its way"
    await writing
    assert registry.problem == ""
    await registry.close()


@run_with(virtual)
async def test_a_read_that_waits_too_long_is_a_timeout(store: FakeStore) -> None:
    registry, _ = await opened(store)
    store.delay = 60
    store.revision += 1
    with pytest.raises(StatusError, match="this server has seen revision 10 of the store, 11 is still") as caught:
        await registry.catch_up()
    assert caught.value.code == 504
    assert store.nudges == 1
    await registry.close()


@run_with(virtual)
async def test_many_readers_share_one_question_but_never_one_asked_before_they_came(store: FakeStore) -> None:
    registry, _ = await opened(store)
    first = asyncio.create_task(registry.catch_up())
    await asyncio.sleep(0.0005)
    later = [asyncio.create_task(registry.catch_up()) for _ in range(10)]
    await asyncio.gather(first, *later)
    assert store.questions == 2
    await registry.close()


@pytest.mark.parametrize(
    ("failure", "code", "reason"),
    [
        (StoreUnavailable("etcd at h:1 cannot be reached"), 503, "ServiceUnavailable"),
        (StoreUnavailable("etcd at h:1 gave no answer", unknown=True), 504, "Timeout"),
        (StorageError("etcd at h:1: database space exceeded"), 500, "InternalError"),
    ],
)
@run_with(virtual)
async def test_a_store_that_fails_is_a_status_in_kubernetes_form(
    store: FakeStore, *, failure: StorageError, code: int, reason: str
) -> None:
    registry, table = await opened(store)
    store.away = failure
    for attempt in (registry.put(table, "d/a", None, config_map("a")), registry.catch_up()):
        with pytest.raises(StatusError) as caught:
            await attempt
        assert (caught.value.code, caught.value.reason) == (code, reason)
        assert str(failure) in caught.value.status.message
        details = caught.value.status.details
        assert details is not None
        assert (details.retry_after_seconds == 1) == (code != 500)
    assert table.get("d/a") is None
    store.away = None
    assert (await registry.put(table, "d/a", None, config_map("a"))).revision == 11
    await registry.close()


@run_with(virtual)
async def test_after_lost_history_everything_is_read_again_and_watches_end(store: FakeStore) -> None:
    registry, table = await opened(store)
    await registry.put(table, "d/gone", None, config_map("gone"))
    await registry.put(table, "d/kept", None, config_map("kept"))
    seen: list[tuple[str, bool]] = []
    registry.observe(MAPS, lambda change: seen.append((change.entry.key, change.deleted)))
    watcher = table.watch(Selection.parse(table.definition, "d", "", ""), registry.revision)
    del store.objects["configmaps/d/gone"]
    store.objects["configmaps/d/new"] = Record(
        "configmaps/d/new", 15, b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"new"}}'
    )
    store.revision = store.floor = 20
    store.log.clear()
    store._more.set()
    assert await watcher.take() == []
    assert {entry.key for entry in table.entries()} == {"d/kept", "d/new"}
    assert seen == [("d/gone", True), ("d/new", False)]
    with pytest.raises(TooOld):
        table.watch(Selection.parse(table.definition, "d", "", ""), 12)
    await registry.close()


@run_with(virtual)
async def test_a_server_that_cannot_read_the_store_again_is_not_healthy_until_it_can(store: FakeStore) -> None:
    registry, _ = await opened(store)
    store.objects["configmaps/d/new"] = Record("configmaps/d/new", 15, b"broken")
    store.revision = store.floor = 20
    store._more.set()
    await asyncio.sleep(0.1)
    assert "no longer follows the store" in registry.problem
    del store.objects["configmaps/d/new"]
    await asyncio.sleep(2)
    assert not registry.problem
    assert registry.revision == 20
    await registry.close()


@run_with(virtual)
async def test_compacted_revisions_are_too_old_for_watches(store: FakeStore) -> None:
    registry, table = await opened(store)
    first = await registry.put(table, "d/a", None, config_map("a"))
    await registry.put(table, "d/a", first, config_map("a", k="v"))
    assert store.compacted is not None
    store.compacted(12)
    with pytest.raises(TooOld):
        table.watch(Selection.parse(table.definition, "d", "", ""), 11)
    table.watch(Selection.parse(table.definition, "d", "", ""), 12)
    await registry.close()


@run_with(virtual)
async def test_protobuf_and_other_versions_in_the_store_are_understood(store: FakeStore) -> None:
    written = wrap(GroupVersionKind("", "v1", "ConfigMap"), encode_message(config_map("p", k="v")))
    store.put("configmaps/d/p", written)
    registry, table = await opened(store)
    entry = table.get("d/p")
    assert entry is not None
    assert entry.object == replace(
        config_map("p", k="v"), metadata=ObjectMeta(name="p", namespace="d", resource_version="11")
    )
    await registry.close()


@pytest.mark.parametrize("value", [b"{", b'{"apiVersion":"v7","kind":"ConfigMap"}', b"k8s\0\xff", b"[]"])
@run_with(virtual)
async def test_an_unreadable_object_is_named_at_the_start(store: FakeStore, *, value: bytes) -> None:
    store.put("configmaps/d/p", value)
    with pytest.raises(StorageError, match="the object stored at configmaps/d/p cannot be read"):
        await opened(store)


@run_with(virtual)
async def test_objects_of_a_resource_that_is_served_later_are_there_when_it_is(store: FakeStore) -> None:
    """The definition of a custom resource is an object itself, so its resource comes after its objects were read."""
    later = next(d for d in plain_definitions() if d.group_resource == MAPS)
    store.put("configmaps/d/before", b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"before"}}')
    registry = Registry(store, [d for d in plain_definitions() if d.group_resource != MAPS])
    await registry.load()
    store.put("configmaps/d/after", b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"after"}}')
    store.put("configmaps/d/before", None)
    await registry.catch_up()
    table = registry.add_table(later)
    assert [entry.key for entry in table.entries()] == ["d/after"]
    registry.remove_table(MAPS)
    with pytest.raises(KeyError):
        registry.table(MAPS)
    await registry.close()


@run_with(virtual)
async def test_an_object_that_etcd_would_refuse_is_not_sent_to_the_store(store: FakeStore) -> None:
    registry, table = await opened(store)
    with pytest.raises(StatusError, match="request is too large"):
        registry.put(table, "d/a", None, config_map("a", k="v" * MAX_VALUE))
    assert not table.under_way
    assert not store.log
    await registry.close()
