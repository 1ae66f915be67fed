"""HTTP/1.1 connections: the rules of RFC 9112 that keep requests apart, limits, pipelining, upgrades."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import random
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.http.answers import broadcast
from cathedra.apiserver.server import APIServer
from cathedra.asgi import http1
from cathedra.asgi.application import Receive, Scope, Send
from cathedra.asgi.direct import DIRECT_ANSWER
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
    endless = b"GET /readyz HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * (http1.HEAD_BYTES // 6 + 1)
    assert (await answer(server, endless)).startswith(b"HTTP/1.1 431 ")


async def test_a_head_that_does_not_come_is_not_waited_for(server: APIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1, "HEAD_SECONDS", 0.05)
    assert (await answer(server, b"GET /readyz HTTP/1.1\r\nhost: ")).startswith(b"HTTP/1.1 408 ")
    assert await answer(server, b"") == b""


async def test_a_target_may_be_as_long_as_a_head(server: APIServer) -> None:
    """Go's server has no other limit; `httptools.parse_url` refuses more than 65,535 bytes."""
    long = b"GET /readyz?verbose&key=" + b"x" * 100_000 + b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    assert (await answer(server, long)).startswith(b"HTTP/1.1 200 ")


async def test_a_connection_serves_many_requests(server: APIServer) -> None:
    request = b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n"
    both = await answer(server, request + request.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
    assert both.count(b"HTTP/1.1 200 OK") == 2
    assert both.endswith(b"ok")


async def test_a_watcher_that_reads_nothing_is_cut(server: APIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "SLOW_SECONDS", 0.1)
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
    """Return the requests on one connection as the application receives them."""
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
    assert (await answer(server, b"no request")).endswith(b"400 Bad Request")


async def test_a_request_of_http_1_0_needs_no_host(server: APIServer) -> None:
    assert (await answer(server, b"GET /readyz HTTP/1.0\r\n\r\n")).endswith(b"ok")


@pytest.mark.parametrize("protocol", [b"spdy/3.1", b"cathedra-session/2", b"websocket"])
async def test_a_connection_that_has_ended_leaves_nothing_to_the_collector(protocol: bytes) -> None:
    """A request may have a megabyte, also from clients without credentials."""

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
    async with asyncio.timeout(30):
        back = await reader.read()
    writer.close()
    await writer.wait_closed()
    return back


CHUNKED = b"Transfer-Encoding: chunked\r\n"
SECOND = b"GET /second HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@asynccontextmanager
async def noting(bodies: list[tuple[str, bytes]]) -> AsyncIterator[int]:
    """A server that notes paths and bodies and answers 204; its port."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                bodies.append((scope["path"], body))
                break
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    made = Listener(app, bind("127.0.0.1", 0), None)
    await made.start()
    try:
        yield made.port
    finally:
        await made.stop()


@pytest.mark.parametrize(
    ("head", "rest", "status"),
    [
        pytest.param(b"Content-Length: 5\r\n" + CHUNKED, b"0\r\n\r\n", 400, id="length and chunks"),
        pytest.param(CHUNKED + b"Content-Length: 5\r\n", b"0\r\n\r\n", 400, id="chunks and length"),
        pytest.param(b"Content-Length: 5\r\nContent-Length: 0\r\n", b"", 400, id="two lengths"),
        pytest.param(b"Content-Length: 0\r\nContent-Length: 0\r\n", b"", 400, id="the same length twice"),
        pytest.param(b"Content-Length: 0, 0\r\n", b"", 400, id="a list of lengths"),
        pytest.param(b"Content-Length: +0\r\n", b"", 400, id="a length with a sign"),
        pytest.param(b"Content-Length:\r\n", b"", 400, id="an empty length"),
        pytest.param(b"Content-Length : 0\r\n", b"", 400, id="a space before the colon"),
        pytest.param(b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n", 400, id="the same of chunks"),
        pytest.param(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n", 501, id="another coding"),
        pytest.param(
            b"Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n", 400, id="chunked is not the last coding"
        ),
        pytest.param(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n", 501, id="a coding below chunked"),
        pytest.param(CHUNKED * 2, b"0\r\n\r\n", 400, id="chunked twice"),
        pytest.param(b"X: a\r\n b: c\r\n", b"", 400, id="a folded header"),
        pytest.param(b"X: a\nContent-Length: 0\r\n", b"", 400, id="a line that ends without CR"),
        pytest.param(b"X: a\rContent-Length: 0\r\n", b"", 400, id="a line that ends without LF"),
        pytest.param(b"X: a\x00b\r\n", b"", 400, id="NUL in a value"),
        pytest.param(b"X\x00: a\r\n", b"", 400, id="NUL in a name"),
        pytest.param(CHUNKED, b"0x1\r\na\r\n0\r\n\r\n", 400, id="a chunk size with a prefix"),
        pytest.param(CHUNKED, b"1 \r\na\r\n0\r\n\r\n", 400, id="a chunk size with a space"),
        pytest.param(CHUNKED, b"1\na\r\n0\r\n\r\n", 400, id="a chunk size without CR"),
        pytest.param(CHUNKED, b"1\r\nab\r\n0\r\n\r\n", 400, id="a chunk that is longer than its size"),
        pytest.param(CHUNKED, b"F" * 17 + b"\r\na\r\n0\r\n\r\n", 400, id="a chunk size beyond 64 bits"),
        pytest.param(b"Expect: something\r\n", b"", 417, id="another expectation"),
    ],
)
async def test_a_request_that_two_servers_could_read_differently_ends_the_connection(
    head: bytes, rest: bytes, status: int
) -> None:
    """RFC 9112, sections 5 to 7 and 11.2: what follows is never answered, so no request can be smuggled in it."""
    bodies: list[tuple[str, bytes]] = []
    async with noting(bodies) as port:
        back = await asked(port, b"POST /first HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n" + rest + SECOND)
    assert back.startswith(b"HTTP/1.1 %d " % status) or (status == 400 and b"HTTP/1.1 400 " in back)
    assert ("/second", b"") not in bodies
    assert b"connection: close" in back


@pytest.mark.parametrize("version", [b"0.9", b"2.0"])
async def test_other_versions_are_refused_by_name(version: bytes) -> None:
    async with noting([]) as port:
        back = await asked(port, b"GET / HTTP/" + version + b"\r\nHost: x\r\n\r\n")
    assert back.startswith(b"HTTP/1.1 505 ")
    assert back.endswith(b"505 HTTP Version Not Supported: unsupported protocol version")


async def test_a_client_of_http_1_0_gets_no_chunks() -> None:
    async def streaming(scope: Scope, receive: Receive, send: Send) -> None:
        assert DIRECT_ANSWER not in scope["extensions"], "frames that are written directly are chunks"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in (b"one ", b"two"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})

    made = Listener(streaming, bind("127.0.0.1", 0), None)
    await made.start()
    try:
        back = await asked(made.port, b"GET / HTTP/1.0\r\n\r\n")
    finally:
        await made.stop()
    assert b"transfer-encoding" not in back
    assert back.endswith(b"\r\n\r\none two")


async def test_a_request_behind_an_upgrade_that_is_ignored_is_answered() -> None:
    """A server may ignore the wish to speak another protocol, and the client goes on (RFC 9110, section 7.8)."""
    bodies: list[tuple[str, bytes]] = []
    wish = b"GET /first HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    async with noting(bodies) as port:
        back = await asked(port, wish + wish + SECOND)
    assert [path for path, _ in bodies] == ["/first", "/first", "/second"]
    assert back.count(b"HTTP/1.1 204 ") == 3


async def test_a_faulty_request_is_refused_behind_the_responses_before_it() -> None:
    bodies: list[tuple[str, bytes]] = []
    good = b"POST /first HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab"
    async with noting(bodies) as port:
        back = await asked(port, good * 2 + b"no request\r\n\r\n" + SECOND)
    assert bodies == [("/first", b"ab")] * 2
    statuses = [line.split()[1] for line in back.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    assert statuses == [b"204", b"204", b"400"]


@pytest.mark.parametrize(
    "endless",
    [b"0\r\n" + b"Late: 1\r\n" * 200_000, b"1;" + b"a" * 1_500_000, b"1;a=b\r\nx\r\n" * 10 + b"1;" + b"a" * 1_500_000],
)
async def test_trailers_and_chunk_extensions_without_end_are_refused(endless: bytes) -> None:
    bodies: list[tuple[str, bytes]] = []
    async with noting(bodies) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\n" + CHUNKED + b"\r\n" + endless)
        # The connection is reset where the rest of the request was not read.
        with contextlib.suppress(ConnectionResetError):
            async with asyncio.timeout(60):
                assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()
    assert bodies == []


async def test_many_small_chunks_are_a_body() -> None:
    bodies: list[tuple[str, bytes]] = []
    request = b"POST /first HTTP/1.1\r\nHost: x\r\n" + CHUNKED + b"\r\n" + b"1\r\na\r\n" * 300_000 + b"0\r\n\r\n"
    async with noting(bodies) as port:
        await asked(port, request + SECOND)
    assert [(path, len(body)) for path, body in bodies] == [("/first", 300_000), ("/second", 0)]


async def test_an_application_that_is_being_called_cannot_be_upgraded_away() -> None:
    """A WebSocket behind a request that is still being answered would be spoken within its response."""
    release = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        if scope["path"] == "/first":
            await release.wait()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    wish = (
        b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    made = Listener(app, bind("127.0.0.1", 0), None)
    await made.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
        writer.write(b"GET /first HTTP/1.1\r\nHost: x\r\n\r\n" + wish)
        await writer.drain()
        release.set()
        async with asyncio.timeout(60):
            heads = [await reader.readuntil(b"\r\n\r\n") for _ in range(2)]
        writer.close()
    finally:
        await made.stop()
    assert all(head.startswith(b"HTTP/1.1 204 ") for head in heads)
