"""The server of a measurement: API server, scheduler and all controllers in one process."""

from __future__ import annotations

import random
from pathlib import Path

from benchmarks.sizes.filling import furnish, until_all
from benchmarks.sizes.programs import Reports
from cathedra.client.client import Client
from cathedra.client.resources import NODES
from cathedra.clock import SystemClock
from cathedra.cluster.cluster import RunningCluster
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.parts.gctuning import collected_by_memory
from cathedra.semantics.nodes import is_node_ready


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
        await cluster.wait_ready()
        reports.say("ready")

        async def carry_out(command: str, node: str) -> None:
            if command == "furnish":
                await furnish(cluster.client())
            else:
                await _marked_lost(cluster.client(), node)
                reports.say("lost")
                await until_all(cluster.client(), node, lambda pod: bool(pod.metadata.deletion_timestamp))

        await reports.obey(carry_out)


async def _marked_lost(client: Client, node: str) -> None:
    """Wait until a node is no longer Ready."""
    async with client.resource(NODES).watch(field_selector=f"metadata.name={node}") as events:
        async for event in events:
            if event.object is not None and not is_node_ready(event.object):
                return
