"""Connections that misbehave: heads that are too long, or never come to an end. And headers that come again."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.http.answers import pushing
from cathedra.apiserver.server import APIServer
from cathedra.asgi import protocols
from cathedra.asgi.application import Receive, Scope, Send
from cathedra.asgi.listener import Listener, bind
from cathedra.client.resources import CONFIGMAPS
from cathedra.client.transport import APICall
from cathedra.clock import SystemClock
from tests.unit.apiserver.plain_definitions import plain_definitions


@pytest.fixture
async def server() -> AsyncIterator[APIServer]:
    config = ServerConfig(definitions=plain_definitions())
    made = await APIServer.open(config, clock=SystemClock(), random=random.Random(1))
    await made.serve(ServeOptions())
    yield made
    await made.close()


async def answer(server: APIServer, data: bytes) -> bytes:
    """Everything that comes back before the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(data)
        async with asyncio.timeout(120):
            return await reader.read()
    finally:
        writer.close()


async def test_a_head_without_end_is_refused(server: APIServer) -> None:
    endless = b"GET /readyz HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * (protocols.HEAD_BYTES // 6 + 1)
    assert (await answer(server, endless)).startswith(b"HTTP/1.1 431 ")


async def test_a_head_that_does_not_come_is_not_waited_for(server: APIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocols, "HEAD_SECONDS", 0.05)
    assert (await answer(server, b"GET /readyz HTTP/1.1\r\nhost: ")).startswith(b"HTTP/1.1 408 ")
    assert await answer(server, b"") == b""


async def test_a_connection_serves_many_requests(server: APIServer) -> None:
    request = b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n"
    both = await answer(server, request + request.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
    assert both.count(b"HTTP/1.1 200 OK") == 2
    assert both.endswith(b"ok")


async def test_a_watcher_that_reads_nothing_is_cut(server: APIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushing, "SLOW_SECONDS", 0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
    writer.write(b"GET /api/v1/configmaps?watch=true HTTP/1.1\r\nhost: x\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    api = server.transport()
    for number in range(24):
        data = {"key": "x" * 900_000}
        obj = ConfigMap(metadata=ObjectMeta(name=f"m{number}", namespace="default"), data=data)
        await api.call(APICall("create", CONFIGMAPS, "default", body=obj))
    await asyncio.sleep(0.3)
    received = 0
    async with asyncio.timeout(120):
        while data_read := await reader.read(2**20):
            received += len(data_read)
    assert received < 24 * 900_000
    writer.close()


async def test_a_large_body_in_one_piece_arrives_whole(server: APIServer) -> None:
    text = "x" * 900_000
    body = json.dumps({"metadata": {"name": "large"}, "data": {"key": text}}).encode()
    head = f"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    get = b"GET /api/v1/namespaces/default/configmaps/large HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    back = await answer(server, head.encode() + body + get)
    assert back.startswith(b"HTTP/1.1 201 ")
    assert back.count(text.encode()) == 2


async def test_requests_with_the_same_headers_share_them() -> None:
    """Those of another request are its own, and so are those of another connection."""
    asked = [b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % host for host in (b"x", b"x", b"y")]
    seen = await headers_of(asked) + await headers_of(asked)
    assert [list(headers) for headers in seen] == 2 * [[(b"host", b"x")], [(b"host", b"x")], [(b"host", b"y")]]
    assert seen[0] is seen[1]
    assert seen[3] is seen[4] is not seen[0]


async def test_what_follows_a_body_is_no_header_of_this_request_or_the_next() -> None:
    chunked = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n%b\r\n1\r\na\r\n0\r\n%b\r\n"
    trailer = b"Late: 1\r\n"
    seen = await headers_of([chunked % (b"", trailer), chunked % (trailer, b""), chunked % (b"", b"")])
    plain = [(b"host", b"x"), (b"transfer-encoding", b"chunked")]
    assert [list(headers) for headers in seen] == [plain, [*plain, (b"late", b"1")], plain]


async def headers_of(requests: list[bytes]) -> list[Any]:
    """What an application sees of requests on one connection, one after another."""
    seen: list[Any] = []

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["headers"])
        await receive()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    made = Listener(noting, bind("127.0.0.1", 0), None)
    await made.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
        for request in requests:
            writer.write(request)
            async with asyncio.timeout(60):
                await reader.readuntil(b"\r\n\r\n")
        writer.close()
    finally:
        await made.stop()
    return seen


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (b"GET /readyz HTTP/1.1\r\n\r\n", b"400 Bad Request: missing required Host header"),
        (b"GET /readyz HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", b"400 Bad Request: too many Host headers"),
    ],
)
async def test_a_request_of_http_1_1_names_one_host(server: APIServer, head: bytes, why: bytes) -> None:
    """RFC 9112, section 3.2; the words are Go's."""
    back = await answer(server, head)
    assert back.startswith(b"HTTP/1.1 400 ")
    assert back.endswith(why)
    assert (await answer(server, b"no request")).endswith(b"Invalid HTTP request received.")


async def test_a_request_of_http_1_0_needs_no_host(server: APIServer) -> None:
    assert (await answer(server, b"GET /readyz HTTP/1.0\r\n\r\n")).endswith(b"ok")


@pytest.mark.parametrize("protocol", [b"spdy/3.1", b"cathedra-session/1", b"websocket"])
async def test_a_connection_that_has_ended_leaves_nothing_to_the_collector(protocol: bytes) -> None:
    """What it was asked may have a megabyte, from clients without credentials, too."""

    async def refusing(scope: Scope, receive: Receive, send: Send) -> None:
        kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
        await send({"type": f"{kind}.start", "status": 401, "headers": []})
        await send({"type": f"{kind}.body", "body": b"no"})

    made = Listener(refusing, bind("127.0.0.1", 0), None)
    await made.start()
    lines = (
        b"GET / HTTP/1.1",
        b"Host: x",
        b"Connection: Upgrade",
        b"Upgrade: " + protocol,
        b"Sec-WebSocket-Version: 13",
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        *(b"X-Padding-%d: %b" % (number, b"x" * 8000) for number in range(90)),
    )
    request = b"\r\n".join((*lines, b"", b""))
    await asked(made.port, request)  # what is loaded with the first one stays
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(10):
            assert b"401" in await asked(made.port, request)
        await asyncio.sleep(0)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
        await made.stop()
    assert after - before < 2 * len(request)


async def asked(port: int, request: bytes) -> bytes:
    """Everything that comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(60):
        back = await reader.read()
    writer.close()
    await writer.wait_closed()
    return back
