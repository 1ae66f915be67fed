"""A registry that is opened again on its database: watches that missed little go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.registry.table import Table, TooOld
from cathedra.apiserver.storage import sqlite
from cathedra.apiserver.storage.revisionfile import RevisionFile
from cathedra.apiserver.storage.sqlite import SQLiteStorage
from tests.unit.apiserver.plain_definitions import plain_definitions

MAPS = GroupResource("", "configmaps")
Shown = list[tuple[str, int, str, str]]


async def opened(folder: Path, **options: int) -> Registry:
    registry = Registry(SQLiteStorage(folder / "db", **options), plain_definitions())
    await registry.load()
    return registry


async def write(registry: Registry, name: str, value: str | None, **labels: str) -> None:
    table, key = registry.table(MAPS), f"n/{name}"
    previous = table.get(key)
    if value is None:
        assert previous is not None
        await registry.remove(table, previous, previous.object)
        return
    obj = ConfigMap(metadata=ObjectMeta(name=name, namespace="n", labels=labels), data={"k": value})
    await registry.put(table, key, previous, obj)


EVERYTHING = Selection()


def watched(table: Table, after: int, selection: Selection = EVERYTHING) -> Shown:
    return [
        (seen.type.value, seen.entry.revision, seen.entry.object.metadata.name, seen.entry.object.data["k"])
        for seen in table.watch(selection, after).taken()
    ]


async def test_a_watch_goes_on_with_what_it_missed(tmp_path: Path) -> None:
    registry = await opened(tmp_path)
    await write(registry, "a", "1")
    await write(registry, "a", "2", app="x")
    await write(registry, "b", "1")
    await write(registry, "a", "3")
    await write(registry, "b", None)
    await write(registry, "b", "2")
    selection = Selection.parse(registry.table(MAPS).definition, "n", "app=x", "")
    before = [watched(registry.table(MAPS), after) for after in range(1, 7)]
    selected = watched(registry.table(MAPS), 1, selection)
    await registry.close()
    again = await opened(tmp_path)
    table = again.table(MAPS)
    assert [watched(table, after) for after in range(1, 7)] == before
    assert watched(table, 1, selection) == selected
    assert before[1] == [
        ("ADDED", 3, "b", "1"),
        ("MODIFIED", 4, "a", "3"),
        ("DELETED", 5, "b", "1"),
        ("ADDED", 6, "b", "2"),
    ]
    assert [entry.object.data for entry in table.select_at(4, Selection())] == [{"k": "3"}, {"k": "1"}]
    await again.close()


async def test_a_watch_of_a_quiet_kind_goes_on_while_others_are_written(tmp_path: Path) -> None:
    registry = await opened(tmp_path)
    await write(registry, "a", "1")
    for number in range(20):
        await write(registry, "b", str(number))
    await registry.close()
    again = await opened(tmp_path)
    assert watched(again.table(GroupResource("", "pods")), 5) == []
    await again.close()


async def test_what_is_older_than_the_history_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "RECENT", 5)
    registry = await opened(tmp_path)
    for number in range(1, 21):
        await write(registry, "a", str(number))
    await registry.close()
    again = await opened(tmp_path)
    table = again.table(MAPS)
    assert [revision for _, revision, _, _ in watched(table, 15)] == [16, 17, 18, 19, 20]
    with pytest.raises(TooOld):
        table.watch(Selection(), 14)
    await again.close()


async def test_after_lost_writes_every_watch_begins_anew(tmp_path: Path) -> None:
    """Clients have seen states at revisions that the database does not have."""
    registry = await opened(tmp_path)
    await write(registry, "a", "1")
    await write(registry, "a", "2")
    await registry.close()
    note = RevisionFile(tmp_path / "db.revision")
    note.note(9)
    note.close()
    again = await opened(tmp_path, accept_lost_writes=9)
    with pytest.raises(TooOld):
        again.table(MAPS).watch(Selection(), 2)
    assert watched(again.table(MAPS), 9) == []
    await again.close()
