"""HTTP on connections, wherever they come from."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from cathedra.asgi.serving import ConnectionServer


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


async def test_a_connection_that_was_accepted_elsewhere_is_served_and_closed_in_the_end() -> None:
    server = ConnectionServer(hello, None)
    await server.start()
    ours, theirs = socket.socketpair()
    server.serve(theirs)
    reader, writer = await asyncio.open_connection(sock=ours)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
    await server.stop()
    assert await reader.read() == b""
    await server.ended()
    writer.close()
