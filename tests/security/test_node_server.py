"""Access to a node's own server: no user without a credential, and no request beyond the rights of its user."""

from __future__ import annotations

import asyncio
import random
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from cathedra.certificates import KeyPair
from cathedra.certificates.authority import Authority
from cathedra.client.client import Client
from cathedra.clock import SystemClock
from cathedra.node.agent import NodeAgent
from cathedra.node.config import NodeConfig
from cathedra.node.server.app import ROUTES as SERVED
from cathedra.node.server.tls import UnprotectedServer
from tests.running import beside
from tests.unit.node.fakes import GATES, NODE, NodeTransport

WALK = {
    "healthz": ("/healthz", "healthz", 200),
    "pods": ("/pods", "pods", 200),
    "metrics": ("/metrics", "metrics", 200),
    "stats": ("/stats/summary", "stats", 200),
    "containerLogs": ("/containerLogs/default/p/c", "proxy", 404),
    "exec": ("/exec/default/p/c?command=id", "proxy", 400),
    "attach": ("/attach/default/p/c", "proxy", 400),
    "portForward": ("/portForward/default/p", "proxy", 400),
}
"""Every route: a path, the node's sub-resource that it requires, and the response to a user with that right."""
ROUTES = (*(path for path, _, _ in WALK.values()), "/", "/nothing/here", "/exec", "/containerLogs/a/b/c/d")
FINE = {path: subresource for path, subresource, _ in WALK.values() if subresource != "proxy"}


@dataclass
class Server:
    """A node agent without pods, and clients of its port."""

    folder: Path
    transport: NodeTransport
    authority: Authority
    agent: NodeAgent

    async def get(self, path: str, *, token: str = "", pair: KeyPair | None = None) -> tuple[int, str]:
        return await self.request("GET", path, token=token, pair=pair)

    async def request(self, method: str, path: str, *, token: str = "", pair: KeyPair | None = None) -> tuple[int, str]:
        trusted = ssl.create_default_context(cafile=str(self.folder / "n" / "pki" / "kubelet.crt"))
        if pair is not None:
            file = self.folder / "client.pem"
            file.write_bytes(pair.certificate + pair.key)
            trusted.load_cert_chain(file)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"https://127.0.0.1:{self.agent.port}{path}"
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, ssl=trusted, headers=headers) as answer,
        ):
            return answer.status, await answer.text()

    def certificate(self, user: str, *groups: str) -> KeyPair:
        return self.authority.client(user, groups, SystemClock().now())


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="node-") as name:
        yield Path(name)


def make_agent(folder: Path, transport: NodeTransport, authority: Path | None) -> NodeAgent:
    config = NodeConfig(name=NODE, root=folder / "n", runtime="process", client_authority=authority)
    client = Client(transport, clock=SystemClock())
    return NodeAgent(client, config, clock=SystemClock(), random=random.Random(1), gates=GATES)


@pytest.fixture
async def server(folder: Path) -> AsyncIterator[Server]:
    transport, authority = NodeTransport(), Authority.make(SystemClock().now())
    (folder / "ca.crt").write_bytes(authority.pair.certificate)
    agent = make_agent(folder, transport, folder / "ca.crt")
    async with beside(agent.run()):
        await asyncio.wait_for(agent.wait_ready(), 120)
        yield Server(folder, transport, authority, agent)


async def test_without_an_authority_for_callers_the_agent_does_not_start(folder: Path) -> None:
    agent = make_agent(folder, NodeTransport(), None)
    with pytest.raises(UnprotectedServer, match="--client-ca-file"):
        await agent.run()
    assert agent.port == 0


async def test_nothing_is_answered_without_a_credential(server: Server) -> None:
    for path in ROUTES:
        assert (await server.get(path))[0] == 401, path
    assert not [request for request in server.transport.requests if "reviews" in request[1]]


async def test_the_port_speaks_no_plain_http(server: Server) -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://127.0.0.1:{server.agent.port}/healthz")


async def test_unknown_and_oversized_tokens_are_refused(server: Server) -> None:
    assert (await server.get("/healthz", token="wrong"))[0] == 401
    before = len(server.transport.requests)
    assert (await server.get("/healthz", token="x" * 70_000))[0] in {400, 401, 431}
    assert not [r for r in server.transport.requests[before:] if r[1] == "tokenreviews"]


async def test_a_certificate_of_another_authority_is_refused(server: Server) -> None:
    stranger = Authority.make(SystemClock().now()).client("kube-apiserver-kubelet-client", (), SystemClock().now())
    with pytest.raises(aiohttp.ClientError):
        await server.get("/healthz", pair=stranger)


async def test_who_is_known_may_nothing_by_that_alone(server: Server) -> None:
    pair = server.certificate("system:node:other", "system:nodes")
    for path in ROUTES:
        code, text = await server.get(path, pair=pair)
        assert code == 403, path
        assert text.startswith("Forbidden (user=system:node:other, verb=get, resource=nodes, subresource(s)=[")


def test_every_route_has_its_row_in_the_walk() -> None:
    assert {route.first for route in SERVED} == set(WALK)


async def test_nodes_proxy_opens_every_route_and_nothing_less_does(server: Server) -> None:
    """As on a kubelet, measurements alone have sub-resources of their own."""
    server.transport.grants |= {("operator", "get", subresource) for subresource in ("proxy", "metrics", "stats")}
    server.transport.grants.add(("poster", "create", "proxy"))
    operator, poster = server.certificate("operator"), server.certificate("poster")
    for path, _, code in WALK.values():
        assert (await server.get(path, pair=operator))[0] == code, path
        assert (await server.get(path, pair=poster))[0] == 403, path
    assert (await server.get("/nothing/here", pair=operator))[0] == 404
    for path in ("/exec/default/p", "/containerLogs/default/p/c/d", "/pods/x", "/"):
        assert (await server.get(path, pair=operator))[0] == 404, path


async def test_what_is_read_is_not_posted(server: Server) -> None:
    server.transport.grants |= {("poster", "create", subresource) for subresource in ("proxy", "metrics", "stats")}
    pair = server.certificate("poster")
    for path, _, _ in WALK.values():
        assert (await server.request("POST", path, pair=pair))[0] == 405, path


async def test_finer_rights_reach_their_own_route_alone(server: Server) -> None:
    for allowed, subresource in FINE.items():
        user = f"of-{subresource}"
        server.transport.grants.add((user, "get", subresource))
        pair = server.certificate(user)
        for path in ROUTES:
            assert (await server.get(path, pair=pair))[0] == (200 if path == allowed else 403), (user, path)


async def test_paths_that_only_resemble_a_finer_route_need_proxy(server: Server) -> None:
    server.transport.grants.add(("scraper", "get", "metrics"))
    pair = server.certificate("scraper")
    for path in ("//metrics", "/metricsx", "/%2Fmetrics", "/Metrics"):
        assert (await server.get(path, pair=pair))[0] == 403, path
    for path in ("/metrics/../pods", "/metrics/%2e%2e/exec/default/p/c"):
        assert (await server.get(path, pair=pair))[0] in {400, 403, 404}, path


async def test_what_the_api_server_cannot_be_asked_is_refused(server: Server) -> None:
    pair = server.certificate("operator")
    server.transport.grants.add(("operator", "get", "proxy"))
    server.transport.failures.append(ConnectionError("gone"))
    assert (await server.get("/healthz", pair=pair))[0] == 500
    assert (await server.get("/healthz", pair=pair))[0] == 200
