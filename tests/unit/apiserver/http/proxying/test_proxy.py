"""Logs and streams through the API server to a node: a kubelet's stand-in made of another library."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

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
from cathedra.apiserver.authentication.pki import PKI
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.http.proxying.passing import PASSED_ON
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.resources import NODES, PODS
from cathedra.clock import SystemClock

V5 = "v5.channel.k8s.io"
BASE64 = "base64.channel.k8s.io"


@dataclass
class Kubelet:
    """Serves one exec: sends a line, then ends in the given way. It insists on the API server's certificate."""

    ending: str = "abort"
    callers: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        subject = request.transport.get_extra_info("peercert")["subject"]
        self.callers.append(dict(entry for relative in subject for entry in relative)["commonName"])
        self.queries.append(request.query_string)
        socket = web.WebSocketResponse(protocols=(V5, BASE64))
        await socket.prepare(request)
        if socket.ws_protocol == BASE64:
            await socket.send_str((await socket.receive_str()) + "=")
        await socket.send_bytes(b"\x01line\n")
        if self.ending == "hold":
            async for _ in socket:
                pass
        elif self.ending == "abort":
            request.transport.close()
        else:
            await socket.close(code=int(self.ending))
        return socket


@dataclass
class Way:
    """An administrator's way to the API server, behind it the kubelet."""

    url: str
    tls: ssl.SSLContext
    kubelet: Kubelet

    async def exec(self) -> tuple[list[bytes], int | None]:
        """Return the output of ``exec``, and the code of the close frame."""
        url = f"{self.url}/api/v1/namespaces/default/pods/p/exec"
        query = [("command", "id"), ("command", "-u"), ("stdout", "true")]
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(url, params=query, ssl=self.tls, protocols=(V5,)) as socket,
        ):
            assert socket.protocol == V5
            frames = [message.data async for message in socket]
            return frames, socket.close_code


@pytest.fixture
async def way(tmp_path: Path) -> AsyncIterator[Way]:
    server = await APIServer.open(ServerConfig(), clock=SystemClock(), random=random.Random(1))
    await server.serve(ServeOptions(pki=tmp_path / "pki", anonymous=PUBLIC_PATHS))
    pki = PKI(tmp_path / "pki", SystemClock().now())
    files = pki.node("n1", ("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    context.load_verify_locations(files.client_authority)
    context.verify_mode = ssl.CERT_REQUIRED
    kubelet = Kubelet()
    application = web.Application()
    application.router.add_get("/exec/default/p/c", kubelet.serve)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    client = Client(server.transport(), clock=SystemClock())
    status = NodeStatus(
        addresses=(NodeAddress(type="InternalIP", address="127.0.0.1"),),
        daemon_endpoints=NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=runner.addresses[0][1])),
    )
    node = Node(metadata=ObjectMeta(name="n1"), status=status)
    await client.resource(NODES).create(node)
    await client.resource(NODES).update_status(node)
    pod = Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(node_name="n1", containers=(Container(name="c", image="i"),)))
    await client.resource(PODS, "default").create(pod)
    administrator = pki.administrator()
    (tmp_path / "admin.pem").write_bytes(administrator.certificate + administrator.key)
    trusted = ssl.create_default_context(cadata=pki.authority_certificate.decode())
    trusted.load_cert_chain(tmp_path / "admin.pem")
    yield Way(server.url, trusted, kubelet)
    await server.close()
    await runner.cleanup()


@pytest.mark.parametrize(
    ("ending", "code"), [("abort", 1000), ("1000", 1000), ("1001", 1001), ("1011", 1011), ("4000", 4000)]
)
async def test_a_stream_ends_as_its_node_ends_it_and_never_with_1006(way: Way, ending: str, code: int) -> None:
    way.kubelet.ending = ending
    assert await way.exec() == ([b"\x01line\n"], code)


@pytest.mark.parametrize("protocol", [BASE64, V5, None])
async def test_the_sub_protocol_and_the_kind_of_messages_pass_both_ways(way: Way, protocol: str | None) -> None:
    url = f"{way.url}/api/v1/namespaces/default/pods/p/exec"
    offered = (protocol,) if protocol else ()
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, params=[("stdout", "true")], ssl=way.tls, protocols=offered) as socket,
    ):
        assert socket.protocol == protocol
        if protocol == BASE64:
            await socket.send_str("0aGVsbG8")
            assert await socket.receive_str() == "0aGVsbG8="
        assert await socket.receive_bytes() == b"\x01line\n"


async def test_the_node_sees_the_api_servers_certificate_and_the_kubelets_parameters(way: Way) -> None:
    await way.exec()
    assert way.kubelet.callers == ["kube-apiserver-kubelet-client"]
    assert way.kubelet.queries == ["command=id&command=-u&output=1"]


async def test_more_streams_than_a_pool_of_a_hundred_are_served_and_too_many_of_a_user_are_refused(way: Way) -> None:
    way.kubelet.ending = "hold"
    url = f"{way.url}/api/v1/namespaces/default/pods/p/exec"
    query = [("command", "id"), ("stdout", "true")]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session, AsyncExitStack() as streams:
        for _ in range(PASSED_ON.of_user):
            asking = session.ws_connect(url, params=query, ssl=way.tls, protocols=(V5,))
            socket = await streams.enter_async_context(asking)
            assert (await socket.receive()).data == b"\x01line\n"
        async with session.get(f"{way.url}/api/v1/namespaces/default/pods/p/log", ssl=way.tls) as refused:
            assert refused.status == 429
            assert refused.headers["Retry-After"] == "1"
            assert "has 128 logs and streams open: close some of them" in (await refused.json())["message"]
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await session.ws_connect(url, params=query, ssl=way.tls, protocols=(V5,))
        assert caught.value.status == 429
        await streams.aclose()
        way.kubelet.ending = "1000"
        async with asyncio.timeout(60):
            while (await _status_of_log(session, way)) == 429:
                pass


async def _status_of_log(session: aiohttp.ClientSession, way: Way) -> int:
    async with session.get(f"{way.url}/api/v1/namespaces/default/pods/p/log", ssl=way.tls) as answer:
        return answer.status
