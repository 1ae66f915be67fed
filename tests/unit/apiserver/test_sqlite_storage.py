"""The durable store: what was settled survives, also a kill in the middle of a storm of writes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cathedra.apiserver.storage.protocol import StorageError, Write
from cathedra.apiserver.storage.sqlite import SQLiteStorage

STORM = textwrap.dedent(
    """
    import asyncio, sys
    from pathlib import Path
    from cathedra.apiserver.storage.protocol import Write
    from cathedra.apiserver.storage.sqlite import SQLiteStorage

    async def main():
        store = SQLiteStorage(Path(sys.argv[1]))
        start = (await store.load()).revision
        loop = asyncio.get_running_loop()

        async def writer(number):
            revision = start
            while True:
                nonlocal_revision[0] += 1
                revision = nonlocal_revision[0]
                done = loop.create_future()
                store.commit(Write(f"/g/r/{number}/{revision}", revision, b"x" * 500), done.set_result)
                assert await done is None
                sys.stdout.write(f"{number}/{revision}\\n")
                sys.stdout.flush()

        nonlocal_revision = [start]
        await asyncio.gather(*(writer(n) for n in range(16)))

    asyncio.run(main())
    """
)


async def settled(store: SQLiteStorage, write: Write) -> StorageError | None:
    done: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
    store.commit(write, done.set_result)
    return await done


async def test_what_was_settled_is_loaded_again(tmp_path: Path) -> None:
    store = SQLiteStorage(tmp_path / "db")
    assert (await store.load()).revision == 0
    assert await settled(store, Write("/g/r/a", 1, b"one")) is None
    assert await settled(store, Write("/g/r/b", 2, b"two")) is None
    assert await settled(store, Write("/g/r/a", 3, None)) is None
    await store.close()
    again = SQLiteStorage(tmp_path / "db")
    snapshot = await again.load()
    await again.close()
    assert snapshot.revision == 3
    assert [(r.key, r.revision, r.value) for r in snapshot.records] == [("/g/r/b", 2, b"two")]


async def test_a_file_in_use_is_refused(tmp_path: Path) -> None:
    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    with pytest.raises(StorageError, match="in use by another process"):
        await SQLiteStorage(tmp_path / "db").load()
    await store.close()


async def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    import sqlite3

    store = SQLiteStorage(tmp_path / "db")
    await store.load()
    await store.close()
    connection = sqlite3.connect(tmp_path / "db")
    connection.execute("update meta set value = 99 where name = 'format'")
    connection.commit()
    connection.close()
    with pytest.raises(StorageError, match="format 99"):
        await SQLiteStorage(tmp_path / "db").load()


async def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", STORM, str(tmp_path / "db")], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for count, line in enumerate(process.stdout):
                if line.endswith("\n"):
                    acknowledged.add(line.strip())
                if count == 400:
                    os.kill(process.pid, signal.SIGKILL)
        store = SQLiteStorage(tmp_path / "db")
        snapshot = await store.load()
        await store.close()
        stored = {record.key.removeprefix("/g/r/") for record in snapshot.records}
        assert acknowledged <= stored
        assert snapshot.revision >= max(int(key.rpartition("/")[2]) for key in acknowledged)
