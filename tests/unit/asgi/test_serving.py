"""HTTP on connections, wherever they come from."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from cathedra.asgi import serving
from cathedra.asgi.serving import ConnectionServer


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


async def test_a_connection_that_was_accepted_elsewhere_is_served_and_closed_in_the_end() -> None:
    server = ConnectionServer(hello, None)
    server.start()
    ours, theirs = socket.socketpair()
    server.serve(theirs)
    reader, writer = await asyncio.open_connection(sock=ours)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
    await server.stop()
    assert await reader.read() == b""
    await server.ended()
    writer.close()


@pytest.mark.parametrize("protocol", ["http", "websocket"])
async def test_streams_that_are_open_when_the_server_ends_are_no_errors(
    protocol: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def stream(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        if protocol == "websocket":
            await send({"type": "websocket.accept"})
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(serving, "GRACE_SECONDS", 0.01)
    server = ConnectionServer(stream, None)
    server.start()
    ours, theirs = socket.socketpair()
    server.serve(theirs)
    _, writer = await asyncio.open_connection(sock=ours)
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    upgrade += b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n" + (upgrade if protocol == "websocket" else b"") + b"\r\n")
    await begun.wait()
    await server.stop()
    assert ended.is_set()
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")]
    writer.close()
