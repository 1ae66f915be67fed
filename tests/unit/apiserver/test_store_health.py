"""Requests and health checks while the store's writer is down, and after it is back."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from cathedra.apiserver.storage import compaction, sqlite
from cathedra.apiserver.storage.protocol import StorageError, Write
from cathedra.apiserver.storage.sqlite import SQLiteStorage
from tests.unit.apiserver.asgi import open_asgi

MAPS = "/api/v1/namespaces/default/configmaps"


async def test_a_failing_writer_fails_the_write_and_the_health_checks_until_a_write_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(connection: sqlite3.Connection, writes: Sequence[Write]) -> list[StorageError | None]:
        raise SystemExit

    def refuse(self: SQLiteStorage) -> sqlite3.Connection:
        raise sqlite3.OperationalError("unable to open database file")

    async with open_asgi(store=SQLiteStorage(tmp_path / "db")) as asgi:
        assert (await asgi("GET", "/readyz")).status == 200
        with monkeypatch.context() as broken:
            broken.setattr(sqlite, "_RESTART_SECONDS", 0.01)
            broken.setattr(compaction, "commit_writes", fail)
            broken.setattr(SQLiteStorage, "_open", refuse)
            under_way = asyncio.create_task(asgi("POST", MAPS, {"metadata": {"name": "a"}}))
            async with asyncio.timeout(120):
                while (await asgi("GET", "/readyz")).status == 200:  # noqa: ASYNC110 - as a probe does
                    await asyncio.sleep(0)
            assert (await asgi("GET", "/livez")).status == 500
            refused = await asgi("POST", MAPS, {"metadata": {"name": "b"}})
            assert (refused.status, refused.json["kind"]) == (500, "Status")
        assert (await under_way).status == 500
        assert [item["metadata"]["name"] for item in (await asgi("GET", MAPS)).json["items"]] == []
        assert (await asgi("POST", MAPS, {"metadata": {"name": "a"}})).status == 201
        assert (await asgi("GET", "/readyz")).status == 200
        assert (await asgi("GET", "/livez")).status == 200
