"""Connections that leave HTTP with an answer of status 101."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cathedra.asgi.listener import Listener, bind
from cathedra.asgi.upgrade import UPGRADE, Upgrade

ASK = b"POST /%s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n"
SWITCH = {"type": "http.response.start", "status": 101, "headers": [(b"upgrade", b"SPDY/3.1")]}


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Repeats in capitals what comes after the upgrade; ``/no`` refuses it."""
    upgrade: Upgrade | None = scope["extensions"].get(UPGRADE)
    if upgrade is None or scope["path"] == "/no":
        await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"no"})
        return
    await send(dict(SWITCH))
    reader, writer = upgrade.streams
    while data := await reader.read(1000):
        writer.write(data.upper())
        await writer.drain()
    writer.close()


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Listener, asyncio.StreamReader, asyncio.StreamWriter]]:
    listener = Listener(app, bind("127.0.0.1", 0), None)
    await listener.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    try:
        async with asyncio.timeout(120):
            yield listener, reader, writer
    finally:
        writer.close()
        await listener.stop()


async def test_bytes_flow_in_both_directions_after_the_answer() -> None:
    async with connected() as (_, reader, writer):
        writer.write(ASK % b"yes")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
        assert b"upgrade: SPDY/3.1\r\n" in head
        assert b"connection: Upgrade\r\n" in head
        for word in (b"one", b"two"):
            writer.write(word)
            assert await reader.readexactly(3) == word.upper()


async def test_much_is_neither_lost_nor_read_ahead_without_end() -> None:
    async with connected() as (_, reader, writer):
        writer.write(ASK % b"yes")
        await reader.readuntil(b"\r\n\r\n")
        sent = b"x" * 5_000_000
        writer.write(sent)
        writer.write_eof()
        assert await reader.read(-1) == sent.upper()


async def test_a_refusal_is_the_last_answer_of_its_connection() -> None:
    async with connected() as (_, reader, writer):
        writer.write(ASK % b"no")
        answer = await reader.read(-1)
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert answer.endswith(b"no")


async def test_other_upgrades_are_not_offered() -> None:
    async with connected() as (_, reader, writer):
        writer.write((ASK % b"yes").replace(b"SPDY/3.1", b"h2c"))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 403 ")


async def test_a_server_that_stops_hangs_up() -> None:
    async with connected() as (listener, reader, writer):
        writer.write(ASK % b"yes")
        await reader.readuntil(b"\r\n\r\n")
        await listener.stop()
        assert await reader.read(-1) == b""


async def test_there_are_no_streams_before_the_answer() -> None:
    upgrade = Upgrade(asyncio.Transport(), set(), asyncio.Protocol())
    assert not upgrade.taken
    with pytest.raises(RuntimeError, match="status 101"):
        _ = upgrade.streams
