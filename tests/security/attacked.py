"""An API server in a process of its own, and what its memory and its other clients see of an attack."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cathedra.frames import write_frame
from cathedra.session.protocol import PROTOCOL, Attach

__all__ = ["Attacked", "Effect", "attacked"]

START_SECONDS = 120.0
LOOK_SECONDS = 0.05


@dataclass
class Effect:
    """Effects of an attack: the longest response of ``/livez`` in seconds, and the growth of memory in MiB, at most and
    after all its connections were closed."""

    stall: float = 0.0
    most: float = 0.0
    after: float = 0.0

    def __str__(self) -> str:
        return f"longest stall {self.stall:.2f} s, memory +{self.most:.0f} MiB, afterwards +{self.after:.0f} MiB"


class Attacked:
    """The server, and connections to it."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path, port: int, tls: ssl.SSLContext) -> None:
        self._process = process
        self._folder = folder
        self.port = port
        self._tls = tls
        self._reading: list[asyncio.Task[None]] = []

    def plain_tls(self) -> ssl.SSLContext:
        """A context without a client certificate."""
        context = ssl.create_default_context(cafile=str(self._folder / "ca.pem"))
        context.check_hostname = False
        return context

    def resident(self) -> float:
        """The memory of its process in MiB."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0

    async def connect(self, *, certificate: bool = True) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection, as an administrator or without credentials."""
        tls = self._tls if certificate else self.plain_tls()
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=tls, limit=1 << 20)

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        token: str = "",
        way: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None,
    ) -> tuple[int, bytes]:
        """Status and body of one request, on a connection of its own or a given one."""
        reader, writer = way or await self.connect(certificate=not token)
        lines = [f"{method} {path} HTTP/1.1", "Host: x", "Content-Type: application/json"]
        lines += [f"Content-Length: {len(body)}", *([f"Authorization: Bearer {token}"] if token else [])]
        writer.write("\r\n".join((*lines, "", "")).encode() + body)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.partition(b":")[2]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        )
        answer = await reader.readexactly(length)
        if way is None:
            writer.close()
        return int(head.split(b" ")[1]), answer

    async def fill(self, count: int, size: int) -> None:
        """Create a number of config maps of a size in bytes."""
        ways = [await self.connect() for _ in range(8)]

        async def some(first: int) -> None:
            for number in range(first, count, len(ways)):
                body = {"metadata": {"name": f"m{number}"}, "data": {"key": "x" * size}}
                path = "/api/v1/namespaces/default/configmaps"
                status, _ = await self.ask("POST", path, json.dumps(body).encode(), way=ways[first])
                assert status == 201

        await asyncio.gather(*(some(first) for first in range(len(ways))))
        for _, writer in ways:
            writer.close()

    async def account_token(self) -> str:
        """A token of an account without a role."""
        body = b'{"metadata":{"name":"plain"}}'
        path = "/api/v1/namespaces/default/serviceaccounts"
        await self.ask("POST", path, body)
        _, answer = await self.ask("POST", f"{path}/plain/token", b'{"spec":{}}')
        token: str = json.loads(answer)["status"]["token"]
        return token

    async def session(self, messages: list[Any], *, read: bool = False) -> asyncio.StreamWriter:
        """A session that was sent messages; it is read if the caller wants that."""
        reader, writer = await self.connect()
        lines = ("GET /api/session HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: cathedra-session/2", "", "")
        writer.write("\r\n".join(lines).encode())
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
        transport: Any = writer.transport
        if read:
            self._reading.append(asyncio.create_task(_discard(reader)))
        else:
            transport.pause_reading()
        for start in range(0, max(len(messages), 1), 8000):
            writer.write(write_frame([Attach(PROTOCOL, 0, ""), *messages[start : start + 8000]]))
        return writer

    async def under(self, attack: Callable[[], Awaitable[list[asyncio.StreamWriter]]], settle: float = 3.0) -> Effect:
        """Attack; the connections that ``attack`` returns are closed after some seconds."""
        effect, before = Effect(), self.resident()
        watching = asyncio.create_task(self._watch(effect, before))
        writers = await attack()
        await asyncio.sleep(settle)
        for writer in writers:
            writer.transport.abort()
        deadline = time.monotonic() + 10
        while self.resident() - before > 20 and time.monotonic() < deadline:  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.2)
        effect.after = self.resident() - before
        watching.cancel()
        await asyncio.gather(watching, *self._reading, return_exceptions=True)
        return effect

    async def _watch(self, effect: Effect, before: float) -> None:
        way = await self.connect()
        while True:
            began = time.monotonic()
            asking = asyncio.create_task(self.ask("GET", "/livez", way=way))
            while not asking.done():
                await asyncio.wait({asking}, timeout=LOOK_SECONDS)
                effect.most = max(effect.most, self.resident() - before)
                effect.stall = max(effect.stall, time.monotonic() - began)
            await asking
            await asyncio.sleep(LOOK_SECONDS)


async def _discard(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        while await reader.read(1 << 20):
            pass


@asynccontextmanager
async def attacked(folder: Path, *options: str) -> AsyncIterator[Attacked]:
    """A server with a data directory in ``folder``."""
    command = (sys.executable, "-m", "cathedra.cli.main", "apiserver", f"--data-dir={folder}", *options)
    with (folder / "server.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log, env=dict(os.environ))
    try:
        yield await _answering(process, folder)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(30):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


async def _answering(process: asyncio.subprocess.Process, folder: Path) -> Attacked:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.returncode is None:
        with suppress(OSError, KeyError, ValueError, TypeError, asyncio.IncompleteReadError):
            config = yaml.safe_load((folder / "kubeconfig").read_text())
            cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
            (folder / "ca.pem").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
            pair = user["client-certificate-data"], user["client-key-data"]
            (folder / "admin.pem").write_bytes(b"".join(map(base64.b64decode, pair)))
            tls = ssl.create_default_context(cafile=str(folder / "ca.pem"))
            tls.check_hostname = False
            tls.load_cert_chain(folder / "admin.pem")
            server = Attacked(process, folder, int(cluster["server"].rpartition(":")[2]), tls)
            status, _ = await server.ask("GET", "/readyz")
            if status == 200:
                return server
        await asyncio.sleep(0.05)
    raise RuntimeError((folder / "server.log").read_text())
