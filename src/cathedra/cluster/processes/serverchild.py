"""The program of a child process with an API server alone, which serves its share of the first one's clients.

A program of its own, so that it loads neither nodes nor drivers.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Awaitable
from random import Random
from typing import Any

from cathedra.apiserver.server import APIServer
from cathedra.apiserver.storage.primary import PrimaryStore
from cathedra.clock import SystemClock
from cathedra.cluster.parts.gctuning import collected_by_memory
from cathedra.cluster.processes.channel import ChannelClosed, ChildLine
from cathedra.cluster.processes.order import Order
from cathedra.cluster.processes.program import Inherited, run_child, while_stored
from cathedra.cluster.serving import open_beside, serve_beside
from cathedra.releases import FeatureGates

__all__ = ["main"]


def main(words: list[str]) -> int:
    """Run an API server on the inherited sockets that the words name; the exit code."""
    return run_child(words, _work)


async def _work(order: Order, line: ChildLine, inherited: Inherited) -> None:
    """With the first one's store, or the one that all share."""
    config = order.config
    primary = await PrimaryStore.over(inherited["store"]) if "store" in inherited else None
    gates = FeatureGates.for_release(config.release, config.gates)
    random = Random(secrets.randbits(64))
    server = await open_beside(config, primary, gates=gates, clock=SystemClock(), random=random)
    try:
        _show_all(server, order, line)
        await serve_beside(server, config, order.served.port, inherited["connections"])
        async with collected_by_memory(SystemClock()):
            await while_stored(line.answer(_answers(server)), primary)
    finally:
        await server.close()


def _show_all(server: APIServer, order: Order, line: ChildLine) -> None:
    """Have the first process asked for what it alone knows."""
    nodes = frozenset((*order.config.node_names, *order.config.leaving))

    def usage(name: str) -> Awaitable[Any] | None:
        return line.ask("usage", name) if name in nodes else None

    async def exposition() -> bytes:
        try:
            told: str = await line.ask("metrics")
        except ChannelClosed:
            return server.app.metrics.text()
        return told.encode()

    server.take_figures_from(usage)
    server.app.exposition = exposition


def _answers(server: APIServer) -> dict[str, Any]:
    async def ready(_: str) -> bool:
        return True

    async def metrics(_: str) -> str:
        return server.app.metrics.text().decode()

    return {"ready": ready, "metrics": metrics}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
