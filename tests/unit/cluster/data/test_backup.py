"""Backups: made beside a running store, checked before anything changes, put in the place of what was there."""

from __future__ import annotations

import io
import json
import random
import sqlite3
import stat
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.apiserver.authentication.pki import PKI
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.apiserver.storage.protocol import Write
from cathedra.apiserver.storage.sqlite import SQLiteStorage
from cathedra.apiserver.storage.transactions import SCHEMA, commit_batch, stored_facts
from cathedra.cli.main import main
from cathedra.client.client import Client
from cathedra.client.resources import CONFIGMAPS
from cathedra.clock import SystemClock
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.backup import BUMP, back_up, check_backup, remove_damaged, restore, verify
from cathedra.cluster.data.datadir import DataDir, DataDirInUse
from cathedra.cluster.data.directories import Description, read_description, write_description

CLOCK = SystemClock()


async def opened(data: DataDir) -> APIServer:
    store = SQLiteStorage(data.path / "objects.sqlite")
    return await APIServer.open(ServerConfig(), clock=CLOCK, random=random.Random(1), store=store)


async def add(server: APIServer, name: str) -> None:
    client = Client(server.transport(), clock=CLOCK)
    await client.resource(CONFIGMAPS, "default").create(ConfigMap(metadata=ObjectMeta(name=name)))


async def names(server: APIServer) -> set[str]:
    page = await Client(server.transport(), clock=CLOCK).resource(CONFIGMAPS, "default").list()
    return {item.metadata.name for item in page.items}


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    made = DataDir(tmp_path / "data")
    with made.held():
        PKI(made.path / "pki", CLOCK.now()).tls_files(("127.0.0.1",))
        write_description(made.description, Description("dev", {"nodes": 1}))
    return made


async def test_a_backup_of_a_running_store_brings_its_objects_and_keys_back(data: DataDir, tmp_path: Path) -> None:
    server, file = await opened(data), tmp_path / "backup"
    await add(server, "before")
    made = back_up(data, file, CLOCK)
    await add(server, "after")
    last = server.revision
    await server.close()
    assert (made.cluster, made.store) == ("dev", "sqlite")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    authority = (data.path / "pki" / "ca.crt").read_bytes()
    PKI(data.path / "pki2", CLOCK.now()).tls_files(("127.0.0.1",))
    (data.path / "pki2" / "ca.crt").replace(data.path / "pki" / "ca.crt")

    restore(data, file)
    assert (data.path / "pki" / "ca.crt").read_bytes() == authority
    server = await opened(data)
    assert "before" in await names(server)
    assert "after" not in await names(server)
    # No revision that the replaced store has shown means anything now.
    assert server.revision >= last + BUMP
    await add(server, "later")
    await server.close()
    assert (data.path / "objects.sqlite.before-restore").exists()
    assert [path.name for path in data.path.glob(".restore-*")] == []


async def test_a_backup_makes_a_cluster_where_there_was_none(data: DataDir, tmp_path: Path) -> None:
    server = await opened(data)
    await add(server, "one")
    await server.close()
    back_up(data, tmp_path / "backup", CLOCK)
    other = DataDir(tmp_path / "other")
    restore(other, tmp_path / "backup")
    server = await opened(other)
    assert "one" in await names(server)
    await server.close()
    restore(other, tmp_path / "backup")  # and again
    assert other.description.read_text() == data.description.read_text()


async def test_under_another_name_it_is_another_cluster(data: DataDir, tmp_path: Path) -> None:
    await (await opened(data)).close()
    (data.path / "port").write_text("6443\n")
    back_up(data, tmp_path / "backup", CLOCK)
    other = DataDir(tmp_path / "other")
    assert restore(other, tmp_path / "backup", name="other").cluster == "other"
    assert read_description(other.description) == Description("other", {"nodes": 1})
    assert not (other.path / "port").exists()


async def test_a_directory_in_use_is_left_alone(data: DataDir, tmp_path: Path) -> None:
    await (await opened(data)).close()
    back_up(data, tmp_path / "backup", CLOCK)
    with data.held(), pytest.raises(DataDirInUse):
        restore(data, tmp_path / "backup")


async def test_what_exists_is_not_overwritten(data: DataDir, tmp_path: Path) -> None:
    await (await opened(data)).close()
    (tmp_path / "backup").write_text("mine")
    with pytest.raises(InvalidOption, match="exists; choose another name"):
        back_up(data, tmp_path / "backup", CLOCK)
    with pytest.raises(InvalidOption, match="cannot be written"):
        back_up(data, tmp_path / "missing" / "backup", CLOCK)
    assert (tmp_path / "backup").read_text() == "mine"


def test_objects_that_are_elsewhere_are_named(data: DataDir, tmp_path: Path) -> None:
    write_description(data.description, Description("dev", {"store": "memory"}))
    with pytest.raises(InvalidOption, match="are in memory"):
        back_up(data, tmp_path / "backup", CLOCK)
    write_description(data.description, Description("dev", {"store": "etcd://10.0.0.1:2379?cafile=x"}))
    assert back_up(data, tmp_path / "backup", CLOCK).store == "etcd://10.0.0.1:2379"
    with pytest.raises(InvalidOption, match="there is no cluster in"):
        back_up(DataDir(tmp_path / "nothing"), tmp_path / "backup2", CLOCK)


def archive(path: Path, entries: dict[str, bytes], *, link: str = "") -> Path:
    with tarfile.open(path, "w:gz") as made:
        for name, content in entries.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            made.addfile(entry, io.BytesIO(content))
        if link:
            entry = tarfile.TarInfo(link)
            entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
            made.addfile(entry)
    return path


def content_of(data: DataDir) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in data.path.rglob("*") if path.is_file() and path.name != "lock"}


MANIFEST = (
    b'{"apiVersion": "cathedra.dev/v1", "kind": "Backup", "cluster": "c", "store": "sqlite", "revision": 1, '
    b'"created": "", "version": ""}'
)


@pytest.mark.parametrize(
    ("entries", "link", "reason"),
    [
        ({"../escape": b""}, "", "is no part of a backup"),
        ({"/etc/cron.d/x": b""}, "", "is no part of a backup"),
        ({"pki/../../x": b""}, "", "is no part of a backup"),
        ({}, "pki/ca.crt", "is no part of a backup"),
        ({"backup.json": b"{}"}, "", "does not say apiVersion"),
        ({"backup.json": b"[1]"}, "", "is no backup of a cluster"),
        ({}, "", "does not say apiVersion"),
        ({"backup.json": MANIFEST}, "", "it has no objects.sqlite"),
        ({"backup.json": MANIFEST, "objects.sqlite": b"nothing"}, "", "no backup that can be read"),
    ],
)
def test_what_is_no_backup_changes_nothing(
    data: DataDir, tmp_path: Path, entries: dict[str, bytes], link: str, reason: str
) -> None:
    before = content_of(data)
    file = archive(tmp_path / "bad", entries, link=link)
    with pytest.raises(InvalidOption) as refused:
        check_backup(file)
    assert reason in str(refused.value)
    with pytest.raises(InvalidOption):
        restore(data, file)
    assert content_of(data) == before


async def test_a_torn_backup_is_recognised(data: DataDir, tmp_path: Path) -> None:
    await (await opened(data)).close()
    file = tmp_path / "backup"
    back_up(data, file, CLOCK)
    file.write_bytes(file.read_bytes()[:-2000])
    with pytest.raises(InvalidOption, match="no backup that can be read"):
        check_backup(file)
    with pytest.raises(InvalidOption, match="No such file"):
        check_backup(tmp_path / "nowhere")


# Verification of a cluster's database, and the removal of what is damaged.

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
