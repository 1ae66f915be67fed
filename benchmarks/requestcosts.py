"""Instructions of the processor that the API server takes for a request over TLS.

The server is ``cathedra apiserver`` on its SQLite store, under Valgrind. Each of eight connections, which are open
before the count begins, sends its next request when the answer to the last is complete.

    python -m benchmarks.requestcosts [--source OTHER/src] [--functions N] [KIND ...]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.apiserver import Target, target_of
from benchmarks.callgrind import Count, Program, begin_count, end_count
from cathedra.client.kubeconfig import KubeconfigError

CONNECTIONS: Final = 8
KEPT: Final = 500
"""Config maps that are read, listed and changed."""
WARM: Final = 100
COUNTED: Final = {"LIST": 50}
MOST: Final = 1000
"""Requests that are counted of the other kinds."""
READY_SECONDS: Final = 120.0
_SPACE: Final = "/api/v1/namespaces/bench"
_MAPS: Final = f"{_SPACE}/configmaps"

Make = Callable[[int], bytes]
"""Number of a request → the request."""


def _request(method: str, path: str, body: object = None, kind: str = "application/json") -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nUser-Agent: bench/1\r\n"
    if content:
        head += f"Content-Type: {kind}\r\nContent-Length: {len(content)}\r\n"
    return head.encode() + b"\r\n" + content


def _config_map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"app": "bench"}}, "data": {"key": "value", "more": "x" * 200}}


KINDS: Final[dict[str, Make]] = {
    "GET": lambda number: _request("GET", f"{_MAPS}/kept-{number % KEPT}"),
    "LIST": lambda number: _request("GET", f"{_MAPS}?labelSelector=app&limit={KEPT}"),
    "POST": lambda number: _request("POST", _MAPS, _config_map(f"posted-{number}")),
    "PATCH": lambda number: _request(
        "PATCH", f"{_MAPS}/kept-{number % KEPT}", {"data": {"key": str(number)}}, "application/merge-patch+json"
    ),
    "DELETE": lambda number: _request("DELETE", f"{_MAPS}/posted-{number}"),
}
"""A POST precedes DELETE, which removes what it created."""


class Connection:
    """One connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, target: Target) -> Connection:
        """Open one."""
        context = target.context()
        opened = asyncio.open_connection(target.host, target.port, ssl=context, server_hostname=target.host)
        return cls(*await opened)

    async def send(self, requests: Iterator[bytes]) -> None:
        """Send requests, each after the answer to the one before.

        Raises:
            RuntimeError: one was not answered with 2xx.
        """
        for request in requests:
            self._writer.write(request)
            head = await self._reader.readuntil(b"\r\n\r\n")
            if b"chunked" in head.lower():
                while size := int(await self._reader.readline(), 16):
                    await self._reader.readexactly(size + 2)
                await self._reader.readline()
            else:
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
                await self._reader.readexactly(int(length))
            if not head.startswith(b"HTTP/1.1 2"):
                raise RuntimeError(f"{request[:100]!r} was answered with {head!r}")

    def close(self) -> None:
        """Close it."""
        self._writer.close()


@contextmanager
def _server(folder: Path, source: Path | None, *, functions: bool) -> Iterator[Program]:
    """A server under Valgrind, which is ready."""
    arguments = ["-m", "cathedra.cli.main", "apiserver", f"--data-dir={folder / 'data'}"]
    program = Program(folder, arguments, source, functions=functions)
    try:
        asyncio.run(_ready(program, folder))
        yield program
    finally:
        program.close()


async def _ready(program: Program, folder: Path) -> None:
    ends = time.monotonic() + READY_SECONDS
    while program.process.poll() is None and time.monotonic() < ends:
        await asyncio.sleep(0.2)  # a process under Valgrind sends no event when it is ready
        try:
            connection = await Connection.open(target_of(folder / "data" / "kubeconfig", folder))
            await connection.send(iter([_request("GET", "/readyz")]))
        except (KubeconfigError, OSError, RuntimeError, EOFError):
            continue
        connection.close()
        return
    raise RuntimeError(f"the API server is not ready: {program.printed()[-2000:]}")


def count(kinds: Sequence[str], source: Path | None = None, *, functions: bool = False) -> Iterator[tuple[str, Count]]:
    """Count requests of these kinds.

    Raises:
        RuntimeError: Valgrind is missing, or a request failed.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        with _server(folder, source, functions=functions) as program:
            target = target_of(folder / "data" / "kubeconfig", folder)
            asyncio.run(_send_all(target, program.process.pid, kinds))
            for number, kind in enumerate(kinds, start=1):
                yield kind, program.count(COUNTED.get(kind, MOST), number)


async def _send_all(target: Target, process: int, kinds: Sequence[str]) -> None:
    connections = [await Connection.open(target) for _ in range(CONNECTIONS)]
    space = _request("POST", "/api/v1/namespaces", {"metadata": {"name": "bench"}})
    kept = (_request("POST", _MAPS, _config_map(f"kept-{number}")) for number in range(KEPT))
    await connections[0].send(itertools.chain([space], kept))
    for kind in kinds:
        if kind == "DELETE" and "POST" not in kinds:
            await _send(connections, KINDS["POST"], range(WARM + MOST))
        await _send(connections, KINDS[kind], range(WARM))
        begin_count(process)
        await _send(connections, KINDS[kind], range(WARM, WARM + COUNTED.get(kind, MOST)))
        end_count(process)
    for connection in connections:
        connection.close()


async def _send(connections: Sequence[Connection], make: Make, numbers: range) -> None:
    requests = map(make, numbers)
    async with asyncio.TaskGroup() as group:
        for connection in connections:
            group.create_task(connection.send(requests))


def main() -> int:
    """Count, and print one line for each kind, and one for each function."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.requestcosts")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)} (default: all)")
    parser.add_argument("--source", type=Path, help="folder with another version of the package cathedra")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="print the N functions that cost most")
    arguments = parser.parse_args()
    unknown = [kind for kind in arguments.kinds if kind not in KINDS]
    if unknown:
        parser.error(f"no such kind: {', '.join(unknown)}; there are {', '.join(KINDS)}")
    if arguments.functions and sys.version_info < (3, 12):
        parser.error("--functions needs Python 3.12 or later")
    for kind, found in count(arguments.kinds or list(KINDS), arguments.source, functions=bool(arguments.functions)):
        print(f"{kind:<10} {found.total / 1000:8,.0f} thousand instructions per request", flush=True)
        found.show(arguments.functions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
