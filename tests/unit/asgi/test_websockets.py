"""WebSockets: no compression, and a bounded part of what a client sends in each turn of the loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from websockets.server import ServerProtocol

from cathedra.asgi.listener import Listener

Application = Callable[[Any, Any, Any], Awaitable[None]]


@asynccontextmanager
async def serving(app: Application) -> AsyncIterator[int]:
    listening = socket.create_server(("127.0.0.1", 0))
    listener = Listener(app, listening, None)
    await listener.start()
    try:
        yield listener.port
    finally:
        await listener.stop()


async def echo(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "bytes": message["bytes"]})


def masked(opcode: int, payload: bytes = b"") -> bytes:
    """A frame of a client, with a mask of zeros."""
    return bytes((0x80 | opcode, 0x80 | len(payload))) + bytes(4) + payload


async def connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
    )
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 ")
    assert b"permessage-deflate" not in head
    return reader, writer


async def test_compression_is_not_offered() -> None:
    async with (
        serving(echo) as port,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"ws://127.0.0.1:{port}/", compress=15) as client,
    ):
        assert client.compress == 0
        await client.send_bytes(b"x" * 100_000)
        assert (await client.receive()).data == b"x" * 100_000


async def test_tiny_messages_are_all_received_in_their_order_while_the_application_is_slow() -> None:
    async with serving(echo) as port:
        reader, writer = await connected(port)
        sent = [b"%d" % number for number in range(5000)]
        writer.write(b"".join(masked(2, one) for one in sent))
        expected = b"".join(bytes((0x82, len(one))) + one for one in sent)
        assert await reader.readexactly(len(expected)) == expected
        writer.close()


async def test_a_flood_of_pings_is_answered_a_part_in_each_turn_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    receive = ServerProtocol.receive_data

    def noted(self: ServerProtocol, data: bytes) -> None:
        sizes.append(len(data))
        receive(self, data)

    monkeypatch.setattr(ServerProtocol, "receive_data", noted)
    async with serving(echo) as port:
        reader, writer = await connected(port)
        writer.write(masked(9) * 10_000)
        async with asyncio.timeout(60):
            await reader.readexactly(2 * 10_000)
        writer.close()
    assert max(sizes) <= 4096


async def test_what_an_application_does_not_take_is_not_parsed() -> None:
    taken = asyncio.Event()
    parsed: list[int] = []

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await taken.wait()
        parsed.append(receive.__self__._messages.qsize())
        count = 0
        while (await receive())["type"] == "websocket.receive":
            count += 1
            if count == 10_000:
                await send({"type": "websocket.send", "bytes": b"all"})

    async with serving(slow) as port:
        reader, writer = await connected(port)
        writer.write(masked(2, b"x") * 10_000)
        await asyncio.sleep(0.2)
        taken.set()
        assert await reader.readexactly(5) == bytes((0x82, 3)) + b"all"
        writer.close()
    assert parsed[0] <= 4096 // 7 + 1


async def test_a_refused_handshake_is_no_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.http.response.start", "status": 400, "headers": []})
        await send({"type": "websocket.http.response.body", "body": b"no"})

    async with serving(refuse) as port, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect(f"ws://127.0.0.1:{port}/")
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_client_that_leaves_before_its_handshake_is_answered_is_no_error_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    left, ended = asyncio.Event(), asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await left.wait()
        assert (await receive())["type"] == "websocket.disconnect"
        try:
            await send({"type": "websocket.accept"})
        finally:
            ended.set()

    async with serving(slow) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        await writer.drain()
        writer.close()
        left.set()
        async with asyncio.timeout(120):
            await ended.wait()
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_server_ends_while_a_websocket_is_closing() -> None:
    closing = asyncio.Event()

    async def close(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        assert (await receive())["type"] == "websocket.disconnect"
        closing.set()

    async with serving(close) as port:
        _, writer = await connected(port)
        writer.write(masked(8, b"\x03\xe8"))
        await closing.wait()
    writer.close()


async def test_an_application_that_sends_without_pause_waits_for_a_client_that_does_not_read() -> None:
    sent, blocked = 0, asyncio.Event()

    async def flood(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await receive()
        await send({"type": "websocket.accept"})
        asyncio.get_running_loop().call_later(1, blocked.set)
        for _ in range(2000):
            await send({"type": "websocket.send", "bytes": b"x" * 32_000})
            sent += 1

    async with serving(flood) as port:
        reader, writer = await connected(port)
        await blocked.wait()
        assert sent < 1000, "the kernel's own buffers have a few megabytes"
        writer.transport.abort()
        del reader
