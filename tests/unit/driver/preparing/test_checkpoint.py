"""The driver's memory over restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.driver import MemoryFiles
from cathedra.driver.edits import Edits
from cathedra.driver.preparing.checkpoint import (
    CHECKPOINT_FILE,
    Checkpoint,
    CheckpointDevice,
    CheckpointEntry,
    DeviceAnswer,
)
from cathedra.driver.preparing.specs import cdi_document

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
