"""One member of etcd hangs: it keeps its connections, and neither answers nor ends them. Servers go on at another."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.apiserver.storage.etcd import EtcdAddress, EtcdStorage
from cathedra.client.client import Client
from cathedra.client.resources import CONFIGMAPS
from cathedra.clock import SystemClock
from cathedra.releases import FeatureGates
from tests.integration.etcd import Etcd, running_members
from tests.unit.apiserver.plain_definitions import plain_definitions


@pytest.fixture
def members(tmp_path: Path) -> Iterator[list[Etcd]]:
    with running_members(tmp_path, 3) as found:
        yield found


@asynccontextmanager
async def server(members: list[Etcd]) -> AsyncIterator[APIServer]:
    url = "etcd://" + ",".join(f"127.0.0.1:{member.port}" for member in members)
    config = ServerConfig(gates=FeatureGates.for_release(), definitions=plain_definitions())
    store = EtcdStorage(EtcdAddress.parse(url), clock=SystemClock())
    made = await APIServer.open(config, clock=SystemClock(), random=random.Random(1), store=store)
    try:
        yield made
    finally:
        await made.close()


async def works(of: APIServer, number: int) -> None:
    """Return once a write and a consistent read have succeeded."""
    maps = Client(of.transport(), clock=SystemClock()).resource(CONFIGMAPS, "default")
    while True:
        try:
            made = await maps.create(ConfigMap(metadata=ObjectMeta(generate_name=f"m{number}-")))
            await maps.get(made.metadata.name)
        except StatusError as error:
            if error.code not in {503, 504}:
                raise
        else:
            return


async def test_reads_and_writes_go_on_when_the_member_of_calls_and_watch_hangs(members: list[Etcd]) -> None:
    async with server(members) as one, server(members[:1] + members[2:]) as other:
        await asyncio.gather(works(one, 0), works(other, 0))
        members[0].stop()
        try:
            began = time.monotonic()
            async with asyncio.timeout(60):
                await asyncio.gather(*(works(of, number) for of in (one, other) for number in (1, 2)))
            # Not a measurement: without a new watch, these calls take as long as the connection stands.
            assert time.monotonic() - began < 30
            assert one.context.registry.problem == ""
        finally:
            members[0].go_on()


async def test_reads_go_on_when_only_the_member_of_the_watch_hangs(members: list[Etcd]) -> None:
    async with server(members) as one:
        await works(one, 0)
        store = one.context.registry._log._storage  # type: ignore[union-attr]
        assert isinstance(store, EtcdStorage)
        store._connection._current = 1
        members[0].stop()
        try:
            async with asyncio.timeout(60):
                await works(one, 1)
            assert store._watched != f"127.0.0.1:{members[0].port}"
        finally:
            members[0].go_on()
