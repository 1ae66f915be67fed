"""API servers in child processes: started, restarted, passed connections, and ended."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import Target
from cathedra.client.resources import CONFIGMAPS
from cathedra.clock import SystemClock
from cathedra.cluster.apiservers.supervisor import ChildEnded, Supervisor, several_servers
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.serving import open_server
from cathedra.releases import FeatureGates
from tests.unit.cluster.apiservers import scripted_child

CLOCK = SystemClock()
URL = "https://127.0.0.1:6443"


class Impatient(SystemClock):
    """A clock that notes how long was to be waited, and waits no longer."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class Case:
    """A supervisor of one child, and the first server as it sees it."""

    def __init__(self, folder: Path, lives: tuple[str, ...], store: str = "sqlite", silence: float = 60.0) -> None:
        (folder / "plan").write_text("\n".join(lives))
        self.config = ClusterConfig(data_dir=folder, nodes=1, apiserver_count=2, store=store)
        self.clock = Impatient()
        self.said: asyncio.Queue[str] = asyncio.Queue()
        self.stores: list[socket.socket] = []
        self.dealt: asyncio.Queue[socket.socket] = asyncio.Queue()
        self.port, self.url = 6443, URL
        program = (sys.executable, scripted_child.__file__, str(folder))
        self.children = Supervisor(
            self.config,
            clock=self.clock,
            say=self.said.put_nowait,
            usage=self.usage,
            program=program,
            silence=silence,
        )

    async def usage(self, node: str) -> Any:
        return {"node": node}

    async def serve_replica(self, connected: socket.socket) -> None:
        self.stores.append(connected)

    def deal_to(self, line: socket.socket) -> None:
        self.dealt.put_nowait(line)

    def close(self) -> None:
        for one in self.stores:
            one.close()
        while not self.dealt.empty():
            self.dealt.get_nowait().close()


@asynccontextmanager
async def running(folder: Path, *lives: str, store: str = "sqlite", silence: float = 60.0) -> AsyncIterator[Case]:
    case = Case(folder, lives, store, silence)
    await case.children.launch()
    task = asyncio.create_task(case.children.run(cast("APIServer", case)))
    try:
        yield case
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        case.close()


async def error_of(folder: Path, life: str) -> str:
    """Return the error with which a cluster ends if a child has that life."""
    case = Case(folder, (life,))
    await case.children.launch()
    with pytest.raises(ExceptionGroup) as raised:
        await case.children.run(cast("APIServer", case))
    case.close()
    (error,) = raised.value.exceptions
    assert isinstance(error, ChildEnded)
    return str(error)


async def test_a_child_that_ends_before_it_is_ready_ends_the_cluster(tmp_path: Path) -> None:
    assert (await error_of(tmp_path, "fails")).endswith(" ended with code 7 before it was ready")
    assert (await error_of(tmp_path, "is killed")).endswith(" was ended by SIGKILL before it was ready")


async def test_a_child_is_passed_connections_once_it_is_ready_and_again_in_each_life(tmp_path: Path) -> None:
    async with running(tmp_path, "ends later", "second life") as case:
        (await case.dealt.get()).close()
        assert await case.said.get() == f"2 processes answer on {URL}"
        assert "ended with code 3; it is started again" in await case.said.get()
        (await case.dealt.get()).close()
        assert len(case.clock.slept) == 1
        assert 0 < case.clock.slept[0] <= 1
        assert len(case.stores) == 2, "each life has a socket to the store of its own"
        assert scripted_child.ordered(tmp_path) == (case.config, case.port)


async def test_a_child_that_is_stopped_is_killed_and_started_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, "is stopped", "second life", silence=0.5) as case:
        (await case.dealt.get()).close()
        assert await case.said.get() == f"2 processes answer on {URL}"
        assert "was ended by SIGKILL; it is started again" in await case.said.get()
        assert "has hung for 1 s and is killed" in caplog.text
        (await case.dealt.get()).close()


async def test_a_child_that_reports_its_life_goes_on(tmp_path: Path) -> None:
    async with running(tmp_path, "reports", "second life", silence=0.5) as case:
        (await case.dealt.get()).close()
        await case.said.get()
        assert "ended with code 3; it is started again" in await case.said.get()


async def test_a_child_gets_the_figures_of_pods_that_the_first_process_knows(tmp_path: Path) -> None:
    async with running(tmp_path, "ends later", "second life") as case:
        await case.said.get()
        await case.said.get()
        assert json.loads((tmp_path / "usage").read_bytes()) == {"node": "node-0"}


async def test_with_etcd_a_child_needs_no_socket_to_the_store(tmp_path: Path) -> None:
    async with running(tmp_path, "one life", store="etcd://127.0.0.1:2379") as case:
        (await case.dealt.get()).close()
        assert case.stores == []


async def test_children_that_were_never_given_an_order_end(tmp_path: Path) -> None:
    case = Case(tmp_path, ())
    await case.children.launch()
    await case.children.stop()
    assert (tmp_path / "never-ordered").exists()


@asynccontextmanager
async def servers(folder: Path, count: int, said: asyncio.Queue[str]) -> AsyncIterator[APIServer]:
    config = ClusterConfig(data_dir=folder, nodes=0, store="memory", apiserver_count=count)

    async def first() -> APIServer:
        gates = FeatureGates.for_release(config.release)
        return await open_server(config, gates=gates, clock=CLOCK, random=random.Random(1))

    async def usage(_: str) -> None:
        """No node runs here."""

    async with several_servers(config, first, clock=CLOCK, say=said.put_nowait, usage=usage) as server:
        yield server


async def test_each_process_serves_the_same_objects_and_counts_its_own_requests(tmp_path: Path) -> None:
    said: asyncio.Queue[str] = asyncio.Queue()
    async with servers(tmp_path, 2, said) as server:
        assert await said.get() == f"2 processes answer on {server.url}"
        assert server.pki is not None
        pair = server.pki.administrator()
        target = Target(
            server.url,
            certificate_authority=server.pki.authority_certificate,
            client_certificate=pair.certificate,
            client_key=pair.key,
        )
        counts = []
        for number in range(6):
            async with await HTTPTransport.open(target) as transport:
                maps = Client(transport, clock=CLOCK).resource(CONFIGMAPS, "default")
                await maps.create(ConfigMap(metadata=ObjectMeta(name=f"m{number}")))
                assert len((await maps.list()).items) >= number + 1
                counts.append(created((await transport.get_raw("/metrics")).decode()))
        assert sorted(counts) == [1, 1, 2, 2, 3, 4], "two connections of three go to the other process"


def created(exposition: str) -> float:
    """The number of config maps that one process created."""
    lines = (line for line in exposition.splitlines() if line.startswith("apiserver_request_total"))
    return sum(float(line.rpartition(" ")[2]) for line in lines if 'resource="configmaps"' in line and '"201"' in line)
