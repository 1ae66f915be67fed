"""API servers of several processes on one port, with a store in memory."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import Target
from cathedra.client.resources import CONFIGMAPS
from cathedra.clock import SystemClock
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.processes.apiservers import several_servers
from cathedra.cluster.serving import open_server
from cathedra.releases import FeatureGates

CLOCK = SystemClock()


class Said:
    """What the user was told, and when something was."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.told = asyncio.Event()

    def __call__(self, line: str) -> None:
        self.lines.append(line)
        self.told.set()


@asynccontextmanager
async def servers(folder: Path, count: int, said: Said) -> AsyncIterator[APIServer]:
    config = ClusterConfig(data_dir=folder, nodes=0, store="memory", apiserver_count=count)

    async def first() -> APIServer:
        gates = FeatureGates.for_release(config.release)
        return await open_server(config, gates=gates, clock=CLOCK, random=random.Random(1))

    async with several_servers(config, first, clock=CLOCK, say=said) as server:
        yield server


async def test_each_process_answers_and_tells_the_figures_of_all(tmp_path: Path) -> None:
    said = Said()
    async with servers(tmp_path, 2, said) as server:
        await said.told.wait()
        assert said.lines == [f"2 processes answer on {server.url}"]
        assert server.pki is not None
        pair = server.pki.administrator()
        target = Target(
            server.url,
            certificate_authority=server.pki.authority_certificate,
            client_certificate=pair.certificate,
            client_key=pair.key,
        )
        for number in range(6):
            async with await HTTPTransport.open(target) as transport:
                maps = Client(transport, clock=CLOCK).resource(CONFIGMAPS, "default")
                await maps.create(ConfigMap(metadata=ObjectMeta(name=f"m{number}")))
                assert created((await transport.get_raw("/metrics")).decode()) == [number + 1]


def created(exposition: str) -> list[float]:
    """How many config maps were made, by the series that tell of it."""
    lines = (line for line in exposition.splitlines() if line.startswith("apiserver_request_total"))
    return [float(line.rpartition(" ")[2]) for line in lines if 'resource="configmaps"' in line and '"201"' in line]


async def test_a_process_that_cannot_begin_ends_all_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = ("python3", "-c", "raise SystemExit(7)")
    monkeypatch.setattr("cathedra.cluster.processes.apiservers.SERVER_PROGRAM", program)
    with pytest.raises(ExceptionGroup) as raised:
        async with servers(tmp_path, 2, Said()):
            await asyncio.Event().wait()
    assert "the process of apiserver ended with code 7" in repr(raised.value)
