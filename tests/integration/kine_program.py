"""A server that behaves as kine (https://github.com/k3s-io/kine) does, over SQLite: a program for tests.

It accepts kine's forms of requests alone (``pkg/server``), answers with kine's errors and headers, and keeps the rows
of kine's table (``pkg/drivers/generic``). Where kine promises less than etcd, it uses the freedom: the revision of an
empty read lags behind, a page reports the revision at which the other pages were counted, progress overtakes events.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, Final, NoReturn

import grpc
import grpc.aio

from cathedra._proto import etcd_pb2 as pb
from cathedra._proto import etcd_pb2_grpc

POLL_SECONDS: Final = 0.005
"""Pause after which watches see a write: kine polls its table."""
COMPACTED: Final = "etcdserver: mvcc: required revision has been compacted"
FUTURE: Final = "etcdserver: mvcc: required revision is a future revision"
UNSUPPORTED: Final = "etcdserver: unsupported operations in txn request"
COMPACT_KEY: Final = "compact_rev_key"
COMPACT_KEY_OF_CLIENTS: Final = "compact_rev_key_apiserver"
"""kine keeps the row ``compact_rev_key`` for itself, and what API servers write there under this name."""
TABLE: Final = """CREATE TABLE IF NOT EXISTS kine (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, created INTEGER, deleted INTEGER,
    create_revision INTEGER, prev_revision INTEGER, value BLOB, UNIQUE (name, prev_revision))"""
COLUMNS: Final = "id, name, created, deleted, create_revision, prev_revision, value"
Row = tuple[int, str, int, int, int, int, bytes]


class Rows:
    """kine's table: one row per write, and the highest row of a name is its state."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        # Enough for a process that is killed: what it has written is with the operating system.
        self._database.execute("PRAGMA synchronous=OFF")
        self._database.execute(TABLE)
        if not self.last():
            self.append(COMPACT_KEY, 0, created=True)
        if self.get("/registry/health", 0) is None:
            self.append("/registry/health", 0, b'{"health":"true"}', created=True)

    def last(self) -> int:
        return int(self._database.execute("SELECT COALESCE(MAX(id), 0) FROM kine").fetchone()[0])

    def compacted(self) -> int:
        query = "SELECT COALESCE(MAX(prev_revision), 0) FROM kine WHERE name = ?"
        return int(self._database.execute(query, (COMPACT_KEY,)).fetchone()[0])

    def get(self, name: str, revision: int, *, deleted: bool = False) -> Row | None:
        query = f"SELECT {COLUMNS} FROM kine WHERE name = ? AND id <= ? ORDER BY id DESC LIMIT 1"
        row = self._database.execute(query, (name, revision or 1 << 60)).fetchone()
        return None if row is None or (row[3] and not deleted) else row

    def between(self, start: str, end: str, revision: int) -> list[Row]:
        query = (
            f"SELECT {COLUMNS} FROM kine WHERE id IN (SELECT MAX(id) FROM kine WHERE name >= ? AND name < ? AND id <= ?"
            " GROUP BY name) AND deleted = 0 ORDER BY name"
        )
        return self._database.execute(query, (start, end, revision or 1 << 60)).fetchall()

    def after(self, start: str, end: str, revision: int) -> list[Row]:
        query = f"SELECT {COLUMNS} FROM kine WHERE id > ? AND name >= ? AND name < ? ORDER BY id"
        return self._database.execute(query, (revision, start, end)).fetchall()

    def append(
        self,
        name: str,
        before: int,
        value: bytes = b"",
        *,
        created: bool = False,
        deleted: bool = False,
        since: int = 0,
    ) -> int:
        columns = "name, created, deleted, create_revision, prev_revision, value"
        row = (name, created, deleted, since, before, value)
        return int(self._database.execute(f"INSERT INTO kine ({columns}) VALUES (?,?,?,?,?,?)", row).lastrowid or 0)

    def compact(self, revision: int) -> None:
        """Remove what is superseded or deleted up to ``revision``."""
        superseded = "id IN (SELECT prev_revision FROM kine WHERE name != ? AND prev_revision != 0 AND id <= ?)"
        self._database.execute(f"DELETE FROM kine WHERE {superseded}", (COMPACT_KEY, revision))
        self._database.execute("DELETE FROM kine WHERE deleted != 0 AND id <= ?", (revision,))
        self._database.execute("UPDATE kine SET prev_revision = ? WHERE name = ?", (revision, COMPACT_KEY))


class Kine(etcd_pb2_grpc.KVServicer, etcd_pb2_grpc.WatchServicer, etcd_pb2_grpc.MaintenanceServicer):  # type: ignore[misc]
    """The services of kine that API servers call."""

    def __init__(self, rows: Rows, notify: float) -> None:
        self._rows = rows
        self._notify = notify
        self._polled = rows.last()
        self._changed = asyncio.Condition()

    async def poll(self) -> None:
        """Show writes to watches a moment later, until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if self._polled != (last := self._rows.last()):
                async with self._changed:
                    self._polled = last
                    self._changed.notify_all()

    async def Range(self, request: Any, context: Any) -> Any:  # noqa: N802
        if not request.range_end:
            return await self._get(request, context)
        start, end = request.key.decode(), request.range_end.decode()
        rows = self._rows.between(start, end, request.revision)
        await self._readable(request.revision, self._rows.last() if rows else self._polled, context)
        limit = request.limit or len(rows)
        more = len(rows) > limit
        answered = self._polled if not rows else self._rows.last()
        if more:
            # kine reads the page and counts the rest in two queries, and a write may come between them.
            for _ in range(4):
                await asyncio.sleep(0)
            answered = self._rows.last()
        kvs = [] if request.count_only else [_kv(row) for row in rows[:limit]]
        return pb.RangeResponse(header=_header(answered), kvs=kvs, more=more, count=len(rows))

    async def _get(self, request: Any, context: Any) -> Any:
        if request.limit > 1:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "limit is not implemented by kine")
        name = request.key.decode()
        row = self._rows.get(COMPACT_KEY_OF_CLIENTS if name == COMPACT_KEY else name, request.revision)
        revision = self._rows.last() if row else self._polled
        await self._readable(request.revision, revision, context)
        kvs = [] if row is None else [_kv(row)]
        return pb.RangeResponse(header=_header(revision), kvs=kvs, count=len(kvs))

    async def _readable(self, revision: int, known: int, context: Any) -> None:
        if revision > known:
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, FUTURE)
        if 0 < revision < self._rows.compacted():
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, COMPACTED)

    async def Txn(self, request: Any, context: Any) -> Any:  # noqa: N802
        compares, success, failure = request.compare, request.success, request.failure
        operation = success[0].WhichOneof("request") if len(success) == 1 else ""
        reads = len(failure) == 1 and failure[0].WhichOneof("request") == "request_range"
        equal = len(compares) == 1 and compares[0].result == pb.Compare.EQUAL
        of_revision = equal and compares[0].target == pb.Compare.MOD
        if of_revision and not failure and operation == "request_put" and not compares[0].mod_revision:
            return self._create(success[0].request_put)
        if of_revision and reads and operation == "request_delete_range":
            return self._delete(success[0].request_delete_range.key.decode(), compares[0].mod_revision)
        if of_revision and reads and operation == "request_put":
            key, put = compares[0].key.decode(), success[0].request_put
            return self._update(key, put.value, compares[0].mod_revision)
        of_version = equal and compares[0].target == pb.Compare.VERSION
        if of_version and reads and operation == "request_put" and compares[0].key.decode() == COMPACT_KEY:
            return self._compaction(compares[0].version, success[0].request_put.value)
        kinds = [one.WhichOneof("request") for one in success]
        if not compares and not failure and kinds == ["request_range", "request_delete_range"]:
            return self._delete(success[1].request_delete_range.key.decode(), 0)
        return await context.abort(grpc.StatusCode.INVALID_ARGUMENT, UNSUPPORTED)

    def _made(self, name: str, value: bytes) -> int:
        """Create a key. Return 0 if it exists."""
        row = self._rows.get(name, 0, deleted=True)
        if row is not None and not row[3]:
            return 0
        return self._rows.append(name, row[0] if row else 0, value, created=True)

    def _create(self, put: Any) -> Any:
        revision = self._made(put.key.decode(), put.value)
        if not revision:
            return pb.TxnResponse(header=_header(self._polled))
        return _put(revision)

    def _update(self, name: str, value: bytes, expected: int) -> Any:
        row = self._rows.get(name, 0)
        if not expected:
            revision = self._made(name, value)
            return _put(revision) if revision else self._refused(row)
        if row is None or row[0] != expected:
            return self._refused(row)
        return _put(self._rows.append(name, row[0], value, since=row[4]))

    def _delete(self, name: str, expected: int) -> Any:
        row = self._rows.get(name, 0, deleted=True)
        if row is not None and (row[3] or (expected and row[0] != expected)):
            return self._refused(None if row[3] else row)
        # For a name without any row kine reports success.
        revision = self._rows.append(name, row[0], deleted=True) if row else self._polled
        response = pb.DeleteRangeResponse(header=_header(revision), deleted=int(row is not None))
        responses = [pb.ResponseOp(response_delete_range=response)]
        return pb.TxnResponse(header=_header(revision), succeeded=True, responses=responses)

    def _refused(self, row: Row | None) -> Any:
        header = _header(self._rows.last() if row else self._polled)
        return _failed(header, [] if row is None else [_kv(row)])

    def _compaction(self, version: int, value: bytes) -> Any:
        row = self._rows.get(COMPACT_KEY_OF_CLIENTS, 0)
        known, kept = _version(row)
        if known != version:
            kv = pb.KeyValue(key=COMPACT_KEY.encode(), value=kept, version=known)
            return _failed(_header(self._polled), [kv])
        written = b"%d|%s" % (version + 1, value)
        revision = (
            self._rows.append(COMPACT_KEY_OF_CLIENTS, row[0], written)
            if row
            else self._made(COMPACT_KEY_OF_CLIENTS, written)
        )
        return pb.TxnResponse(header=_header(revision), succeeded=True)

    async def Compact(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.revision > self._rows.last():
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, FUTURE)
        if request.revision <= self._rows.compacted():
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, COMPACTED)
        self._rows.compact(request.revision)
        return pb.CompactionResponse(header=_header(self._rows.last()))

    async def Status(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pb.StatusResponse(header=pb.ResponseHeader(), version="3.5.13", dbSize=1)

    async def Watch(self, requests: AsyncIterator[Any], context: Any) -> None:  # noqa: N802
        watches = [
            asyncio.create_task(self._watch(request.create_request, number, context))
            async for number, request in _numbered(requests)
            if request.WhichOneof("request_union") == "create_request"
        ]
        for watch in watches:
            watch.cancel()

    async def _watch(self, create: Any, number: int, context: Any) -> None:
        await context.write(pb.WatchResponse(header=pb.ResponseHeader(), watch_id=number, created=True))
        start, end = create.key.decode(), create.range_end.decode() or create.key.decode() + "\0"
        seen = create.start_revision - 1 if create.start_revision > 1 else self._polled
        if seen < self._rows.compacted():
            await context.write(
                pb.WatchResponse(
                    header=_header(self._rows.last()),
                    watch_id=number,
                    canceled=True,
                    cancel_reason=COMPACTED,
                    compact_revision=self._rows.compacted(),
                )
            )
            return
        while True:
            found = [row for row in self._rows.after(start, end, seen) if row[0] <= self._polled]
            if found:
                seen = found[-1][0]
                events = [pb.Event(type="DELETE" if row[3] else "PUT", kv=_kv(row)) for row in found]
                await context.write(pb.WatchResponse(header=_header(seen), watch_id=number, events=events))
                continue
            async with self._changed:
                try:
                    async with asyncio.timeout(self._notify):
                        await self._changed.wait_for(lambda: self._polled > seen)  # noqa: B023 - awaited at once
                except TimeoutError:
                    pass
            # What was written since the last poll is included in the number but is not sent yet.
            if create.progress_notify:
                await context.write(pb.WatchResponse(header=_header(self._rows.last()), watch_id=number))
            await asyncio.sleep(POLL_SECONDS)


async def _numbered(requests: AsyncIterator[Any]) -> AsyncIterator[tuple[int, Any]]:
    number = 0
    async for request in requests:
        number += 1
        yield number, request


def _header(revision: int) -> Any:
    """kine's headers have neither a cluster nor a member."""
    return pb.ResponseHeader(revision=revision)


def _kv(row: Row) -> Any:
    number, name, created, _, since, _, value = row
    if name == COMPACT_KEY_OF_CLIENTS:
        version, value = _version(row)
        return pb.KeyValue(key=COMPACT_KEY.encode(), value=value, version=version, mod_revision=number)
    return pb.KeyValue(
        key=name.encode(), value=value, create_revision=number if created else since, mod_revision=number
    )


def _version(row: Row | None) -> tuple[int, bytes]:
    """kine counts no versions of keys, so this one is part of the value."""
    if row is None:
        return 0, b""
    version, _, value = row[6].partition(b"|")
    return int(version), value


def _put(revision: int) -> Any:
    response = pb.ResponseOp(response_put=pb.PutResponse(header=_header(revision)))
    return pb.TxnResponse(header=_header(revision), succeeded=True, responses=[response])


def _failed(header: Any, kvs: Iterable[Any]) -> Any:
    found = list(kvs)
    response = pb.RangeResponse(header=header, kvs=found, count=len(found))
    return pb.TxnResponse(header=header, responses=[pb.ResponseOp(response_range=response)])


async def serve(arguments: argparse.Namespace) -> NoReturn:
    """Serve until killed."""
    kine = Kine(Rows(arguments.data), arguments.notify)
    # gRPC's servers in Python refuse requests at random once a thousand wait; those in Go do not.
    unlimited = ("grpc.server.max_pending_requests", "grpc.server.max_pending_requests_hard_limit")
    server = grpc.aio.server(options=[(name, 1 << 20) for name in unlimited])
    etcd_pb2_grpc.add_KVServicer_to_server(kine, server)
    etcd_pb2_grpc.add_WatchServicer_to_server(kine, server)
    etcd_pb2_grpc.add_MaintenanceServicer_to_server(kine, server)
    server.add_insecure_port(f"127.0.0.1:{arguments.port}")
    await server.start()
    await kine.poll()
    raise AssertionError("polling ends with the process")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--notify", type=float, default=5.0, help="seconds between progress notifications")
    asyncio.run(serve(parser.parse_args()))
