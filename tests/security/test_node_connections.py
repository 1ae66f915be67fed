"""Connections of the API server to a node reveal nothing that can be used elsewhere."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from cathedra.api.core.core_v1 import (
    Container,
    DaemonEndpoint,
    Node,
    NodeAddress,
    NodeDaemonEndpoints,
    NodeStatus,
    Pod,
    PodSpec,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.apiserver.authentication.authenticator import PUBLIC_PATHS
from cathedra.apiserver.authentication.pki import PKI, KubeletTLS, NodeIdentity
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.certificates import KeyPair
from cathedra.certificates.authority import Authority
from cathedra.client.client import Client
from cathedra.client.resources import NODES, PODS
from cathedra.clock import SystemClock

NODE = "rogue"


@dataclass
class Harvester:
    """A node's server that keeps what it is sent, and answers every request."""

    received: bytearray = field(default_factory=bytearray)
    port: int = 0
    _server: asyncio.Server | None = None

    async def open(self, context: ssl.SSLContext | None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            self.received += data
            if not self.received.startswith(b"GET"):
                break  # a handshake, on a plain port
            if b"\r\n\r\n" in self.received:
                writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\nline")
                break
        writer.close()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()


@dataclass
class Attack:
    """A server with one pod, on a node whose port is the attacker's."""

    server: APIServer
    pki: PKI
    folder: Path
    harvester: Harvester

    async def harvest(self, context: ssl.SSLContext | None) -> tuple[int, str]:
        """Request the pod's log while the attacker listens with ``context``. Return code and text of the response."""
        await self.harvester.open(context)
        client = Client(self.server.transport(), clock=SystemClock())
        status = NodeStatus(
            addresses=(NodeAddress(type="InternalIP", address="127.0.0.1"),),
            daemon_endpoints=NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=self.harvester.port)),
        )
        node = Node(metadata=ObjectMeta(name=NODE), status=status)
        await client.resource(NODES).create(node)
        await client.resource(NODES).update_status(node)
        containers = (Container(name="c", image="i"),)
        pod = Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(node_name=NODE, containers=containers))
        await client.resource(PODS, "default").create(pod)
        administrator = self.pki.administrator()
        (self.folder / "admin.pem").write_bytes(administrator.certificate + administrator.key)
        trusted = ssl.create_default_context(cadata=self.pki.authority_certificate.decode())
        trusted.load_cert_chain(self.folder / "admin.pem")
        url = f"{self.server.url}/api/v1/namespaces/default/pods/p/log"
        async with aiohttp.ClientSession() as session, session.get(url, ssl=trusted) as answer:
            return answer.status, await answer.text()


@pytest.fixture(params=[NodeIdentity.NAME])
async def attack(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Attack]:
    server = await APIServer.open(ServerConfig(), clock=SystemClock(), random=random.Random(1))
    pki = PKI(tmp_path / "pki", SystemClock().now())
    own = pki.kubelet_client()
    kubelet = KubeletTLS(own.certificate, own.key, own.authority, request.param)
    await server.serve(ServeOptions(pki=tmp_path / "pki", anonymous=PUBLIC_PATHS, kubelet=kubelet))
    harvester = Harvester()
    yield Attack(server, pki, tmp_path, harvester)
    await server.close()
    await harvester.close()


def serving(folder: Path, pair: KeyPair) -> ssl.SSLContext:
    """The TLS of a server that shows ``pair``."""
    file = folder / "harvester.pem"
    file.write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


async def test_a_plain_port_is_sent_no_request_and_no_credential(attack: Attack) -> None:
    code, _ = await attack.harvest(None)
    assert code == 500
    assert b"HTTP/1.1" not in attack.harvester.received
    assert b"uthorization" not in attack.harvester.received


async def test_a_certificate_of_its_own_making_does_not_do(attack: Attack) -> None:
    stranger = Authority.make(SystemClock().now()).server((NODE, "127.0.0.1"), SystemClock().now())
    code, text = await attack.harvest(serving(attack.folder, stranger))
    assert code == 500
    assert "CERTIFICATE_VERIFY_FAILED" in text
    assert attack.harvester.received == b""


async def test_a_certificate_of_another_node_at_the_same_address_does_not_do(attack: Attack) -> None:
    other = attack.pki.node_certificate("victim", ("127.0.0.1",))
    code, _ = await attack.harvest(serving(attack.folder, other))
    assert code == 500
    assert attack.harvester.received == b""


async def test_the_nodes_own_certificate_does_and_no_token_is_sent(attack: Attack) -> None:
    own = attack.pki.node_certificate(NODE, ("127.0.0.1",))
    code, text = await attack.harvest(serving(attack.folder, own))
    assert (code, text) == (200, "line")
    assert attack.harvester.received.startswith(b"GET /containerLogs/default/p/c HTTP/1.1\r\n")
    assert b"uthorization" not in attack.harvester.received
    assert b"ookie" not in attack.harvester.received


@pytest.mark.parametrize("attack", [NodeIdentity.ADDRESS], indirect=True)
async def test_with_an_authority_of_kubelets_the_address_has_to_be_right(attack: Attack) -> None:
    elsewhere = attack.pki.node_certificate(NODE, ("10.0.0.1",))
    assert (await attack.harvest(serving(attack.folder, elsewhere)))[0] == 500
    assert attack.harvester.received == b""


async def test_what_is_shown_to_nodes_is_worth_nothing_at_the_api(attack: Attack) -> None:
    shown = attack.pki.kubelet_client()
    context = ssl.create_default_context(cadata=attack.pki.authority_certificate.decode())
    context.load_cert_chain(shown.certificate, shown.key)
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):  # the handshake itself fails: it is of another authority
            async with session.get(f"{attack.server.url}/api/v1/namespaces", ssl=context) as answer:
                await answer.read()
