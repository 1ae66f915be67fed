"""The program of a child process with scheduler or nodes: it runs the parts that it is told to."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sys
from collections.abc import Callable
from random import Random
from typing import Any, Final

from cathedra.apiserver.authentication.pki import PKI
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.storage.primary import PrimaryStore
from cathedra.client.client import Client
from cathedra.client.denials import Denials
from cathedra.client.local.transport import LocalTransport
from cathedra.client.local.unix import LocalConnection
from cathedra.clock import Clock, SystemClock
from cathedra.cluster.parts.controlplane import control_plane
from cathedra.cluster.parts.foundation import Foundation
from cathedra.cluster.parts.gctuning import tune_collection
from cathedra.cluster.parts.generations import generation_of
from cathedra.cluster.parts.inprocessnodes import InProcessNodes
from cathedra.cluster.processes.channel import ChildLine
from cathedra.cluster.processes.order import Order, identity_of
from cathedra.cluster.processes.program import STOPPED_EARLY, Inherited, run_child, while_stored
from cathedra.cluster.serving import open_beside
from cathedra.releases import FeatureGates

__all__ = ["main"]

STOP_SECONDS: Final = 15.0
"""How long parts may take to end."""


def main(words: list[str]) -> int:
    """Run the parts of a child on the inherited sockets that the words name; the exit code."""
    return run_child(words, _work)


async def _work(order: Order, line: ChildLine, inherited: Inherited) -> None:
    if "store" in inherited:
        await _work_on_replica(order, line, inherited["store"])
    else:
        await _work_over_socket(order, line)


async def _work_over_socket(order: Order, line: ChildLine) -> None:
    """With the first process' API server, over its socket."""
    clock = SystemClock()
    connection = LocalConnection(order.socket, Denials(clock))

    def client(user: UserInfo) -> Client:
        agent = user.name.rpartition(":")[2]
        return Client(LocalTransport(connection, order.tokens[identity_of(user)], agent=agent), clock=clock)

    await _run_parts(order, line, _foundation(order, client, clock))
    connection.close()


async def _work_on_replica(order: Order, line: ChildLine, inherited: socket.socket) -> None:
    """With an API server of this process' own, on the first one's store."""
    clock, config = SystemClock(), order.config
    store = await PrimaryStore.over(inherited)
    gates, denials = FeatureGates.for_release(config.release, config.gates), Denials(clock)
    server = await open_beside(config, store, gates=gates, clock=clock, random=Random(secrets.randbits(64)))
    base = _foundation(order, lambda user: Client(server.transport_of(user, denials), clock=clock), clock)
    try:
        await while_stored(_run_parts(order, line, base), store)
    finally:
        await server.close()


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
