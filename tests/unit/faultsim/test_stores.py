"""Played stores: order, crashes, full disks, compaction and lost leaders."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from cathedra.apiserver.storage.protocol import HistoryLost, StorageError, StoreUnavailable, Superseded, Write
from cathedra.clock import run_virtual
from cathedra.faultsim.stores import Disk, DiskStore, SharedMedium, SharedStore
from tests.running import on_virtual_clock


@on_virtual_clock
async def test_writes_are_durable_before_they_are_settled_and_in_order() -> None:
    seen: list[int] = []
    disk = Disk(Random(1), lambda write: seen.append(write.revision))
    store = DiskStore(disk)
    for revision in (1, 2, 3):
        store.commit(Write("/pods/p", revision, b"x"), lambda _: seen.append(0))
    assert seen == []
    await asyncio.sleep(1)
    assert seen == [1, 0, 2, 0, 3, 0]
    content = await DiskStore(disk).load()
    assert (content.revision, [record.revision for record in content.records]) == (3, [3])
    assert [past.write.revision for past in content.recent] == [1, 2, 3]


def test_a_crash_keeps_a_beginning_of_whole_transactions_and_acknowledges_nothing() -> None:
    kept = set()
    for seed in range(20):

        async def main(seed: int) -> int:
            disk = Disk(Random(seed), lambda _: None)
            store = DiskStore(disk)
            errors: list[StorageError | None] = []
            for revision in (1, 2):
                store.commit(Write(f"/pods/{revision}", revision, b"x"), errors.append)
            await asyncio.sleep(0)
            store.commit(Write("/pods/3", 3, b"x"), errors.append)
            store.die()
            assert [type(error) for error in errors] == [StorageError] * 3
            return disk.revision

        kept.add(run_virtual(main(seed)))
    assert kept == {0, 2, 3}


@on_virtual_clock
async def test_a_full_disk_refuses_writes_until_there_is_room() -> None:
    disk = Disk(Random(1), lambda _: None)
    store = DiskStore(disk)
    errors: list[StorageError | None] = []
    disk.full = True
    store.commit(Write("/pods/p", 1, b"x"), errors.append)
    await asyncio.sleep(1)
    assert (str(errors[0]), store.healthy, disk.revision) == ("database or disk is full", False, 0)
    disk.full = False
    store.commit(Write("/pods/p", 2, b"x"), errors.append)
    await asyncio.sleep(1)
    assert (errors[1], store.healthy, disk.revision) == (None, True, 2)


@on_virtual_clock
async def test_of_two_writers_of_a_shared_store_the_second_is_superseded() -> None:
    medium = SharedMedium(Random(1), lambda _: None)
    one, two = SharedStore(medium), SharedStore(medium)
    revision = await one.write("/pods/p", b"1", expected=0)
    with pytest.raises(Superseded):
        await two.write("/pods/p", b"2", expected=0)
    assert await two.write("/pods/p", None, expected=revision) == revision + 1
    assert await one.latest() == revision + 1


@on_virtual_clock
async def test_followers_see_all_writes_in_order_until_the_history_is_compacted() -> None:
    medium = SharedMedium(Random(1), lambda _: None)
    store = SharedStore(medium)
    for number in range(3):
        await store.write(f"/pods/{number}", b"x", expected=0)
    async for progress in store.follow(2):
        assert [write.revision for write in progress.writes] == [3, 4]
        break
    medium.compact()
    with pytest.raises(HistoryLost):
        async for _ in store.follow(2):
            pass


@on_virtual_clock
async def test_without_a_leader_nothing_is_written() -> None:
    medium = SharedMedium(Random(1), lambda _: None)
    store = SharedStore(medium)
    medium.leaderless = True
    assert store.problem
    with pytest.raises(StoreUnavailable):
        await store.write("/pods/p", b"x", expected=0)
    assert medium.records == {}
