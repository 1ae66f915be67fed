"""The agents of a measurement: those of all nodes, whose pods run already, in one process."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.sizes.filling import DRIVER, batched
from benchmarks.sizes.programs import Reports
from cathedra.api.core.core_v1 import Pod
from cathedra.apiserver.authentication.pki import PKI
from cathedra.apiserver.authentication.user import MASTERS_GROUP
from cathedra.client import kubeconfig
from cathedra.client.client import Client
from cathedra.client.resources import PODS
from cathedra.clock import Clock, SystemClock
from cathedra.cluster.parts.gctuning import collected_by_memory
from cathedra.node.agent import NodeAgent, NodeDependencies
from cathedra.node.config import NodeConfig
from cathedra.node.plugins.client import ClaimReference, PrepareOutcome
from cathedra.node.runtime.runtime import ContainerRun, ContainerSpec, PodIdentity
from cathedra.node.runtime.simulated import SimulatedRuntime
from cathedra.releases import FeatureGates
from cathedra.session.opening import open_transport

PAGE: Final = 500
SESSION_NODES: Final = 1000
"""Agents that share a session. A user may have 4,096 watches, and each agent has one."""
STARTED: Final = 250
"""Agents that start together."""


async def run_agents(folder: Path, nodes: int) -> None:
    """Run the agents of nodes whose pods run already."""
    reports, clock = Reports(), SystemClock()
    async with AsyncExitStack() as opened:
        clients = [await _open(opened, folder, number, clock) for number in range(-(-nodes // SESSION_NODES))]
        runtimes = {f"node-{number}": _Runtime(clock) for number in range(nodes)}
        await _continue_all(clients[0], runtimes)
        gates, chance = FeatureGates.for_release(), random.Random(1)
        running: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group, collected_by_memory(clock):
            for batch in batched([*runtimes], STARTED):
                agents = [
                    _agent(clients[len(running) // SESSION_NODES], gates, name, runtimes[name], chance)
                    for name in batch
                ]
                running |= {agent.config.name: group.create_task(agent.run()) for agent in agents}
                await asyncio.gather(*(agent.wait_ready() for agent in agents))
            reports.say("ready")

            async def lose(command: str, node: str) -> None:
                running[node].cancel()

            await reports.obey(lose)
            for task in running.values():
                task.cancel()


async def _open(opened: AsyncExitStack, folder: Path, number: int, clock: Clock) -> Client:
    """Open the session of one part of the nodes, as a user of its own: each user's watches are limited."""
    pair = PKI(folder / "pki", clock.now()).client(f"agents-{number}", (MASTERS_GROUP,))
    administrator = kubeconfig.load(folder / "kubeconfig")
    target = replace(administrator, client_certificate=pair.certificate, client_key=pair.key)
    return Client(await opened.enter_async_context(open_transport(target, user_agent="kubelet")), clock=clock)


async def _continue_all(client: Client, runtimes: Mapping[str, _Runtime]) -> None:
    """Start the containers that the statuses of all pods have."""
    token, first = "", True
    while token or first:
        page = await client.resource(PODS).list(limit=PAGE, continue_=token)
        token, first = page.continue_, False
        for pod in page.items:
            await _continue(runtimes[pod.spec.node_name], pod)


def _agent(
    client: Client, gates: FeatureGates, name: str, runtime: SimulatedRuntime, chance: random.Random
) -> NodeAgent:
    return NodeAgent(
        client,
        NodeConfig(name=name, root=None, stop_containers=False),
        clock=client.clock,
        random=chance,
        gates=gates,
        dependencies=NodeDependencies(runtime=runtime, plugins={DRIVER: _Plugin()}),
    )


class _Runtime(SimulatedRuntime):
    """A runtime whose containers have run for some time."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.began: dict[str, float] = {}

    async def open(self, on_exit: Callable[[ContainerRun], None]) -> tuple[ContainerRun, ...]:
        found = await super().open(on_exit)
        return tuple(msgspec.structs.replace(run, started_at=self.began[run.id]) for run in found)


async def _continue(runtime: _Runtime, pod: Pod) -> None:
    """Start the containers that the pod's status has, under the same IDs."""
    identity = PodIdentity(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)
    for status in pod.status.container_statuses:
        run_id, running = status.container_id.partition("://")[2], status.state.running
        if running is not None and running.started_at is not None:
            runtime.began[run_id] = running.started_at.timestamp
        await runtime.start(ContainerSpec(run_id, identity, status.name, status.restart_count, argv=()))


class _Plugin:
    """A driver that has prepared every claim."""

    async def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareOutcome]:
        return {claim.uid: PrepareOutcome(()) for claim in claims}

    async def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, str]:
        return {claim.uid: "" for claim in claims}
