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
from random import Random
from typing import Any, Final

from cathedra.api.gates import FeatureGates
from cathedra.apiserver.authentication.pki import PKI
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.client.client import Client
from cathedra.client.local.transport import LocalTransport
from cathedra.client.local.unix import LocalConnection
from cathedra.clock import SystemClock
from cathedra.cluster.parts.controlplane import control_plane
from cathedra.cluster.parts.foundation import Foundation
from cathedra.cluster.parts.gctuning import suspend_collection, tune_collection
from cathedra.cluster.parts.generations import generation_of
from cathedra.cluster.parts.inprocessnodes import InProcessNodes
from cathedra.cluster.process.logs import configure_logging
from cathedra.cluster.processes.channel import LIMIT, ChannelClosed, ChildLine, read_order
from cathedra.cluster.processes.order import CONTROL_PLANE, Order, identity_of

__all__ = ["main"]

STOP_SECONDS: Final = 15.0
"""How long parts may take to end."""
STOPPED_EARLY: Final = 1
_LOG: Final = logging.getLogger("cathedra.cluster")


def main(words: list[str]) -> int:
    """Run a child on the inherited socket whose number is the only word; the exit code."""
    import uvloop  # start-up time: in programs alone

    suspend_collection()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(socket.socket(fileno=int(words[0]))))


async def _serve(inherited: socket.socket) -> int:
    inherited.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=inherited, limit=LIMIT)
    try:
        order = Order.read(await read_order(reader))
    except ChannelClosed:
        return STOPPED_EARLY
    configure_logging(order.log_level, order.log_format)  # type: ignore[arg-type]  # one of the option's choices
    line = ChildLine(reader, writer)
    working = asyncio.create_task(_work(order, line))
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
    connection = LocalConnection(order.socket)
    async with asyncio.TaskGroup() as group:
        base = _foundation(order, connection)
        tasks = [group.create_task(job) for job in control_plane(base)] if CONTROL_PLANE in order.parts else []
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
    connection.close()


def _foundation(order: Order, connection: LocalConnection) -> Foundation:
    config, clock = order.config, SystemClock()
    gates = FeatureGates.for_release(config.release, config.gates)
    generation = generation_of(gates)

    def client(user: UserInfo) -> Client:
        agent = user.name.rpartition(":")[2]
        return Client(LocalTransport(connection, order.tokens[identity_of(user)], agent=agent), clock=clock)

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
