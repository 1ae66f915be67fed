"""Program of a child process with one API server, which serves the connections that the first process passes to it.

It imports neither nodes nor drivers. Ctrl-C reaches every process of a terminal: the first one alone handles it, and
ends its children by closing their lines. A child that sees its line closed ends, so none outlives the first process.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import pickle
import secrets
import signal
import socket
import sys
from collections import deque
from collections.abc import Awaitable, Mapping
from random import Random
from typing import Any, Final

from cathedra.apiserver.storage.primary import PrimaryStore
from cathedra.clock import Clock, SystemClock
from cathedra.cluster.apiservers.supervisor import ALIVE, ALIVE_SECONDS, LINE_LIMIT, READY, next_line
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.parts.gctuning import collected_by_memory, suspend_collection
from cathedra.cluster.process.logs import configure_logging
from cathedra.cluster.serving import open_beside, serve_beside
from cathedra.node.concurrency import first_of
from cathedra.releases import FeatureGates

LOG: Final = logging.getLogger("cathedra.cluster")


def main(words: list[str]) -> int:
    """Serve on the inherited sockets, named as in ``line=3``, until the first process closes the line. Return the exit
    code."""
    import uvloop  # start-up time: in programs alone

    suspend_collection()
    # The terminal sends the signal to all processes at once. This one would end before its requests are answered.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    inherited = {name: socket.socket(fileno=int(number)) for name, _, number in (word.partition("=") for word in words)}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(inherited))


async def _run(inherited: Mapping[str, socket.socket]) -> int:
    inherited["line"].setblocking(False)
    reader, writer = await asyncio.open_connection(sock=inherited["line"], limit=LINE_LIMIT)
    order = await next_line(reader)
    if not order:
        return 0  # the first process ended before it gave an order
    # Unpickling is safe here: the bytes are of the process that started this one, over a socket that no other has.
    config, port = pickle.loads(base64.b64decode(order))
    configure_logging(config.log_level, config.log_format)
    serving = asyncio.ensure_future(_serve(config, port, inherited, Line(reader, writer)))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    try:
        await serving
    except asyncio.CancelledError:
        return 1
    except Exception:
        # The first process reports that this one ended, and refers to its log.
        LOG.exception("an API server beside the first failed")
        return 1
    return 0


async def _serve(config: ClusterConfig, port: int, inherited: Mapping[str, socket.socket], line: Line) -> None:
    primary = await PrimaryStore.over(inherited["store"]) if "store" in inherited else None
    gates = FeatureGates.for_release(config.release, config.gates)
    random = Random(secrets.randbits(64))
    server = await open_beside(config, primary, gates=gates, clock=SystemClock(), random=random)
    nodes = frozenset((*config.node_names, *config.leaving))
    server.take_figures_from(lambda node: line.usage(node) if node in nodes else None)
    try:
        await serve_beside(server, config, port, inherited["connections"])
        line.ready()
        async with collected_by_memory(SystemClock()):
            # A primary that has cut this process off may still hold the line open.
            lost = () if primary is None else (primary.lost(),)
            await first_of(line.listen(), line.report_life(SystemClock()), *lost)
    finally:
        await server.close()


class Line:
    """The child's end of the line: it reports that it is ready and that it runs, and requests the figures of simulated
    nodes' pods."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._waiting: deque[asyncio.Future[Any]] = deque()
        """Requests without an answer. Answers come in their order."""

    def ready(self) -> None:
        """Report that connections can be passed to this process."""
        self._writer.write(READY)

    async def report_life(self, clock: Clock) -> None:
        """Show the first process that this event loop runs, until cancelled."""
        while True:
            self._writer.write(ALIVE)
            await clock.sleep(ALIVE_SECONDS)

    def usage(self, node: str) -> Awaitable[Any]:
        """Request the figures of a node's pods; None if they are not known."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._writer.write(f"{node}\n".encode())
        return answer

    async def listen(self) -> None:
        """Take answers until the first process closes the line."""
        while line := await next_line(self._reader):
            _settle(self._waiting.popleft(), json.loads(line))
        while self._waiting:
            _settle(self._waiting.popleft(), None)


def _settle(answer: asyncio.Future[Any], figures: Any) -> None:
    if not answer.done():  # else the request was cancelled meanwhile
        answer.set_result(figures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
