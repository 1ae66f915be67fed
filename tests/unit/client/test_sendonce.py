"""A write whose connection ends without an answer is not sent again."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from cathedra.client.sendonce import AnswerLost, send_once

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class ClosingServer:
    """Answers the first request of a connection, and closes it after the second without an answer."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in range(2):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            self.requests.append(head.decode().partition(" ")[0])
            if number == 0:
                writer.write(ANSWER)
        writer.close()


async def sent(method: str) -> tuple[list[str], BaseException | None]:
    """Send a read, then ``method`` on the same connection. Return what the server received, and the error."""
    closing = ClosingServer()
    server = await asyncio.start_server(closing.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    error: BaseException | None = None
    async with server, aiohttp.ClientSession(middlewares=(send_once,)) as session:
        async with session.get(url) as response:
            await response.read()
        try:
            async with session.request(method, url) as response:
                await response.read()
        except aiohttp.ClientError as found:
            error = found
    return closing.requests, error


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST", "PATCH"])
async def test_a_write_is_sent_once(method: str) -> None:
    requests, error = await sent(method)
    assert requests == ["GET", method]
    assert isinstance(error, AnswerLost)


async def test_a_read_is_sent_again() -> None:
    requests, error = await sent("GET")
    assert requests == ["GET", "GET", "GET"]
    assert error is None


async def test_a_server_that_is_not_there_is_no_lost_answer() -> None:
    async with aiohttp.ClientSession(middlewares=(send_once,)) as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.put("http://127.0.0.1:1/")
