"""A node's container runtime, with the fake behind it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cathedra.clock import SystemClock
from cathedra.node.runtime.cri.endpoint import CRIEndpoint
from cathedra.node.runtime.cri.runtime import CRIRuntime
from cathedra.node.runtime.runtime import ContainerRun, ContainerSpec, PodIdentity, SandboxSpec
from tests.unit.node.runtime.cri.fakecri import IMAGE, FakeCRI, serving

POD = PodIdentity("default", "p", "uid-1")


class Node:
    """The runtime of one node: its fake, its directory, and what has ended."""

    def __init__(self, fake: FakeCRI, directory: Path) -> None:
        self.fake = fake
        self.directory = directory
        self.ended: list[ContainerRun] = []
        self.runtime: CRIRuntime

    def sandbox(self, **settings: Any) -> SandboxSpec:
        return SandboxSpec(POD, hostname="p", log_directory=str(self.directory / "logs"), **settings)

    def spec(self, name: str = "c", **settings: Any) -> ContainerSpec:
        log = str(self.directory / "logs" / name / "0.log")
        settings = {"image": IMAGE, "log_path": log, "attempt": 0, **settings}
        return ContainerSpec(id=name, pod=POD, name=name, argv=(), **settings)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 - the fake is behind a socket
                await asyncio.sleep(0.005)

    @asynccontextmanager
    async def agent(
        self, *, name: str = "node", stop_containers: bool = False
    ) -> AsyncIterator[tuple[ContainerRun, ...]]:
        """An agent opens the runtime, and goes away without a word, or with its containers."""
        endpoint = CRIEndpoint(self.socket)
        directory = self.directory / name
        features = await endpoint.features()
        runtime = self.runtime = CRIRuntime(endpoint, features, directory, (directory / "cdi",), clock=SystemClock())
        found = await runtime.open(self.ended.append)
        async with asyncio.TaskGroup() as group:
            supervising = group.create_task(runtime.supervise())
            try:
                yield found
            finally:
                supervising.cancel()
        await runtime.close(stop_containers=stop_containers)

    socket = ""


@pytest.fixture
def short(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory whose path is short enough for a socket."""
    directory = Path(tempfile.mkdtemp(prefix="cri-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
async def served(short: Path) -> AsyncIterator[Node]:
    """A fake that is served; no agent yet."""
    node = Node(FakeCRI(), short)
    async with serving(node.fake, short / "cri.sock") as socket:
        node.socket = socket
        yield node


@pytest.fixture
async def node(served: Node) -> AsyncIterator[Node]:
    """A node whose agent runs."""
    async with served.agent() as found:
        assert found == ()
        yield served
