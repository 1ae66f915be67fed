"""A node agent as a program of its own, to be killed: ``node_program.py URL AUTHORITY TOKEN NAME ROOT RUNTIME``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
from pathlib import Path

from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import Target
from cathedra.clock import SystemClock
from cathedra.node.agent import NodeAgent, NodeDependencies
from cathedra.node.config import NodeConfig
from cathedra.node.faultpoints import FaultPoints
from cathedra.releases import FeatureGates


async def main(target: Target, authority: Path, name: str, root: str, runtime: str) -> None:
    """Run until killed."""
    clock = SystemClock()
    config = NodeConfig(
        name=name,
        root=Path(root),
        client_authority=authority,
        runtime=runtime,
        cdi_directories=(Path(root) / "cdi",),
        orphan_seconds=30,
    )
    async with await HTTPTransport.open(target) as transport:
        agent = NodeAgent(
            Client(transport, clock=clock),
            config,
            clock=clock,
            random=random.Random(),
            gates=FeatureGates.for_release(),
            dependencies=NodeDependencies(faults=FaultPoints.from_environment(os.environ)),
        )
        await agent.run()


if __name__ == "__main__":
    url, authority, token, *rest = sys.argv[1:]
    known = Path(authority)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(Target(url, certificate_authority=known.read_bytes(), token=token), known, *rest))
