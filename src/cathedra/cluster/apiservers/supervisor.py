"""Supervisor of the API servers that serve one port beside the first, in child processes.

Several kube-apiservers behind a load balancer do the same: several processors authenticate, admit and validate
requests, and one store orders the writes. Here the first process listens and passes connections on. Unless the store is
etcd, it keeps that, too.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import pickle
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from cathedra.apiserver.server import APIServer
from cathedra.asgi.dealing import line_pair
from cathedra.client.backoff import ExponentialBackoff
from cathedra.clock import Clock
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.process.background import SERVER_PROGRAM

LOG: Final = logging.getLogger("cathedra.cluster")
READY: Final = b"\n"
"""Line of a child that serves. Beside this and `ALIVE`, every line is the name of a node, to which the figures of its
pods are the answer, in one line of JSON."""
ALIVE: Final = b".\n"
"""Line that the event loop of a child which serves sends every `ALIVE_SECONDS`."""
ALIVE_SECONDS: Final = 2.0
SILENT_SECONDS: Final = 6.0
"""Time without a line, twice in a row, after which a child counts as hung. It still is dealt connections, so their
clients wait for that long."""
LINE_LIMIT: Final = 16 * 1024 * 1024
"""Bytes of a line."""
PROGRAM: Final = (sys.executable, "-m", SERVER_PROGRAM)
STOP_SECONDS: Final = 20.0
"""Time that a child has to end before it is killed."""
_PAUSES: Final = (0.5, 30.0)
"""First and longest pause before a child is started again, in seconds."""

Usage = Callable[[str], Awaitable[Any]]
"""Returns the figures of a node's pods; None if they are not known."""


class ChildEnded(RuntimeError):
    """A child ended before all were ready. Its log has the reason."""


@dataclass(slots=True)
class _Child:
    """A child process and this process' ends of its sockets. The last two are None once the server has them."""

    process: asyncio.subprocess.Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    connections: socket.socket | None
    store: socket.socket | None

    @classmethod
    async def launch(cls, program: Sequence[str], *, stored: bool) -> _Child:
        """Start a process. It loads its modules and waits for its order. ``stored``: this process keeps the store."""
        line, connections, store = socket.socketpair(), line_pair(), socket.socketpair() if stored else (None, None)
        named = {"line": line[1], "connections": connections[1], "store": store[1]}
        inherited = {name: one for name, one in named.items() if one is not None}
        words = [f"{name}={one.fileno()}" for name, one in inherited.items()]
        descriptors = [one.fileno() for one in inherited.values()]
        try:
            process = await asyncio.create_subprocess_exec(
                *program, *words, stdin=asyncio.subprocess.DEVNULL, pass_fds=descriptors
            )
        finally:
            # The child has its own copies. An end that stayed open here would hide the child's death from the reader.
            for one in inherited.values():
                one.close()
        line[0].setblocking(False)
        reader, writer = await asyncio.open_connection(sock=line[0], limit=LINE_LIMIT)
        return cls(process, reader, writer, connections[0], store[0])

    async def stop(self) -> str:
        """Close the line, which ends the child, and kill it if it does not end in time. Return how it ended."""
        # The closed line is the order to end: it also reaches a child whose parent was killed.
        self.writer.close()
        for unused in (self.connections, self.store):
            if unused is not None:
                unused.close()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                code = await self.process.wait()
        except TimeoutError:
            LOG.error("the API server in process %d did not end and is killed", self.process.pid)
            self.process.kill()
            code = await self.process.wait()
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


class Supervisor:
    """The child processes of one cluster: `launch` them, `run` them, and `stop` those that never ran."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        clock: Clock,
        say: Callable[[str], None],
        usage: Usage,
        program: Sequence[str] = PROGRAM,
        silence: float = SILENT_SECONDS,
    ) -> None:
        """Prepare a supervisor. A child that has sent no line for twice ``silence`` seconds is killed and started
        again."""
        self._config, self._clock, self._say, self._usage, self._program = config, clock, say, usage, program
        self._silence = silence
        self._launched: list[_Child] = []
        self._missing = config.apiserver_count - 1
        """Children that have not been ready yet. While there are any, one that ends is an error of the start."""

    async def launch(self) -> None:
        """Start the processes. They load their modules while the first API server opens."""
        for _ in range(self._missing):
            self._launched.append(await self._launch())

    async def run(self, server: APIServer) -> None:
        """Supervise the children until cancelled, then end them.

        Raises:
            ExceptionGroup: `ChildEnded`, a child ended before all were ready.
        """
        children, self._launched = self._launched, []
        async with asyncio.TaskGroup() as group:
            for child in children:
                group.create_task(self._supervise(child, server), name="API server")

    async def stop(self) -> None:
        """End the children that were launched and never run."""
        for child in self._launched:
            await child.stop()

    async def _launch(self) -> _Child:
        return await _Child.launch(self._program, stored=not self._config.shares_store)

    async def _supervise(self, child: _Child, server: APIServer) -> None:
        pauses = ExponentialBackoff(self._clock, base=_PAUSES[0], factor=2.0, maximum=_PAUSES[1], reset_after=600.0)
        while True:
            try:
                await self._serve(child, server)
            finally:
                how = f"the API server in process {child.process.pid} {await child.stop()}"
            # During the start a dead child is the user's error (a port, a store). Later it is started again.
            if self._missing:
                raise ChildEnded(f"{how} before it was ready")
            self._say(f"{how}; it is started again")
            await self._clock.sleep(pauses.delay())
            child = await self._launch()

    async def _serve(self, child: _Child, server: APIServer) -> None:
        """Give a child its order, and answer it until it closes its end of the line."""
        if child.store is not None:
            store, child.store = child.store, None
            await server.serve_replica(store)
        # Only between processes of one program over an inherited socket, so pickle is safe here.
        order = pickle.dumps((self._config, server.port))
        child.writer.write(base64.b64encode(order) + b"\n")
        while line := await self._next_line_of(child):
            if line not in (READY, ALIVE):
                figures = await self._usage(line.decode().rstrip("\n"))
                child.writer.write(json.dumps(figures).encode() + b"\n")
            elif line == READY and child.connections is not None:
                # Connections are dealt out only once the child serves: they would wait in its socket for seconds.
                connections, child.connections = child.connections, None
                server.deal_to(connections)
                self._count_ready(server.url)

    async def _next_line_of(self, child: _Child) -> bytes:
        """Return the next line of a child. It is empty if the child closed its end, or was killed because it hung."""
        starts = child.connections is not None
        if starts:
            return await next_line(child.reader)
        # Twice: if this process was suspended itself, the first limit ends before the lines that wait can be read.
        for _ in range(2):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._silence):
                    return await next_line(child.reader)
        silent = 2 * self._silence
        LOG.error("the API server in process %d has hung for %g s and is killed", child.process.pid, silent)
        # A stopped process reacts to no other signal, and not to the closed line.
        child.process.kill()
        return b""

    def _count_ready(self, url: str) -> None:
        if self._missing:
            self._missing -= 1
            if not self._missing:
                self._say(f"{self._config.apiserver_count} processes answer on {url}")


@asynccontextmanager
async def several_servers(
    config: ClusterConfig,
    open_first: Callable[[], Awaitable[APIServer]],
    *,
    clock: Clock,
    say: Callable[[str], None],
    usage: Usage,
) -> AsyncIterator[APIServer]:
    """Yield the server that ``open_first`` opens, and ``config.apiserver_count - 1`` more on its port. The first one
    serves alone until the others are ready. ``usage`` returns what the pods of a simulated node use; only this process
    knows.

    Raises:
        ExceptionGroup: `ChildEnded`, a child ended before all were ready.
    """
    others = Supervisor(config, clock=clock, say=say, usage=usage)
    try:
        await others.launch()
        server = await open_first()
        try:
            async with asyncio.TaskGroup() as group:
                supervising = group.create_task(others.run(server))
                try:
                    yield server
                finally:
                    supervising.cancel()
        finally:
            await server.close()
    finally:
        await others.stop()


async def next_line(reader: asyncio.StreamReader) -> bytes:
    """Return the next line. It is empty if the other end is closed, also with data unread there (a reset)."""
    try:
        return await reader.readline()
    except ConnectionError:
        return b""
