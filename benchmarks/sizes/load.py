"""Requests of clients of a large cluster, over HTTP and TLS, that cost the client itself little."""

from __future__ import annotations

import asyncio
import re
from typing import Final

import msgspec

from benchmarks.apiserver import Target
from benchmarks.sizes.filling import PODS_EACH, pod_name

PAGE: Final = 500
WATCHERS: Final = 100
WRITES: Final = 1000
WRITERS: Final = 16


class _Continued(msgspec.Struct):
    """The token of the next page."""

    token: str = msgspec.field(default="", name="continue")


class _PodPage(msgspec.Struct):
    metadata: _Continued
    items: list[msgspec.Raw]


class _Connection:
    """Requests over HTTP and TLS, one after the other; only what the load needs is decoded."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    @staticmethod
    async def open(target: Target) -> _Connection:
        """Connect."""
        reader, writer = await asyncio.open_connection(
            target.host, target.port, ssl=target.context(), server_hostname=target.host, limit=2**26
        )
        return _Connection(reader, writer)

    async def send(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Send a request and return the answer's body, or nothing if it has no length."""
        kind = f"Content-Type: application/merge-patch+json\r\nContent-Length: {len(body)}\r\n" if body else ""
        self._writer.write(f"{method} {path} HTTP/1.1\r\nHost: bench\r\n{kind}\r\n".encode() + body)
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        if not head.startswith(b"http/1.1 200"):
            raise RuntimeError(head.decode())
        _, found, length = head.partition(b"content-length: ")
        return await self.reader.readexactly(int(length.partition(b"\r")[0])) if found else b""

    def close(self) -> None:
        """Close it."""
        self._writer.close()


class Load:
    """Requests of clients of a large cluster."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._written = 0

    async def pages(self) -> int:
        """List all pods in pages; return their number."""
        connection, token, count = await _Connection.open(self._target), "", 0
        while token or not count:
            path = f"/api/v1/pods?limit={PAGE}" + (f"&continue={token}" if token else "")
            token = msgspec.json.decode(await connection.send("GET", path), type=_PodPage).metadata.token
            count += 1
        connection.close()
        return count

    async def changed_pages(self) -> int:
        """The same while pods change."""
        writer = await _Connection.open(self._target)
        done = asyncio.Event()

        async def write() -> None:
            while not done.is_set():
                await self._write(writer)

        writing = asyncio.create_task(write())
        count = await self.pages()
        done.set()
        await writing
        writer.close()
        return count

    async def watch(self) -> int:
        """Change pods that many watch; return the number of events."""
        connections = [await self._watching() for _ in range(WATCHERS)]
        writers = [await _Connection.open(self._target) for _ in range(WRITERS)]

        async def write(connection: _Connection) -> None:
            for _ in range(WRITES // WRITERS):
                await self._write(connection)

        async def read(connection: _Connection) -> None:
            received = 0
            while received < WRITES // WRITERS * WRITERS:
                received += (await connection.reader.read(2**20)).count(b"}\n")

        await asyncio.gather(*map(write, writers), *map(read, connections))
        for one in (*connections, *writers):
            one.close()
        return WRITES * WATCHERS

    async def _watching(self) -> _Connection:
        """Return a connection on which the events of all pods arrive."""
        version = await self._version()
        # Not opened before: the server closes a connection on which nothing comes for some time.
        connection = await _Connection.open(self._target)
        await connection.send("GET", f"/api/v1/pods?watch=true&resourceVersion={version}")
        return connection

    async def _version(self) -> str:
        connection = await _Connection.open(self._target)
        answer = await connection.send("GET", "/api/v1/pods?limit=1")
        connection.close()
        found = re.search(rb'"resourceVersion":"(\d+)"', answer)
        assert found is not None
        return found[1].decode()

    async def _write(self, connection: _Connection) -> None:
        self._written += 1
        pod = pod_name(f"node-{self._written % 100 + 10}", self._written % PODS_EACH)
        body = b'{"metadata":{"annotations":{"written":"%d"}}}' % self._written
        await connection.send("PATCH", f"/api/v1/namespaces/default/pods/{pod}", body)
