"""Thousands of requests that are sent without waiting for an answer keep no other client waiting."""

from __future__ import annotations

import asyncio
import random

from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.clock import SystemClock

REQUESTS = 10_000
REQUEST = b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n"
TURNS = 20
"""Minimum number of requests of others that are answered meanwhile: each waits for a twentieth of the long row or
less."""


async def answer(port: int) -> None:
    """One request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(REQUEST.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
    assert b"200 OK" in await reader.read()
    writer.close()


async def test_others_are_answered_while_ten_thousand_requests_wait_on_one_connection() -> None:
    server = await APIServer.open(ServerConfig(), clock=SystemClock(), random=random.Random(1))
    await server.serve(ServeOptions())
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 24)
    writer.write(REQUEST * REQUESTS)
    others, answers, rest = 0, 0, b""
    while answers < REQUESTS:
        await answer(server.port)
        others += 1
        rest += await reader.read(1 << 20)
        answers += rest.count(b"HTTP/1.1 200 OK")
        rest = rest[-14:]
    writer.close()
    await server.close()
    assert answers == REQUESTS
    assert others >= TURNS
