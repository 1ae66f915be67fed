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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, Protocol

from cathedra.asgi.dealing import line_pair
from cathedra.client.backoff import ExponentialBackoff
from cathedra.clock import Clock
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.data.sockets import socket_of
from cathedra.cluster.parts.foundation import Served
from cathedra.cluster.processes.channel import LIMIT, Answer, ChannelClosed, ParentLine, write_order
from cathedra.cluster.processes.order import APISERVER, NODES, Identity, Layout, Order, has_replica

__all__ = ["SERVER_PROGRAM", "ChildEnded", "Supervisor"]

_LOG: Final = logging.getLogger("cathedra.cluster")
_PROGRAM: Final = (sys.executable, "-m", "cathedra.cluster.processes.child")
SERVER_PROGRAM: Final = (sys.executable, "-m", "cathedra.cluster.processes.serverchild")
STOP_SECONDS: Final = 20.0
"""How long a child may take to end before it is killed."""
ANSWER_SECONDS: Final = 5.0
"""How long a child may take to answer what all are asked."""
_PAUSES: Final = (0.5, 30.0)
"""First and longest pause before a child is started again, in seconds."""


Tokens = Callable[[Iterable[str]], Mapping[Identity, str]]
"""The tokens that the users of some parts show to the first process."""
Answers = Mapping[str, Answer]
"""What children may ask, and who answers."""


class FirstServer(Protocol):
    """The API server of the first process, as children need it."""

    async def serve_replica(self, connected: socket.socket) -> None:
        """Be the store of a child's API server, at the other end of the line."""

    def deal_to(self, line: socket.socket) -> None:
        """Let a child's API server serve its share of the connections, at the other end of the line."""


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
        connections: socket.socket | None,
    ) -> None:
        self.process = process
        self.line = line
        self.store = store
        """Where it expects the store that its API server is on, if it has one."""
        self.connections = connections
        """Where it expects connections of clients, if it serves any."""
        self._writer = writer

    @classmethod
    async def launch(
        cls, program: Sequence[str], say: Callable[[str], None], answers: Answers, *, replica: bool, serves: bool
    ) -> _Child:
        """With ``replica`` it has a line to the store, and if it ``serves``, one for connections."""
        ours, theirs = socket.socketpair()
        store, stores = socket.socketpair() if replica else (None, None)
        connections, served = line_pair() if serves else (None, None)
        named = {"line": theirs, "store": stores, "connections": served}
        inherited = {name: one for name, one in named.items() if one is not None}
        words = [f"{name}={one.fileno()}" for name, one in inherited.items()]
        try:
            process = await asyncio.create_subprocess_exec(
                *program,
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[one.fileno() for one in inherited.values()],
            )
        finally:
            for one in inherited.values():
                one.close()
        ours.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=ours, limit=LIMIT)
        return cls(process, ParentLine(reader, writer, say=say, answers=answers), writer, store, connections)

    def give(self, order: Order) -> None:
        """Let it begin."""
        write_order(self._writer, order.written())

    async def stop(self) -> None:
        """Let it end in order, and see to it that it ends."""
        self._writer.close()
        for unused in (self.store, self.connections):
            if unused is not None:
                unused.close()
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
        layout: Layout,
        *,
        clock: Clock,
        say: Callable[[str], None],
        tokens: Tokens = lambda _: {},
        answers: Answers = MappingProxyType({}),
        program: Sequence[str] = _PROGRAM,
    ) -> None:
        self._config = config
        self._layout = layout
        self._program = program
        self._tokens = tokens
        self._answers = answers
        self._clock = clock
        self._say = say
        self._names = [*config.node_names, *config.leaving]
        self._launched: dict[int, _Child] = {}
        """By the child's place in the layout, as the lines."""
        self._lines: list[asyncio.Future[ParentLine]] = []
        self._served: Served | None = None
        self._server: FirstServer | None = None
        self._ready = False

    async def launch(self) -> None:
        """Start the processes: they load what they need while the API server opens."""
        for place in range(len(self._layout)):
            self._launched[place] = await self._launch(place)
            self._lines.append(asyncio.get_running_loop().create_future())

    async def run(self, served: Served, server: FirstServer) -> None:
        """Let the children work until cancelled; then they end, in order.

        Raises:
            Exception: what a child ended with before the cluster was ready.
        """
        self._served, self._server = served, server
        async with asyncio.TaskGroup() as group:
            for place in range(len(self._layout)):
                group.create_task(self._supervise(place), name=f"process of {self._parts_of(place)}")

    async def stop(self) -> None:
        """End children that were launched and never told anything."""
        for child in tuple(self._launched.values()):
            await child.stop()

    async def wait_ready(self) -> None:
        """Wait until every child is ready: until nodes are Ready and their slices published."""
        await asyncio.gather(*(self._ask(place, "ready") for place in range(len(self._lines))))
        self._ready = True

    async def ask_all(self, question: str) -> list[Any]:
        """What the children answer that are there now and not slow; one that is started again is not waited for."""
        lines = [line.result() for line in self._lines if line.done()]
        asked = (asyncio.wait_for(line.ask(question), ANSWER_SECONDS) for line in lines)
        found = await asyncio.gather(*asked, return_exceptions=True)
        return [answer for answer in found if not isinstance(answer, BaseException)]

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
    def _home(self) -> int:
        """The process that nodes are in."""
        return next(place for place, parts in enumerate(self._layout) if NODES in parts)

    def _parts_of(self, place: int) -> str:
        return ", ".join(self._layout[place])

    async def _ask(self, place: int, question: str, argument: str = "") -> Any:
        """The answer of a child, or of the one that is started in its stead."""
        while True:
            line = await asyncio.shield(self._lines[place])
            try:
                return await line.ask(question, argument)
            except ChannelClosed:
                if self._lines[place].done() and self._lines[place].result() is line:
                    self._lines[place] = asyncio.get_running_loop().create_future()

    async def _supervise(self, place: int) -> None:
        pauses = ExponentialBackoff(self._clock, base=_PAUSES[0], factor=2.0, maximum=_PAUSES[1], reset_after=600.0)
        while True:
            child = self._launched.pop(place, None) or await self._launch(place)
            try:
                if child.store is not None:
                    assert self._server is not None, "the API server serves"
                    store, child.store = child.store, None
                    await self._server.serve_replica(store)
                child.give(self._order(place))
                if self._lines[place].done():
                    self._lines[place] = asyncio.get_running_loop().create_future()
                self._lines[place].set_result(child.line)
                async with asyncio.TaskGroup() as group:
                    dealing = group.create_task(self._deal(child))
                    await child.line.listen()
                    dealing.cancel()
                how = _ended(await child.process.wait())
            finally:
                await child.stop()
            self._judge(place, child, how)
            await self._clock.sleep(pauses.delay())

    async def _deal(self, child: _Child) -> None:
        """Let a child that serves clients have connections once it is ready."""
        if child.connections is None:
            return
        with suppress(ChannelClosed):
            await child.line.ask("ready")
            assert self._server is not None, "the API server serves"
            connections, child.connections = child.connections, None
            self._server.deal_to(connections)

    async def _launch(self, place: int) -> _Child:
        parts = self._layout[place]
        return await _Child.launch(
            self._program,
            self._say,
            self._answers,
            replica=has_replica(self._config, parts),
            serves=APISERVER in parts,
        )

    def _judge(self, place: int, child: _Child, how: str) -> None:
        """A child has ended: the cluster goes on without it for a while, or ends with it.

        Raises:
            Exception: what it ended with, before the cluster was ready.
        """
        failure = child.line.failure
        if not self._ready:
            raise failure or ChildEnded(f"the process of {self._parts_of(place)} {how}")
        self._say(f"the process of {self._parts_of(place)} ({child.process.pid}) {how}; it is started again")
        if failure is not None:
            _LOG.error("the process of %s failed: %s", self._parts_of(place), failure, exc_info=failure)

    def _order(self, place: int) -> Order:
        assert self._served is not None, "the API server serves"
        config, parts = self._config, self._layout[place]
        return Order(
            parts=parts,
            config=config,
            nodes=tuple(self._names) if NODES in parts else (),
            served=self._served,
            socket=socket_of(config.data_dir),
            tokens=self._tokens(parts),
            log_level=config.log_level,
            log_format=config.log_format,
        )


def _ended(code: int) -> str:
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with code {code}"
