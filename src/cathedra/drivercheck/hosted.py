"""An API server for the length of an examination, where the driver has none to speak to."""

from __future__ import annotations

import random
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cathedra.api.core.core_v1 import Node
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.kubeconfig import Target, write
from cathedra.client.resources import NODES
from cathedra.clock import Clock
from cathedra.releases import FeatureGates

__all__ = ["hosted_server"]


@asynccontextmanager
async def hosted_server(directory: Path, node: str, gates: FeatureGates, clock: Clock) -> AsyncIterator[Client]:
    """A server with the one node, on the loopback; ``directory/kubeconfig`` leads there."""
    config = ServerConfig(release=gates.release, gates=gates)
    server = await APIServer.open(config, clock=clock, random=random.Random())
    token = secrets.token_urlsafe(32)
    try:
        user = UserInfo("driver-check", ("system:masters",))
        url = await server.serve(ServeOptions(pki=directory / "pki", tokens={token: user}))
        authority = (directory / "pki" / "ca.crt").read_bytes()
        write(directory / "kubeconfig", Target(url, certificate_authority=authority, token=token))
        client = Client(server.transport(), clock=clock)
        await client.resource(NODES).create(Node(metadata=ObjectMeta(name=node)))
        yield client
    finally:
        await server.close()
