"""The server of a measurement: API server, scheduler and all controllers in one process."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from benchmarks.sizes.filling import batched, furnish, until_all
from benchmarks.sizes.programs import Reports
from cathedra.api.core.coordination_v1 import Lease
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.api.timestamp import MicroTime
from cathedra.client.client import Client, ResourceClient
from cathedra.client.resources import LEASES, NODES
from cathedra.clock import SystemClock
from cathedra.cluster.cluster import RunningCluster
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.parts.gctuning import collected_by_memory
from cathedra.semantics.nodes import is_node_ready

RENEWED: Final = 100
RENEWAL_SECONDS: Final = 15.0
"""The controller waits for 50 seconds."""


async def serve(folder: Path, nodes: int) -> None:
    """Run a cluster with some nodes of its own."""
    reports, clock = Reports(), SystemClock()
    config = ClusterConfig(data_dir=folder, nodes=nodes, runtime="simulated")

    def progress(line: str) -> None:
        if line.startswith("API server "):
            reports.say("serving")

    running = RunningCluster(config, clock=clock, random=random.Random(1), say=progress).running()
    async with running as cluster, collected_by_memory(clock):
        cluster.write_kubeconfig(folder / "kubeconfig", merge=False)
        waiting = asyncio.create_task(_keep_ready(cluster.client()))
        await cluster.wait_ready()
        reports.say("ready")

        async def carry_out(command: str, node: str) -> None:
            if command == "furnish":
                await furnish(cluster.client())
            elif command == "joined":
                waiting.cancel()
            else:
                await _marked_lost(cluster.client(), node)
                reports.say("lost")
                await until_all(cluster.client(), node, lambda pod: bool(pod.metadata.deletion_timestamp))

        await reports.obey(carry_out)
        waiting.cancel()


async def _keep_ready(client: Client) -> None:
    """Renew the leases of nodes whose agents are still to start, until cancelled.

    The agents of 10,000 nodes start later than the controller waits for nodes. It would mark all pods as not ready, and
    the agents would write each of them.
    """
    leases = client.resource(LEASES, "kube-node-lease")
    while True:
        due = client.clock.now() - RENEWAL_SECONDS
        old = [
            lease
            for lease in (await leases.list()).items
            if lease.spec.renew_time is not None and lease.spec.renew_time.timestamp < due
        ]
        for batch in batched(old, RENEWED):
            await asyncio.gather(*(_renew(leases, lease) for lease in batch))
        await client.clock.sleep(RENEWAL_SECONDS)


async def _renew(leases: ResourceClient[Lease], lease: Lease) -> None:
    spec = replace(lease.spec, renew_time=MicroTime(time.time()))
    # A conflict: the agent has started, and has renewed it.
    with suppress(StatusError):
        await leases.update(replace(lease, spec=spec))


async def _marked_lost(client: Client, node: str) -> None:
    """Wait until a node is no longer Ready."""
    async with client.resource(NODES).watch(field_selector=f"metadata.name={node}") as events:
        async for event in events:
            if event.object is not None and not is_node_ready(event.object):
                return
