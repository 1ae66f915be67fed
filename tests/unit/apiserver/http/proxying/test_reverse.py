"""Requests through the API server to the servers of nodes, pods and services."""

from __future__ import annotations

import gzip
import random
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from cathedra.api.core.core_v1 import (
    DaemonEndpoint,
    Node,
    NodeAddress,
    NodeDaemonEndpoints,
    NodeStatus,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.apiserver.authentication.authenticator import PUBLIC_PATHS
from cathedra.apiserver.authentication.pki import PKI
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.http.proxying.reverse import through, with_links
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.resources import NODES
from cathedra.clock import SystemClock


@dataclass
class Agent:
    """A fake of a node's agent that returns the request it received."""

    asked: list[dict[str, Any]] = field(default_factory=list)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        if request.path == "/socket":
            return await self.talk(request)
        subject = request.transport.get_extra_info("peercert")["subject"]
        names = dict(entry for relative in subject for entry in relative)
        headers = {name.lower(): value for name, value in request.headers.items()}
        text = await request.text()
        self.asked.append(
            {"method": request.method, "path": request.raw_path, "by": names["commonName"], "body": text} | headers
        )
        if request.path == "/away":
            raise web.HTTPFound("http://169.254.169.254/latest")
        if request.path == "/here":
            raise web.HTTPFound("/there?x=1")
        if request.path == "/page":
            size = int(request.query.get("size", "0"))
            return web.Response(text='<a href="/x">' + " " * size, content_type="text/html")
        if request.path == "/packed" and "gzip" in headers.get("accept-encoding", ""):
            return web.Response(body=gzip.compress(b"plain"), headers={"Content-Encoding": "gzip"})
        return web.Response(status=418, text="plain", headers={"X-Own": "kept"})

    async def talk(self, request: web.Request) -> web.StreamResponse:
        """Answer on a WebSocket in capitals."""
        if request.query.get("refuse"):
            raise web.HTTPForbidden(text="not here")
        socket = web.WebSocketResponse(protocols=["b.example"])
        await socket.prepare(request)
        async for message in socket:
            if message.type is aiohttp.WSMsgType.TEXT:
                await socket.send_str(f"{request.headers['X-Other']}:{message.data.upper()}")
            else:
                await socket.send_bytes(message.data[::-1])
        return socket


@dataclass
class Way:
    """An administrator's way to the API server, behind it the node's agent."""

    url: str
    session: aiohttp.ClientSession
    agent: Agent
    port: int

    async def ask(self, path: str, method: str = "GET", **options: Any) -> tuple[int, str, Any]:
        """Status, body and headers of an answer."""
        url = f"{self.url}/api/v1/nodes/n1{path}"
        async with self.session.request(method, url, allow_redirects=False, **options) as answer:
            return answer.status, await answer.text(), answer.headers


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
    agent = Agent()
    application = web.Application(client_max_size=16 * 1024 * 1024)
    application.router.add_route("*", "/{path:.*}", agent.serve)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    port = runner.addresses[0][1]
    client = Client(server.transport(), clock=SystemClock())
    status = NodeStatus(
        addresses=(NodeAddress(type="InternalIP", address="127.0.0.1"),),
        daemon_endpoints=NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=port)),
    )
    node = Node(metadata=ObjectMeta(name="n1"), status=status)
    await client.resource(NODES).create(node)
    await client.resource(NODES).update_status(node)
    administrator = pki.administrator()
    (tmp_path / "admin.pem").write_bytes(administrator.certificate + administrator.key)
    trusted = ssl.create_default_context(cadata=pki.authority_certificate.decode())
    trusted.load_cert_chain(tmp_path / "admin.pem")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted)) as session:
        yield Way(server.url, session, agent, port)
    await server.close()
    await runner.cleanup()


async def test_a_request_reaches_the_node_as_it_is_and_its_answer_comes_back(way: Way) -> None:
    hidden = {"Authorization": "Basic eDp5", "X-Remote-User": "root", "X-Other": "seen"}
    status, text, headers = await way.ask("/proxy/a%20b/c/?x=1&y=%26", "POST", data=b"body", headers=hidden)
    assert (status, text, headers["X-Own"]) == (418, "plain", "kept")
    (asked,) = way.agent.asked
    assert (asked["method"], asked["path"], asked["body"]) == ("POST", "/a%20b/c/?x=1&y=%26", "body")
    assert (asked["by"], asked["x-other"]) == ("kube-apiserver-kubelet-client", "seen")
    assert not asked.keys() & {"authorization", "x-remote-user"}


async def test_the_agents_own_port_may_be_named(way: Way) -> None:
    url = way.url
    async with way.session.get(f"{url}/api/v1/nodes/https:n1:{way.port}/proxy/healthz") as answer:
        assert answer.status == 418


async def test_without_a_path_the_client_is_told_to_begin_at_the_root(way: Way) -> None:
    status, _, headers = await way.ask("/proxy?x=1")
    assert (status, headers["Location"]) == (301, "/api/v1/nodes/n1/proxy/?x=1")
    assert way.agent.asked == []


@pytest.mark.parametrize(
    ("path", "location"),
    [("away", "http://169.254.169.254/latest"), ("here", "/api/v1/nodes/n1/proxy/there?x=1")],
)
async def test_a_redirect_is_handed_on_and_not_followed(way: Way, path: str, location: str) -> None:
    status, _, headers = await way.ask(f"/proxy/{path}")
    assert (status, headers["Location"]) == (302, location)
    assert len(way.agent.asked) == 1


async def test_an_answer_can_be_read_whatever_the_client_can_unpack(way: Way) -> None:
    _, text, _ = await way.ask("/proxy/packed", headers={"Accept-Encoding": "gzip"})
    assert text == "plain"


async def test_a_node_that_does_not_listen_is_told_as_a_service_that_cannot_be_reached(way: Way) -> None:
    url = f"{way.url}/api/v1/nodes/n2/proxy/healthz"
    async with way.session.get(url) as answer:
        assert answer.status == 404
    async with way.session.get(f"{way.url}/api/v1/nodes/n1:1/proxy/") as answer:
        assert (answer.status, (await answer.json())["message"]) == (400, "address not allowed")


async def test_a_body_of_any_size_reaches_the_node(way: Way) -> None:
    size = 5 * 1024 * 1024
    status, _, _ = await way.ask("/proxy/upload", "POST", data=b"x" * size)
    assert (status, len(way.agent.asked[0]["body"])) == (418, size)
    assert way.agent.asked[0]["content-length"] == str(size)


async def test_a_body_of_unknown_length_reaches_the_node_too(way: Way) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two"

    await way.ask("/proxy/upload", "PUT", data=pieces())
    assert way.agent.asked[0]["body"] == "one two"


async def test_a_websocket_reaches_the_node_and_its_frames_come_back(way: Way) -> None:
    url = f"{way.url}/api/v1/nodes/n1/proxy/socket"
    headers = {"X-Other": "o"}
    async with way.session.ws_connect(url, protocols=["a.example", "b.example"], headers=headers) as socket:
        assert socket.protocol == "b.example"
        await socket.send_str("hello")
        assert await socket.receive_str() == "o:HELLO"
        await socket.send_bytes(b"abc")
        assert await socket.receive_bytes() == b"cba"
        await socket.close()


async def test_a_websocket_that_the_node_refuses_is_refused(way: Way) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await way.session.ws_connect(f"{way.url}/api/v1/nodes/n1/proxy/socket?refuse=1")
    assert refused.value.status == 403


async def test_links_of_pages_lead_through_the_proxy(way: Way) -> None:
    _, text, headers = await way.ask("/proxy/page")
    assert text == '<a href="/api/v1/nodes/n1/proxy/x">'
    assert headers["Content-Length"] == str(len(text))


async def test_a_very_long_page_is_handed_on_as_it_is(way: Way) -> None:
    size = 3 * 1024 * 1024
    _, text, headers = await way.ask(f"/proxy/page?size={size}")
    assert (text.strip(), len(text)) == ('<a href="/x">', size + 13)
    assert headers["Content-Length"] == str(len(text))


PREFIX = "/api/v1/nodes/n1/proxy"
CHANGE = through(PREFIX, "10.0.0.1:80")


@pytest.mark.parametrize(
    ("link", "seen"),
    [
        ("/style.css", f"{PREFIX}/style.css"),
        ("/a/?x=1&y#z", f"{PREFIX}/a/?x=1&y#z"),
        ("http://10.0.0.1:80/a", f"{PREFIX}/a"),
        ("http://example.com/a", "http://example.com/a"),
        ("//example.com/a", "//example.com/a"),
        ("relative", "relative"),
        ("#here", "#here"),
        (f"{PREFIX}/again", f"{PREFIX}/again"),
        ("http://[", "http://["),
    ],
)
def test_paths_of_the_server_itself_lead_through_the_proxy(link: str, seen: str) -> None:
    assert CHANGE(link) == seen


@pytest.mark.parametrize(
    ("page", "seen"),
    [
        (b'<a href="/x">t</a>', f'<a href="{PREFIX}/x">t</a>'),
        (b"<A class=c HREF=/x>", f'<A class=c HREF="{PREFIX}/x">'),
        (b"<img src='/x' alt='/y'/>", f"<img src=\"{PREFIX}/x\" alt='/y'/>"),
        (b'<a href="/x?a=1&amp;b=2">', f'<a href="{PREFIX}/x?a=1&amp;b=2">'),
        (b'<form method="post" action="/do">', f'<form method="post" action="{PREFIX}/do">'),
    ],
)
def test_attributes_that_hold_links_are_changed(page: bytes, seen: str) -> None:
    assert with_links(page, CHANGE).decode() == seen


@pytest.mark.parametrize(
    "page",
    [
        b'<!-- <a href="/x"> -->',
        b'<p title="/x">1 < 2 and 3 > 2</p>',
        b"<script>var a = '<a href=\"/x\">';</script>",
        b'<title><a href="/x"></title>',
        b'<a href="/x',
        b"<script>never closed <a href='/x'>",
        b'<a href="x">\xff\xfe</a>',
    ],
)
def test_everything_else_stays_as_it_is(page: bytes) -> None:
    assert with_links(page, CHANGE) == page


def test_what_stands_behind_raw_text_is_changed_again() -> None:
    page = b'<script src="/s"><a href="/no"></script><a href="/x">'
    expected = f'<script src="{PREFIX}/s"><a href="/no"></script><a href="{PREFIX}/x">'
    assert with_links(page, CHANGE).decode() == expected


@pytest.mark.parametrize("piece", [b"<a ", b"<!--", b'<a "', b"<script>", b"<", b"<a href='", b'<a href="/x" '])
def test_pages_that_never_end_a_tag_take_no_longer_than_others(piece: bytes) -> None:
    page = piece * (1024 * 1024 // len(piece))
    began = time.process_time()
    with_links(page, CHANGE)
    assert time.process_time() - began < 5
