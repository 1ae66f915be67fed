"""The programs of the classic test driver, in this process: their output, and their end by a signal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cathedra.api.struct import from_dict
from cathedra.classic.kinds.definitions import claim_state
from cathedra.classic.resources import CLAIMS, CLASSES, classic_client
from cathedra.classic.testdriver import DRIVER_NAME
from cathedra.client import kubeconfig
from cathedra.client.client import Client
from cathedra.client.kubeconfig import KubeconfigError, Target
from cathedra.clock import SystemClock
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.serving import open_server, write_kubeconfig
from cathedra.cluster.standalone.classicprograms import (
    TestControllerConfig,
    TestPluginConfig,
    run_test_controller,
    run_test_plugin,
)
from cathedra.releases import FeatureGates
from tests.running import run_with

PATIENCE = 120.0
GATES = {"DynamicResourceAllocation": True}


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory whose name is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="ctd-") as directory:
        yield Path(directory)


def plugin_config(place: Path, **more: Any) -> TestPluginConfig:
    """A plugin below ``place``."""
    return TestPluginConfig(
        node_name="n", plugin_dir=place / "p", registry_dir=place / "r", cdi_dir=place / "cdi", **more
    )


def sockets(place: Path) -> list[str]:
    """The sockets below ``place``."""
    return [str(path) for path in place.rglob("*") if path.is_socket()]


class Program:
    """A running program, and its output."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self.task: asyncio.Task[None] | None = None

    def say(self, line: str) -> None:
        """Take a line."""
        self._lines.put_nowait(line)

    async def line(self) -> str:
        """The next line; what the program fails with, if it fails first."""
        assert self.task is not None
        waiting = asyncio.ensure_future(self._lines.get())
        await asyncio.wait((waiting, self.task), timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            await self.task
        return waiting.result()


@contextlib.asynccontextmanager
async def at_work(job: Coroutine[Any, Any, None], program: Program) -> AsyncIterator[None]:
    """Run a program, and end it by SIGTERM."""
    program.task = asyncio.ensure_future(job)
    try:
        yield
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(program.task, PATIENCE)
    finally:
        program.task.cancel()
        await asyncio.gather(program.task, return_exceptions=True)


@contextlib.asynccontextmanager
async def served(place: Path, release: str, version: str, **gates: bool) -> AsyncIterator[Client]:
    """An API server of the release, its kubeconfig beside it, and a client of its administrator."""
    config = ClusterConfig(
        data_dir=place,
        store="memory",
        release=release,
        gates=GATES | gates,
        runtime_config={f"resource.k8s.io/{version}": True},
    )
    opened = FeatureGates.for_release(release, config.gates)
    server = await open_server(config, gates=opened, clock=SystemClock(), random=Random(1))
    try:
        write_kubeconfig(server, config, place / "kubeconfig", merge=False, say=lambda _: None)
        yield Client(server.transport(), clock=SystemClock())
    finally:
        await server.close()


async def until_allocated(client: Client, ref: Any) -> Any:
    """The claim ``c`` once it has an allocation."""
    async with asyncio.timeout(PATIENCE):
        async with client.resource(ref, "default").watch() as events:
            async for event in events:
                if event.object.status.allocation is not None:
                    return event.object
    raise AssertionError("the watch has ended")


@run_with(lambda test: asyncio.run(test()))
async def test_the_plugin_serves_its_socket_until_it_is_told_to_stop(*, place: Path) -> None:
    program = Program()
    async with at_work(run_test_plugin(plugin_config(place), say=program.say), program):
        said = await program.line()
        assert said.startswith(f"plugin of {DRIVER_NAME} serves ")
        assert said.rpartition(" ")[2] in sockets(place)
        assert len(sockets(place / "r")) == 1
    assert sockets(place) == []


def test_the_plugin_of_131_needs_a_way_to_the_claims(place: Path) -> None:
    config = plugin_config(place, release="1.31", kubeconfig=place / "nowhere")
    with pytest.raises(KubeconfigError):
        asyncio.run(run_test_plugin(config, say=lambda _: None))


@run_with(lambda test: asyncio.run(test()))
async def test_the_plugin_of_131_serves_its_socket_before_the_api_server_is_there(*, place: Path) -> None:
    kubeconfig.write(place / "kubeconfig", Target(server="http://127.0.0.1:9"))
    program = Program()
    config = plugin_config(place, release="1.31", kubeconfig=place / "kubeconfig")
    async with at_work(run_test_plugin(config, say=program.say), program):
        said = await program.line()
        assert said.startswith(f"plugin of {DRIVER_NAME} serves ")
    assert sockets(place) == []


@run_with(lambda test: asyncio.run(test()))
async def test_the_controller_allocates_until_it_is_told_to_stop(*, place: Path) -> None:
    async with served(place, "1.28", "v1alpha2") as direct:
        client, program = classic_client(direct), Program()
        config = TestControllerConfig(kubeconfig=place / "kubeconfig")
        async with at_work(run_test_controller(config, say=program.say), program):
            assert (await program.line()).startswith(f"controller of {DRIVER_NAME} for https://127.0.0.1:")
            made = {"metadata": {"name": "k"}, "driverName": DRIVER_NAME}
            await client.resource(CLASSES).create(from_dict(CLASSES.type, made))
            spec = {"resourceClassName": "k", "allocationMode": "Immediate"}
            wanted = from_dict(CLAIMS.type, {"metadata": {"name": "c"}, "spec": spec})
            await client.resource(CLAIMS, "default").create(wanted)
            assert claim_state(await until_allocated(client, CLAIMS)) == "allocated"


@run_with(lambda test: asyncio.run(test()))
async def test_the_controller_of_131_finds_its_kinds(*, place: Path) -> None:
    async with served(place, "1.31", "v1alpha3", DRAControlPlaneController=True):
        program = Program()
        config = TestControllerConfig(kubeconfig=place / "kubeconfig", release="1.31")
        async with at_work(run_test_controller(config, say=program.say), program):
            assert (await program.line()).startswith(f"controller of {DRIVER_NAME} for https://127.0.0.1:")


def test_the_controller_needs_a_way_to_the_api_server(place: Path) -> None:
    config = TestControllerConfig(kubeconfig=place / "nowhere")
    with pytest.raises(KubeconfigError):
        asyncio.run(run_test_controller(config, say=lambda _: None))
