"""A node agent in this process with real containers, beside an API server that is none."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import aiohttp

from cathedra.api.core.core_v1 import Pod
from cathedra.certificates.authority import Authority
from cathedra.client.client import Client
from cathedra.client.resources import PODS
from cathedra.clock import SystemClock
from cathedra.node.agent import NodeAgent
from cathedra.node.config import NodeConfig
from tests.unit.node.fakes import GATES, NODE, NodeTransport

TOKEN = "secret"
FOREVER = ("bash", "-c", "trap 'echo bye; exit 0' TERM; echo up; sleep 999 & wait")


class RealNode:
    """A node agent in a directory of its own, in real time."""

    def __init__(self, root: Path, runtime: str, cri_socket: str = "", pod_network: str = "") -> None:
        self.root = root
        self.runtime = runtime
        self.cri_socket = cri_socket
        self.pod_network = pod_network
        self.server = NodeTransport()
        self.server.tokens = {TOKEN: "operator", "powerless": "passer-by"}
        self.server.grants = {("operator", "get", "proxy")}
        self.authority = Authority.make(SystemClock().now())
        root.parent.joinpath("client-ca.crt").write_bytes(self.authority.pair.certificate)
        self.client = Client(self.server, clock=SystemClock())
        self.agent = self.make_agent(stop_containers=True)

    def make_agent(self, *, stop_containers: bool) -> NodeAgent:
        config = NodeConfig(
            name=NODE,
            root=self.root,
            runtime=self.runtime,
            cri_socket=self.cri_socket,
            pod_network=self.pod_network,
            client_authority=self.root.parent / "client-ca.crt",
            cdi_directories=(self.root / "cdi",),
            stop_containers=stop_containers,
            orphan_seconds=20,
        )
        return NodeAgent(self.client, config, clock=SystemClock(), random=random.Random(1), gates=GATES)

    async def run_pod(self, pod: Pod) -> None:
        await self.client.resource(PODS, "default").create(pod)

    def pod(self, name: str = "p") -> Pod:
        found = self.server.objects["pods", "default", name]
        assert isinstance(found, Pod)
        return found

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(120):
            while not condition():  # noqa: ASYNC110 - processes do not set events
                await asyncio.sleep(0.01)

    async def until_phase(self, phase: str, name: str = "p") -> None:
        await self.until(lambda: self.pod(name).status.phase == phase)

    async def logs(self, container: str = "c", pod: str = "p", token: str = TOKEN, **query: str) -> tuple[int, str]:
        url = f"https://127.0.0.1:{self.agent.port}/containerLogs/default/{pod}/{container}"
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            self.session() as session,
            session.get(url, params=query, headers=headers) as response,
        ):
            return response.status, await response.text()

    def session(self) -> aiohttp.ClientSession:
        """A client that trusts the certificate that the node has signed itself."""
        trusted = ssl.create_default_context(cafile=str(self.root / "pki" / "kubelet.crt"))
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted))

    def exec(self, *command: str, **query: str) -> AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]:
        return self.connect("exec", [*(("command", word) for word in command), *query.items()])

    def attach(self, **query: str) -> AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]:
        return self.connect("attach", [*query.items()])

    @asynccontextmanager
    async def connect(
        self, action: str, parameters: list[tuple[str, str]]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        url = f"https://127.0.0.1:{self.agent.port}/{action}/default/p/c"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with (
            self.session() as session,
            session.ws_connect(
                url, params=parameters, headers=headers, protocols=("v5.channel.k8s.io", "v4.channel.k8s.io")
            ) as socket,
        ):
            assert socket.protocol == "v5.channel.k8s.io"
            yield socket


@asynccontextmanager
async def running(agent: NodeAgent) -> AsyncIterator[None]:
    task = asyncio.ensure_future(agent.run())
    ready = asyncio.ensure_future(agent.wait_ready())
    try:
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED, timeout=150)
        if task.done():
            task.result()
        yield
    finally:
        ready.cancel()
        task.cancel()
        await asyncio.gather(task, ready, return_exceptions=True)


async def read_all(socket: aiohttp.ClientWebSocketResponse) -> dict[int, bytes]:
    """Return the data of each channel until the other side closed."""
    channels: dict[int, bytes] = {}
    async for message in socket:
        channels[message.data[0]] = channels.get(message.data[0], b"") + message.data[1:]
    return channels
