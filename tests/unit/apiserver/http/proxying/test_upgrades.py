"""SPDY through the API server, to a stand-in for a node that answers by hand."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

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
from cathedra.api.core.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.resources import CLUSTERROLEBINDINGS, CLUSTERROLES, NODES, PODS
from cathedra.clock import SystemClock

TOKEN = "token"
EXEC = "/api/v1/namespaces/default/pods/p/exec?command=id&stdin=true&stdout=true"
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"
)


@dataclass
class Kubelet:
    """Answers an upgrade with ``answer``, then repeats in capitals what it hears."""

    answer: bytes = SWITCH
    heads: list[bytes] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self.answer)
        if b" 101 " in self.answer:
            while data := await reader.read(1000):
                writer.write(data.upper())
        writer.close()
        self.gone.set()


@dataclass
class Way:
    """A client's way to the API server, behind it the node."""

    port: int
    kubelet: Kubelet

    async def open(self, path: str = EXEC) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
        """Request an upgrade. Return the head of the response, and the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(
            f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nConnection: Upgrade\r\n"
            "Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
            "X-Stream-Protocol-Version: v3.channel.k8s.io\r\nContent-Length: 0\r\n\r\n".encode()
        )
        return await reader.readuntil(b"\r\n\r\n"), reader, writer


@pytest.fixture
async def way() -> AsyncIterator[Way]:
    api = await APIServer.open(ServerConfig(), clock=SystemClock(), random=random.Random(1))
    api.context.static_tokens.add({TOKEN: UserInfo("admin", ("system:masters",))})
    await api.serve(ServeOptions())
    kubelet = Kubelet()
    node_server = await asyncio.start_server(kubelet.serve, "127.0.0.1", 0)
    client = Client(api.transport(), clock=SystemClock())
    port = node_server.sockets[0].getsockname()[1]
    status = NodeStatus(
        addresses=(NodeAddress(type="InternalIP", address="127.0.0.1"),),
        daemon_endpoints=NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=port)),
    )
    node = Node(metadata=ObjectMeta(name="n1"), status=status)
    await client.resource(NODES).create(node)
    await client.resource(NODES).update_status(node)
    pod = Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(node_name="n1", containers=(Container(name="c", image="i"),)))
    await client.resource(PODS, "default").create(pod)
    async with asyncio.timeout(120):
        yield Way(api.port, kubelet)
    node_server.close()
    await api.close()


async def test_bytes_pass_as_they_are_once_the_node_has_left_http(way: Way) -> None:
    head, reader, writer = await way.open()
    assert head.startswith(b"HTTP/1.1 101 ")
    assert b"x-stream-protocol-version: v4.channel.k8s.io\r\n" in head
    writer.write(b"\x80\x03abc")
    assert await reader.readexactly(5) == b"\x80\x03ABC"
    writer.close()
    await way.kubelet.gone.wait()


async def test_the_node_is_asked_in_the_kubelets_words(way: Way) -> None:
    _, _, writer = await way.open()
    writer.close()
    (head,) = way.kubelet.heads
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /exec/default/p/c?command=id&input=1&output=1 HTTP/1.1"
    assert b"Upgrade: SPDY/3.1" in lines
    assert [line for line in lines if line.startswith(b"X-Stream")] == [
        b"X-Stream-Protocol-Version: v4.channel.k8s.io",
        b"X-Stream-Protocol-Version: v3.channel.k8s.io",
    ]
    assert not [line for line in lines if TOKEN.encode() in line]


async def test_what_is_behind_proxy_is_asked_as_the_client_asks(way: Way) -> None:
    head, reader, writer = await way.open("/api/v1/nodes/n1/proxy/some/where?x=1")
    assert head.startswith(b"HTTP/1.1 101 ")
    writer.write(b"abc")
    assert await reader.readexactly(3) == b"ABC"
    writer.close()
    (asked,) = way.kubelet.heads
    lines = asked.split(b"\r\n")
    assert lines[0] == b"POST /some/where?x=1 HTTP/1.1"
    assert [line for line in lines if line.lower().startswith((b"upgrade", b"x-stream"))] == [
        b"Upgrade: SPDY/3.1",
        b"x-stream-protocol-version: v4.channel.k8s.io",
        b"x-stream-protocol-version: v3.channel.k8s.io",
    ]
    assert not [line for line in lines if TOKEN.encode() in line]


async def test_another_answer_behind_proxy_is_handed_on(way: Way) -> None:
    way.kubelet.answer = b"HTTP/1.1 418 No\r\nContent-Type: text/x-own\r\nContent-Length: 2\r\n\r\nno"
    head, reader, writer = await way.open("/api/v1/nodes/n1/proxy/x")
    assert head.startswith(b"HTTP/1.1 418 ")
    assert b"content-type: text/x-own" in head
    assert await reader.read(2) == b"no"
    writer.close()


@pytest.mark.parametrize("path", ["portforward", "attach?stdout=true"])
async def test_ports_and_attach_take_the_same_way(way: Way, path: str) -> None:
    head, _, writer = await way.open(f"/api/v1/namespaces/default/pods/p/{path}")
    assert head.startswith(b"HTTP/1.1 101 ")
    writer.close()


async def test_a_nodes_refusal_is_handed_on_as_it_is(way: Way) -> None:
    way.kubelet.answer = b"HTTP/1.1 500 No\r\nContent-Length: 25\r\n\r\n" + b'container not found ("c")'
    head, reader, _ = await way.open()
    assert head.startswith(b"HTTP/1.1 500 ")
    assert await reader.read(-1) == b'container not found ("c")'


async def test_a_refusal_that_kubectl_would_read_as_yaml_is_a_status(way: Way) -> None:
    way.kubelet.answer = b"HTTP/1.1 403 No\r\nContent-Length: 12\r\n\r\nno: not you!"
    head, reader, _ = await way.open()
    assert head.startswith(b"HTTP/1.1 403 ")
    assert b'"message":"no: not you!"' in await reader.read(-1)


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: /secret\r\n\r\n", 502, b"not permitted"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", 500, b"is not HTTP"),
        (b"HTTP/1.1 5000 Something\r\n\r\n", 500, b"is not HTTP"),
        (b"", 500, b"is not HTTP"),
    ],
)
async def test_other_answers_of_a_node_are_no_upgrade(way: Way, answer: bytes, status: int, text: bytes) -> None:
    way.kubelet.answer = answer
    head, reader, _ = await way.open()
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"secret" not in head
    assert text in await reader.read(-1)


async def test_a_pod_that_is_not_there_is_refused_before_any_node_is_asked(way: Way) -> None:
    head, reader, _ = await way.open("/api/v1/namespaces/default/pods/other/exec?command=id&stdout=true")
    assert head.startswith(b"HTTP/1.1 404 ")
    assert b'pods \\"other\\" not found' in await reader.read(-1)
    assert way.kubelet.heads == []


@pytest.mark.parametrize(
    ("path", "resource"), [(EXEC, "pods/exec"), ("/api/v1/nodes/n1/proxy/exec/default/p/c?command=id", "nodes/proxy")]
)
@pytest.mark.parametrize(
    "protocol", ["SPDY/3.1", "websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="]
)
async def test_who_may_only_get_runs_no_command(path: str, resource: str, protocol: str) -> None:
    """An upgrade by GET is authorized like a POST."""
    api = await APIServer.open(ServerConfig(authorization=True), clock=SystemClock(), random=random.Random(1))
    api.context.static_tokens.add({TOKEN: UserInfo("reader", ())})
    await api.serve(ServeOptions())
    client = Client(api.transport(), clock=SystemClock())
    rule = PolicyRule(verbs=("get",), api_groups=("",), resources=(resource,))
    await client.resource(CLUSTERROLES).create(ClusterRole(metadata=ObjectMeta(name="reader"), rules=(rule,)))
    subject = Subject(kind="User", api_group="rbac.authorization.k8s.io", name="reader")
    role = RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="reader")
    binding = ClusterRoleBinding(metadata=ObjectMeta(name="reader"), subjects=(subject,), role_ref=role)
    await client.resource(CLUSTERROLEBINDINGS).create(binding)
    pod = Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(node_name="n1", containers=(Container(name="c", image="i"),)))
    status = NodeStatus(addresses=(NodeAddress(type="InternalIP", address="127.0.0.1"),))
    await client.resource(NODES).create(Node(metadata=ObjectMeta(name="n1"), status=status))
    await client.resource(PODS, "default").create(pod)
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Connection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n".encode()
    )
    async with asyncio.timeout(120):
        answer = await reader.read(-1)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert f'cannot create resource \\"{resource}\\"'.encode() in answer
    await api.close()
