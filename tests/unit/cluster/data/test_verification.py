"""Verification of a cluster's database, and the removal of what is damaged."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from cathedra.apiserver.storage.protocol import Write
from cathedra.apiserver.storage.sqlite import SQLiteStorage
from cathedra.apiserver.storage.transactions import SCHEMA, commit_batch, stored_facts
from cathedra.cli.main import main
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.verification import remove_damaged, verify

FIRST = [Write("/r/a", 1, b"a-one"), Write("/r/b", 2, b"b-one")]
SECOND = [Write("/r/a", 3, b"a-two")]


def database(path: Path, *batches: Sequence[Write]) -> Path:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(SCHEMA)
    stored_facts(connection)
    for batch in batches:
        assert commit_batch(connection, batch) is None
    connection.close()
    return path


def change(path: Path, before: bytes, after: bytes) -> None:
    data = path.read_bytes()
    assert before in data
    path.write_bytes(data.replace(before, after))


def test_a_sound_database_is_counted(tmp_path: Path) -> None:
    found = verify(database(tmp_path / "db", FIRST, SECOND))
    assert (found.sound, found.objects, found.rows, found.unchecked) == (True, 2, 2, 0)


def test_a_changed_row_is_named_with_its_objects(tmp_path: Path) -> None:
    path = database(tmp_path / "db", FIRST, SECOND)
    change(path, b"b-one", b"b-own")
    found = verify(path)
    (damaged,) = found.damaged
    assert (found.sound, damaged.revision, damaged.keys) == (False, 2, ("/r/a", "/r/b"))
    assert damaged.problem == "its checksum is wrong"


async def test_after_the_removal_the_store_opens_with_what_is_left(tmp_path: Path) -> None:
    path = database(tmp_path / "db", FIRST, SECOND)
    change(path, b"b-one", b"b-own")
    damaged = path.read_bytes()
    kept = remove_damaged(path, verify(path))
    assert kept.read_bytes() == damaged
    assert verify(path).sound
    store = SQLiteStorage(path)
    content = await store.load()
    await store.close()
    assert [(record.key, record.value) for record in content.records] == [("/r/a", b"a-two")]
    assert (content.revision, content.recent_after) == (4, None)  # every client lists again


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="only clusters with --store sqlite have one"):
        verify(tmp_path / "none")
    (tmp_path / "junk").write_bytes(b"junk" * 1000)
    with pytest.raises(InvalidOption, match="cannot be read: file is not a database"):
        verify(tmp_path / "junk")


def test_the_command_says_what_is_damaged_and_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = database(tmp_path / "objects.sqlite", FIRST, SECOND)
    words = ["verify", "--data-dir", str(tmp_path)]
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines() == [f"{path}: 2 objects in 2 rows", "sound"]
    change(path, b"b-one", b"b-own")
    assert main(words) == 1
    printed = capsys.readouterr()
    assert "revision 2: its checksum is wrong; it is about /r/a, /r/b" in printed.out
    assert f"cathedra verify --data-dir {tmp_path} --remove-damaged" in printed.err
    assert main([*words, "-o", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["damaged"][0]["objects"] == ["/r/a", "/r/b"]
    assert main([*words, "--remove-damaged"]) == 0
    assert f"kept as {path}.damaged-1" in capsys.readouterr().err
    assert main(words) == 0
