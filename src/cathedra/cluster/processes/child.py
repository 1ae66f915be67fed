"""The program of a child process: it runs the parts that it is told to, until its parent has gone.

Ctrl-C reaches every process of a terminal; only the first one takes it, and ends its children in order.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from random import Random
from typing import Any, Final

from cathedra.api.gates import FeatureGates
from cathedra.apiserver.authentication.pki import PKI
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.storage.primary import PrimaryStore
from cathedra.client.client import Client
from cathedra.client.local.transport import LocalTransport
from cathedra.client.local.unix import LocalConnection
from cathedra.clock import Clock, SystemClock
from cathedra.cluster.parts.controlplane import control_plane
from cathedra.cluster.parts.foundation import Foundation
from cathedra.cluster.parts.gctuning import suspend_collection, tune_collection
from cathedra.cluster.parts.generations import generation_of
from cathedra.cluster.parts.inprocessnodes import InProcessNodes
from cathedra.cluster.process.logs import configure_logging
from cathedra.cluster.processes.channel import LIMIT, ChannelClosed, ChildLine, read_order
from cathedra.cluster.processes.order import Order, identity_of
from cathedra.cluster.serving import open_replica

__all__ = ["main"]

STOP_SECONDS: Final = 15.0
"""How long parts may take to end."""
STOPPED_EARLY: Final = 1
_LOG: Final = logging.getLogger("cathedra.cluster")


def main(words: list[str]) -> int:
    """Run a child on the inherited sockets whose numbers are the words: its line, and the store's, if its API server is
    in this process; the exit code."""
    import uvloop  # start-up time: in programs alone

    suspend_collection()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(*(socket.socket(fileno=int(word)) for word in words)))


async def _serve(inherited: socket.socket, store: socket.socket | None = None) -> int:
    inherited.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=inherited, limit=LIMIT)
    try:
        order = Order.read(await read_order(reader))
    except ChannelClosed:
        return STOPPED_EARLY
    configure_logging(order.log_level, order.log_format)  # type: ignore[arg-type]  # one of the option's choices
    line = ChildLine(reader, writer)
    working = asyncio.create_task(_work(order, line) if store is None else _work_on_replica(order, line, store))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
    try:
        await working
    except asyncio.CancelledError:
        return STOPPED_EARLY
    except Exception as error:
        # The last resort: the parent decides whether this ends the cluster, and shows it.
        await line.fail(_innermost(error), traceback.format_exc())
        return STOPPED_EARLY
    return 0


async def _work(order: Order, line: ChildLine) -> None:
    """With the first process' API server, over its socket."""
    connection, clock = LocalConnection(order.socket), SystemClock()

    def client(user: UserInfo) -> Client:
        agent = user.name.rpartition(":")[2]
        return Client(LocalTransport(connection, order.tokens[identity_of(user)], agent=agent), clock=clock)

    await _run_parts(order, line, _foundation(order, client, clock))
    connection.close()


async def _work_on_replica(order: Order, line: ChildLine, inherited: socket.socket) -> None:
    """With an API server of this process' own, on the first one's store."""
    clock = SystemClock()
    store = await PrimaryStore.over(inherited)
    gates = FeatureGates.for_release(order.config.release, order.config.gates)
    server = await open_replica(order.config, store, gates=gates, clock=clock, random=Random(secrets.randbits(64)))
    base = _foundation(order, lambda user: Client(server.transport_of(user), clock=clock), clock)
    working = asyncio.create_task(_run_parts(order, line, base))
    lost = asyncio.create_task(store.lost())
    try:
        await asyncio.wait((working, lost), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, lost):
            task.cancel()
        await asyncio.wait((working, lost))
        await server.close()
    if not working.cancelled():
        working.result()


async def _run_parts(order: Order, line: ChildLine, base: Foundation) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(job) for job in control_plane(base, order.parts)]
        nodes = InProcessNodes(base, group)
        for name in order.nodes:
            nodes.start(name, order.config.profile)
        try:
            await line.answer(_answers(nodes))
        finally:
            # What hangs in the middle of its end must not keep a process whose cluster has gone.
            asyncio.get_running_loop().call_later(STOP_SECONDS, os._exit, STOPPED_EARLY)
            for task in tasks:
                task.cancel()
            nodes.stop()


def _foundation(order: Order, client: Callable[[UserInfo], Client], clock: Clock) -> Foundation:
    config = order.config
    gates = FeatureGates.for_release(config.release, config.gates)
    generation = generation_of(gates)
    return Foundation(
        config=config,
        gates=gates,
        generation=generation,
        served=order.served,
        pki=PKI(config.data_dir / "pki", clock.now()),
        plain_client=client,
        clock=clock,
        random=Random(secrets.randbits(64)),
    )


def _answers(nodes: InProcessNodes) -> dict[str, Any]:
    async def ready(_: str) -> bool:
        await nodes.wait_ready()
        tune_collection()
        return True

    async def summary(_: str) -> list[str]:
        return list(await nodes.summary())

    return {"ready": ready, "summary": summary, "silence": nodes.silence, "usage": nodes.usage}


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
