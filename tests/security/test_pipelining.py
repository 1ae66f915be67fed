"""Thousands of requests that are sent without waiting for an answer keep no other client waiting."""

from __future__ import annotations

import asyncio
import random
import time

from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.clock import SystemClock

REQUESTS = 10_000
REQUEST = b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n"
SECONDS = 1.0
"""What another connection may wait for its answer; it is a twentieth of that where nothing else runs."""


async def answered_in(port: int) -> float:
    """Seconds that one request takes on a connection of its own."""
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(REQUEST.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
    await reader.read()
    writer.close()
    return time.monotonic() - began


async def test_others_are_answered_while_ten_thousand_requests_wait_on_one_connection() -> None:
    server = await APIServer.open(ServerConfig(), clock=SystemClock(), random=random.Random(1))
    await server.serve(ServeOptions())
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 24)
    writer.write(REQUEST * REQUESTS)
    slowest, answers, rest = 0.0, 0, b""
    while answers < REQUESTS:
        slowest = max(slowest, await answered_in(server.port))
        rest += await reader.read(1 << 20)
        answers += rest.count(b"HTTP/1.1 200 OK")
        rest = rest[-14:]
    writer.close()
    await server.close()
    assert answers == REQUESTS
    assert slowest < SECONDS
