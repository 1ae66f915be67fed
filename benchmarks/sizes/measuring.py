"""The figures of one size, and the rows of ``make bench``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import uvloop

from benchmarks.apiserver import target_of
from benchmarks.sizes.filling import CLAIMS_EACH, LOST, PODS_EACH, fill
from benchmarks.sizes.load import Load
from benchmarks.sizes.programs import Program, Report, program

Row = tuple[str, float, str, str | float | None, str | float | None]

NODES: Final = (1000,)
"""Numbers of nodes in ``make bench``. 10,000 are measured by name alone: they take a quarter of an hour."""
GOAL_NODES: Final = 10_000
"""Number of nodes for which the goals are meant."""
IDLE_SECONDS: Final = 15.0
"""Agents renew their leases every ten."""


class Sizes(NamedTuple):
    """Figures of one size."""

    nodes: int
    serving: float
    """Processor time in seconds from the start of the process until it serves."""
    joined: float
    """Processor time in seconds of the server from then on until all agents are ready."""
    joined_stall: float
    """Longest stall in ms meanwhile."""
    joined_agents: float
    """Processor time in seconds of the agents until all are ready."""
    memory: float
    """MiB of the server with all agents."""
    loaded: float
    """MiB of the server after the lists and watches of this measurement."""
    agents: float
    """MiB of all agents."""
    idle: float
    """Share of a core without load."""
    page: float
    """Processor time in ms of a page of `PAGE` pods."""
    page_stall: float
    """Longest stall in ms while all pods are listed in pages."""
    changed_page: float
    """As ``page``, where a pod is changed before each page."""
    event: float
    """Processor time in µs of an event that is delivered to one of `WATCHERS` watchers of all pods."""
    event_stall: float
    loss: float
    """Processor time in ms from when a node is marked as lost to the eviction of its pods."""
    loss_seconds: float
    """Seconds from when a node is marked as lost to the eviction of its pods."""
    loss_stall: float


def rows() -> Iterator[Row]:
    """The rows of ``make bench``."""
    for nodes in NODES:
        yield from _rows(measured(nodes), goals=nodes >= GOAL_NODES)


def _rows(found: Sizes, *, goals: bool) -> Iterator[Row]:
    nodes = found.nodes
    name = f"sizes/{nodes}nodes_{nodes * PODS_EACH}pods_{nodes * CLAIMS_EACH}claims"
    for title, figure, unit, goal in (
        ("StartToServing", found.serving, "s of a core", 10),
        ("AgentsReady", found.joined, "s of a core", None),
        ("AgentsReady, longest stall", found.joined_stall, "ms of a core", 200),
        ("Memory", found.memory, "MiB", 2048),
        ("Memory, after lists and watches", found.loaded, "MiB", 2048),
        ("Memory of the agents", found.agents, "MiB", None),
        ("Idle", found.idle * 100, "% of a core", None),
        ("ListPage", found.page, "ms of a core", None),
        ("ListPage, of pods that change", found.changed_page, "ms of a core", None),
        ("ListPage, longest stall", found.page_stall, "ms of a core", 200),
        ("Event", found.event, "µs of a core", None),
        ("Event, longest stall", found.event_stall, "ms of a core", 200),
        ("NodeLoss", found.loss, "ms of a core", 1000),
        ("NodeLoss, longest stall", found.loss_stall, "ms of a core", 200),
    ):
        yield f"{name}/{title}", figure, unit, None, goal if goals else None


def measured(nodes: int) -> Sizes:
    """Measure one size."""
    return uvloop.run(_measured(nodes))


async def _measured(nodes: int) -> Sizes:
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        await fill(folder, nodes)
        async with program("serve", folder, 0) as server:
            serving = (await server.said("serving"))["processor"]
            await server.said("ready")
            async with program("agents", folder, nodes) as agents:
                ready = await agents.said("ready")
                joined = await server.mark()
                await server.command("joined")
                await server.settle(nodes)
                memory, agents_memory = (await server.mark())["memory"], (await agents.mark())["memory"]
                idle = await server.share(IDLE_SECONDS)
                load = Load(target_of(folder / "kubeconfig", folder))
                page = await server.cost(load.pages)
                changed = await server.cost(load.changed_pages)
                event = await server.cost(load.watch)
                lost, evicted = await _lose(server, agents, LOST)
                return Sizes(
                    nodes=nodes,
                    serving=serving,
                    joined=joined["processor"] - serving,
                    joined_stall=joined["stall"] * 1000,
                    joined_agents=ready["processor"],
                    memory=memory,
                    loaded=(await server.mark())["memory"],
                    agents=agents_memory,
                    idle=idle,
                    page=page.each * 1000,
                    page_stall=max(page.stall, changed.stall) * 1000,
                    changed_page=changed.each * 1000,
                    event=event.each * 1e6,
                    event_stall=event.stall * 1000,
                    loss=(evicted["processor"] - lost["processor"]) * 1000,
                    loss_seconds=evicted["at"] - lost["at"],
                    loss_stall=evicted["stall"] * 1000,
                )


async def _lose(server: Program, agents: Program, node: str) -> tuple[Report, Report]:
    """Stop a node's agent. Return the server's reports when the node is marked as lost, and its pods are evicted."""
    await server.mark()
    server.send("evicted", node)
    await agents.command("lose", node)
    return await server.said("lost"), await server.said("evicted")
