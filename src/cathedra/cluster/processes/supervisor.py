"""Starts the children of a cluster, starts them again when they end, and speaks for the nodes in them.

A child that ends before the cluster was ready ends the cluster with its error, as it would in one process. Later it is
started again after a pause that grows: what it had written is the API server's, and parts begin with what is there.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from cathedra.client.backoff import ExponentialBackoff
from cathedra.clock import Clock
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.data.sockets import socket_of
from cathedra.cluster.parts.foundation import Served
from cathedra.cluster.processes.channel import LIMIT, ChannelClosed, ParentLine, write_order
from cathedra.cluster.processes.order import LAYOUTS, NODES, Order, Passes, has_replica

__all__ = ["ChildEnded", "Supervisor"]

_LOG: Final = logging.getLogger("cathedra.cluster")
_PROGRAM: Final = (sys.executable, "-m", "cathedra.cluster.processes.child")
STOP_SECONDS: Final = 20.0
"""How long a child may take to end before it is killed."""
_PAUSES: Final = (0.5, 30.0)
"""First and longest pause before a child is started again, in seconds."""


ServeReplica = Callable[[socket.socket], Awaitable[None]]


class ChildEnded(RuntimeError):
    """A child ended before the cluster was ready, and did not tell why."""


class _Child:
    """A process that has been started and waits for its order."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        line: ParentLine,
        writer: asyncio.StreamWriter,
        store: socket.socket | None,
    ) -> None:
        self.process = process
        self.line = line
        self.store = store
        """Where it expects the store that its API server is on, if it has one."""
        self._writer = writer

    @classmethod
    async def launch(cls, program: Sequence[str], say: Callable[[str], None], *, replica: bool) -> _Child:
        """With ``replica`` it has a second line, to the store."""
        ours, theirs = socket.socketpair()
        store, stores = socket.socketpair() if replica else (None, None)
        inherited = [one.fileno() for one in (theirs, stores) if one is not None]
        try:
            process = await asyncio.create_subprocess_exec(
                *(*program, *map(str, inherited)), stdin=asyncio.subprocess.DEVNULL, pass_fds=inherited
            )
        finally:
            theirs.close()
            if stores is not None:
                stores.close()
        ours.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=ours, limit=LIMIT)
        return cls(process, ParentLine(reader, writer, say=say), writer, store)

    def give(self, order: Order) -> None:
        """Let it begin."""
        write_order(self._writer, order.written())

    async def stop(self) -> None:
        """Let it end in order, and see to it that it ends."""
        self._writer.close()
        if self.store is not None:
            self.store.close()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.process.wait()
        except TimeoutError:
            _LOG.error("process %d did not end and is killed", self.process.pid)
            self.process.kill()
            await self.process.wait()


class Supervisor:
    """The processes of a cluster beside the first, as `run` runs."""

    def __init__(
        self,
        config: ClusterConfig,
        passes: Passes,
        *,
        clock: Clock,
        say: Callable[[str], None],
        program: Sequence[str] = _PROGRAM,
    ) -> None:
        self._config = config
        self._program = program
        self._passes = passes
        self._clock = clock
        self._say = say
        self._names = [*config.node_names, *config.leaving]
        self._launched: dict[tuple[str, ...], _Child] = {}
        self._lines: dict[tuple[str, ...], asyncio.Future[ParentLine]] = {}
        self._served: Served | None = None
        self._serve_replica: ServeReplica | None = None
        self._ready = False

    async def launch(self) -> None:
        """Start the processes: they load what they need while the API server opens."""
        for parts in LAYOUTS[self._config.processes]:
            self._launched[parts] = await self._launch(parts)
            self._lines[parts] = asyncio.get_running_loop().create_future()

    async def run(self, served: Served, serve_replica: ServeReplica) -> None:
        """Let the children work until cancelled; then they end, in order. ``serve_replica`` makes the API server the
        store of a child.

        Raises:
            Exception: what a child ended with before the cluster was ready.
        """
        self._served, self._serve_replica = served, serve_replica
        async with asyncio.TaskGroup() as group:
            for parts in LAYOUTS[self._config.processes]:
                group.create_task(self._supervise(parts), name=f"process of {', '.join(parts)}")

    async def stop(self) -> None:
        """End children that were launched and never told anything."""
        for child in tuple(self._launched.values()):
            await child.stop()

    async def wait_ready(self) -> None:
        """Wait until every child is ready: until nodes are Ready and their slices published."""
        await asyncio.gather(*(self._ask(parts, "ready") for parts in self._lines))
        self._ready = True

    async def summary(self) -> Sequence[str]:
        """What there is to say of nodes that are ready, a line each."""
        lines: list[str] = await self._ask(self._home, "summary")
        return lines

    async def silence(self, name: str) -> None:
        """Stop a node's agent and drivers for good.

        Raises:
            KeyError: no node of that name runs.
        """
        if name not in self._names:
            raise KeyError(name)
        self._names.remove(name)
        await self._ask(self._home, "silence", name)

    async def usage(self, name: str) -> Any:
        """What the pods of a node use; None, it is not known now."""
        line = self._lines[self._home]
        if not line.done():
            return None
        try:
            return await line.result().ask("usage", name)
        except ChannelClosed:
            return None

    def has(self, name: str) -> bool:
        """Whether a node of that name is in a child."""
        return name in self._names

    @property
    def _home(self) -> tuple[str, ...]:
        """The process that nodes are in."""
        return next(parts for parts in self._lines if NODES in parts)

    async def _ask(self, parts: tuple[str, ...], question: str, argument: str = "") -> Any:
        """The answer of a child, or of the one that is started in its stead."""
        while True:
            line = await asyncio.shield(self._lines[parts])
            try:
                return await line.ask(question, argument)
            except ChannelClosed:
                if self._lines[parts].done() and self._lines[parts].result() is line:
                    self._lines[parts] = asyncio.get_running_loop().create_future()

    async def _supervise(self, parts: tuple[str, ...]) -> None:
        pauses = ExponentialBackoff(self._clock, base=_PAUSES[0], factor=2.0, maximum=_PAUSES[1], reset_after=600.0)
        while True:
            child = self._launched.pop(parts, None) or await self._launch(parts)
            try:
                if child.store is not None:
                    assert self._serve_replica is not None, "the API server serves"
                    store, child.store = child.store, None
                    await self._serve_replica(store)
                child.give(self._order(parts))
                if self._lines[parts].done():
                    self._lines[parts] = asyncio.get_running_loop().create_future()
                self._lines[parts].set_result(child.line)
                await child.line.listen()
                how = _ended(await child.process.wait())
            finally:
                await child.stop()
            self._judge(parts, child, how)
            await self._clock.sleep(pauses.delay())

    async def _launch(self, parts: tuple[str, ...]) -> _Child:
        return await _Child.launch(self._program, self._say, replica=has_replica(self._config, parts))

    def _judge(self, parts: tuple[str, ...], child: _Child, how: str) -> None:
        """A child has ended: the cluster goes on without it for a while, or ends with it.

        Raises:
            Exception: what it ended with, before the cluster was ready.
        """
        failure = child.line.failure
        if not self._ready:
            raise failure or ChildEnded(f"the process of {', '.join(parts)} {how}")
        self._say(f"the process of {', '.join(parts)} ({child.process.pid}) {how}; it is started again")
        if failure is not None:
            _LOG.error("the process of %s failed: %s", ", ".join(parts), failure, exc_info=failure)

    def _order(self, parts: tuple[str, ...]) -> Order:
        assert self._served is not None, "the API server serves"
        config = self._config
        return Order(
            parts=parts,
            config=config,
            nodes=tuple(self._names) if NODES in parts else (),
            served=self._served,
            socket=socket_of(config.data_dir),
            tokens=self._passes.of(parts),
            log_level=config.log_level,
            log_format=config.log_format,
        )


def _ended(code: int) -> str:
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with code {code}"
