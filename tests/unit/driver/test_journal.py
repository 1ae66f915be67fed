"""The driver's memory over restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.driver import MemoryFiles
from cathedra.driver.edits import Edits
from cathedra.driver.preparing.journal import CHECKPOINT_FILE, DeviceAnswer, Entry, Journal, JournalDevice
from cathedra.driver.preparing.specs import cdi_document

DIRECTORY = Path("/data")
PATH = DIRECTORY / CHECKPOINT_FILE
DEVICE = JournalDevice("p", "d", "r")
ENTRY = Entry(
    "default",
    "c",
    "u",
    (DEVICE,),
    True,
    (DeviceAnswer(("r",), "p", "d", ("x/y=z",), "s"),),
    cdi_document("x/y", {"z": Edits(env={"A": "b"}, additional_gids=[5])}),
    {"r": [{"driver": "d"}]},
)


def written(*entries: Entry, boot_id: str = "b") -> MemoryFiles:
    files = MemoryFiles()
    journal = Journal(files, DIRECTORY, boot_id)
    for entry in entries:
        journal.put(entry)
    return files


def loaded(files: MemoryFiles, boot_id: str = "b") -> list[Entry]:
    journal = Journal(files, DIRECTORY, boot_id)
    journal.load()
    return list(journal)


def test_entries_come_back_as_they_were() -> None:
    assert loaded(written(ENTRY)) == [ENTRY]


def test_removed_entries_stay_away() -> None:
    files = written(ENTRY)
    journal = Journal(files, DIRECTORY, "b")
    journal.load()
    journal.remove("u")
    journal.remove("u")
    assert loaded(files) == []


def test_missing_file_is_an_empty_journal() -> None:
    assert loaded(MemoryFiles()) == []


def test_restart_of_the_machine_empties_it() -> None:
    assert loaded(written(ENTRY), boot_id="other") == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-20],
        lambda text: text.replace(b'"default"', b'"changed"'),
        lambda text: b"",
        lambda text: b"[]",
    ],
)
def test_damaged_file_counts_as_empty(damage: object) -> None:
    files = written(ENTRY)
    files.contents[PATH] = damage(files.contents[PATH])  # type: ignore[operator]
    assert loaded(files) == []


@pytest.mark.parametrize(
    ("other", "conflicts"),
    [
        (JournalDevice("p", "d", "other"), True),
        (JournalDevice("p", "e", "r"), False),
        (JournalDevice("q", "d", "r"), False),
        (JournalDevice("p", "d", "r", admin=True), False),
        (JournalDevice("p", "d", "r", share_id="s"), True),
    ],
)
def test_device_is_held_by_one_claim_only(other: JournalDevice, conflicts: bool) -> None:
    assert DEVICE.conflicts_with(other) is conflicts
    assert other.conflicts_with(DEVICE) is conflicts


def test_different_shares_of_one_device_may_be_held_at_once() -> None:
    one, two = JournalDevice("p", "d", "r", share_id="1"), JournalDevice("p", "d", "r", share_id="2")
    assert not one.conflicts_with(two)
    assert one.conflicts_with(one)
