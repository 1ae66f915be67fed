"""Several API servers on one port: the first listens and keeps the store, each other is a child that serves its share.

So Kubernetes runs several kube-apiservers behind a load balancer, here so that requests are worked on by several
processors. Each admits, defaults and validates what its own clients write; the first one alone numbers and keeps it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from cathedra.apiserver.server import APIServer
from cathedra.apiserver.traffic.metricsmerging import merged
from cathedra.clock import Clock
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.parts.foundation import Served
from cathedra.cluster.processes.channel import Answer
from cathedra.cluster.processes.order import APISERVER
from cathedra.cluster.processes.supervisor import SERVER_PROGRAM, Supervisor

__all__ = ["several_servers"]


async def _unknown(_: str) -> Any:
    return None


@asynccontextmanager
async def several_servers(
    config: ClusterConfig,
    open_first: Callable[[], Awaitable[APIServer]],
    *,
    clock: Clock,
    say: Callable[[str], None],
    usage: Callable[[str], Awaitable[Any]] = _unknown,
) -> AsyncIterator[APIServer]:
    """The server that ``open_first`` opens, which serves alone until the others are ready. ``usage`` tells what the
    pods of a node of this process use.

    Raises:
        ExceptionGroup: what one of the others ended with at the start.
    """
    layout = ((APISERVER,),) * (config.apiserver_count - 1)
    answers: dict[str, Answer] = {"usage": usage}
    others = Supervisor(config, layout, clock=clock, say=say, answers=answers, program=SERVER_PROGRAM)
    await others.launch()
    try:
        server = await open_first()
        try:

            async def exposition() -> bytes:
                told = await others.ask_all("metrics")
                return merged([server.app.metrics.text(), *(text.encode() for text in told)])

            async def metrics(_: str) -> str:
                return (await exposition()).decode()

            async def announce() -> None:
                await others.wait_ready()
                say(f"{config.apiserver_count} processes answer on {server.url}")

            server.app.exposition, answers["metrics"] = exposition, metrics
            async with asyncio.TaskGroup() as group:
                tasks = (
                    group.create_task(others.run(Served(server.host, server.port, False, ()), server)),
                    group.create_task(announce()),
                )
                try:
                    yield server
                finally:
                    for task in tasks:
                        task.cancel()
        finally:
            await server.close()
    finally:
        await others.stop()
