"""The driver's memory over restarts."""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
from pathlib import Path

import pytest

from cathedra.clock import LoopClock
from cathedra.driver import DiskFiles, MemoryFiles
from cathedra.driver.claim import Edits
from cathedra.driver.preparing.checkpoint import (
    BOOT_FILE,
    CHECKPOINT_FILE,
    LOCK_FILE,
    Checkpoint,
    CheckpointDevice,
    CheckpointEntry,
    DeviceAnswer,
    FileLock,
    NoLock,
    ProcessLock,
    Serializer,
)
from cathedra.driver.preparing.specs import cdi_document
from tests.running import on_virtual_clock

DIRECTORY = Path("/data")
PATH = DIRECTORY / CHECKPOINT_FILE
DEVICE = CheckpointDevice("p", "d", "r")
ENTRY = CheckpointEntry(
    "default",
    "c",
    "u",
    (DEVICE,),
    True,
    (DeviceAnswer(("r",), "p", "d", ("x/y=z",), "s"),),
    cdi_document("x/y", {"z": Edits(env={"A": "b"}, additional_gids=[5])}),
    {"r": [{"driver": "d"}]},
)


async def written(*entries: CheckpointEntry, boot_id: str = "b") -> MemoryFiles:
    files = MemoryFiles()
    checkpoint = Checkpoint(files, DIRECTORY, boot_id)
    for entry in entries:
        await checkpoint.put(entry)
    return files


def loaded(files: MemoryFiles, boot_id: str = "b") -> list[CheckpointEntry]:
    checkpoint = Checkpoint(files, DIRECTORY, boot_id)
    checkpoint.load()
    return list(checkpoint)


async def test_entries_come_back_as_they_were() -> None:
    assert loaded(await written(ENTRY)) == [ENTRY]


async def test_removed_entries_stay_away() -> None:
    files = await written(ENTRY)
    checkpoint = Checkpoint(files, DIRECTORY, "b")
    checkpoint.load()
    await checkpoint.remove("u")
    await checkpoint.remove("u")
    assert loaded(files) == []


def test_missing_file_is_an_empty_checkpoint() -> None:
    assert loaded(MemoryFiles()) == []


async def test_restart_of_the_machine_empties_it() -> None:
    assert loaded(await written(ENTRY), boot_id="other") == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-20],
        lambda text: text.replace(b'"default"', b'"changed"'),
        lambda text: b"",
        lambda text: b"[]",
    ],
)
async def test_damaged_file_counts_as_empty(damage: object) -> None:
    files = await written(ENTRY)
    files.contents[PATH] = damage(files.contents[PATH])  # type: ignore[operator]
    assert loaded(files) == []


async def test_file_that_a_power_failure_damaged_is_void_after_the_restart() -> None:
    """The checkpoint is not synced. A power failure may damage it, and is a reboot, which makes it void anyway."""
    files = await written(ENTRY)
    files.contents[PATH] = b""
    checkpoint = Checkpoint(files, DIRECTORY, "next")
    assert checkpoint.load() is None
    assert not checkpoint.incomplete
    damaged = Checkpoint(files, DIRECTORY, "b")
    assert damaged.load() is not None
    assert damaged.incomplete


async def test_boot_is_on_disk_before_the_first_claim_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[list[str]] = []
    sync = os.fsync

    def counting(descriptor: int) -> None:
        synced.append([name for name in sorted(os.listdir(tmp_path)) if not name.startswith(".")])
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", counting)
    checkpoint = Checkpoint(DiskFiles(), tmp_path, "b")
    await checkpoint.put(ENTRY)
    assert synced == [[], [BOOT_FILE]]
    await checkpoint.put(ENTRY)
    await checkpoint.remove(ENTRY.uid)
    restarted = Checkpoint(DiskFiles(), tmp_path, "b")
    await restarted.put(ENTRY)
    assert len(synced) == 2


@pytest.mark.parametrize(
    ("other", "conflicts"),
    [
        (CheckpointDevice("p", "d", "other"), True),
        (CheckpointDevice("p", "e", "r"), False),
        (CheckpointDevice("q", "d", "r"), False),
        (CheckpointDevice("p", "d", "r", admin=True), False),
        (CheckpointDevice("p", "d", "r", share_id="s"), True),
    ],
)
def test_device_is_held_by_one_claim_only(other: CheckpointDevice, conflicts: bool) -> None:
    assert DEVICE.conflicts_with(other) is conflicts
    assert other.conflicts_with(DEVICE) is conflicts


def test_different_shares_of_one_device_may_be_held_at_once() -> None:
    one, two = CheckpointDevice("p", "d", "r", share_id="1"), CheckpointDevice("p", "d", "r", share_id="2")
    assert not one.conflicts_with(two)
    assert one.conflicts_with(one)


async def overlap(lock: Serializer) -> int:
    """Return the number of three calls that ran at the same time."""
    inside = most = 0

    async def call() -> None:
        nonlocal inside, most
        async with lock.held():
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(1)
            inside -= 1

    await asyncio.gather(*(call() for _ in range(3)))
    return most


@on_virtual_clock
async def test_calls_follow_each_other_unless_the_driver_looks_after_itself(*, tmp_path: Path) -> None:
    clock = LoopClock(asyncio.get_running_loop())
    assert await overlap(NoLock()) == 3
    assert await overlap(ProcessLock()) == 1
    assert await overlap(FileLock(tmp_path, clock)) == 1


@on_virtual_clock
async def test_another_process_is_waited_for(*, tmp_path: Path) -> None:
    lock = FileLock(tmp_path, LoopClock(asyncio.get_running_loop()))
    other = os.open(tmp_path / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(other, fcntl.LOCK_EX)
    entered = asyncio.Event()

    async def call() -> None:
        async with lock.held():
            entered.set()

    waiting = asyncio.ensure_future(call())
    await asyncio.sleep(10)
    assert not entered.is_set()
    os.close(other)
    await waiting
    assert entered.is_set()


@on_virtual_clock
async def test_a_call_that_is_cancelled_gives_its_turn_back(*, tmp_path: Path) -> None:
    lock = FileLock(tmp_path, LoopClock(asyncio.get_running_loop()))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1), lock.held():
            await asyncio.sleep(10)
    async with lock.held():
        pass


@on_virtual_clock
async def test_other_users_cannot_take_the_lock(*, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with FileLock(tmp_path, LoopClock(asyncio.get_running_loop())).held():
            assert stat.S_IMODE((tmp_path / LOCK_FILE).stat().st_mode) == 0o600
    finally:
        os.umask(before)
