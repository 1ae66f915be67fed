"""Commands and ports over a streaming server, which here is the node's own side of the protocol."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from cathedra.node.runtime.cri.streaming import StreamedCommand, forwarded, streamed
from cathedra.node.runtime.runtime import STDERR, STDOUT, PortFailure, RuntimeFailure
from cathedra.node.server.bytechannel import UpgradedChannel
from cathedra.node.server.portforward import SocketConnection, serve_tunnel
from cathedra.node.server.remotecommand import AnnouncedStreams
from cathedra.node.server.streams import serve_spdy_command

Serve = Callable[[UpgradedChannel], Awaitable[None]]


class Echo:
    """A command that writes what it reads, complains, and ends with a code."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.sizes: list[tuple[int, int]] = []
        self._read: asyncio.Queue[bytes] = asyncio.Queue()

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        yield STDERR, b"begun\n"
        while data := await self._read.get():
            yield STDOUT, data

    async def write(self, data: bytes) -> None:
        await self._read.put(data)

    async def close_input(self) -> None:
        await self._read.put(b"")

    def resize(self, width: int, height: int) -> None:
        self.sizes.append((width, height))

    async def wait(self) -> int:
        return self.code

    async def close(self) -> None:
        pass


@asynccontextmanager
async def server(serve: Serve, answer: str = "101 Switching Protocols") -> AsyncIterator[str]:
    """A streaming server; its URL."""
    heads: list[bytes] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(f"HTTP/1.1 {answer}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n".encode())
        if answer.startswith("101"):
            await serve(UpgradedChannel(reader, writer))
        writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield f"http://127.0.0.1:{port}/exec/token?a=b"
    assert all(head.startswith(b"POST /exec/token?a=b HTTP/1.1\r\n") and b"Upgrade: SPDY/3.1" in head for head in heads)


def command(process: Echo, streams: AnnouncedStreams) -> Serve:
    async def made() -> Echo:
        return process

    return lambda channel: serve_spdy_command(channel, streams, made)


ALL = AnnouncedStreams(stdin=True, stdout=True, stderr=True)


async def said(process: StreamedCommand) -> list[tuple[int, bytes]]:
    async with asyncio.timeout(60):
        return [piece async for piece in process.output()]


async def test_input_output_and_exit_code_of_a_command_pass() -> None:
    async with server(command(Echo(7), ALL)) as url:
        process = await streamed(url, stdin=True, tty=False, exits=True)
        await process.write(b"hello")
        await process.close_input()
        assert sorted(await said(process)) == [(STDOUT, b"hello"), (STDERR, b"begun\n")]
        assert await process.wait() == 7
        await process.close()


async def test_output_whose_reader_stops_early_is_no_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with server(command(Echo(), ALL)) as url:
        process = await streamed(url, stdin=True, tty=False, exits=True)

        async def read_one() -> None:
            async for _ in process.output():
                return

        await read_one()
        gc.collect()  # asyncio closes generators that are left, in tasks of its own
        for _ in range(10):
            await asyncio.sleep(0)
        await process.close()
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_terminal_has_a_size() -> None:
    echo = Echo()
    streams = AnnouncedStreams(stdin=True, stdout=True, tty=True)
    async with server(command(echo, streams)) as url:
        process = await streamed(url, stdin=True, tty=True, exits=True)
        process.resize(80, 24)
        await process.write(b"x")
        await process.close_input()
        assert [data for channel, data in await said(process) if channel == STDOUT]
        assert await process.wait() == 0
        await process.close()
    assert echo.sizes == [(80, 24)]


async def test_a_containers_own_process_tells_no_exit_code() -> None:
    async with server(command(Echo(3), ALL)) as url:
        process = await streamed(url, stdin=True, tty=False, exits=False)
        await process.close_input()
        await said(process)
        assert await process.wait() == 0
        await process.close()


async def test_a_server_that_hangs_up_ends_the_command() -> None:
    async def nothing(channel: UpgradedChannel) -> None:
        pass

    async with server(nothing) as url:
        process = await streamed(url, stdin=False, tty=False, exits=True)
        assert await said(process) == [(STDERR, b"the container runtime has hung up\n")]
        assert await process.wait() == 1
        await process.close()


@pytest.mark.parametrize("url", ["https://127.0.0.1:1/x", "http://127.0.0.1:1/x"])
async def test_a_server_that_cannot_be_reached_is_a_failure(url: str) -> None:
    with pytest.raises(RuntimeFailure, match="cannot stream from"):
        await streamed(url, stdin=False, tty=False, exits=True)


async def test_a_refused_upgrade_is_a_failure_that_says_why() -> None:
    async def nothing(channel: UpgradedChannel) -> None:
        pass

    async with server(nothing, "404 Not Found") as url:
        with pytest.raises(RuntimeFailure, match="404 Not Found"):
            await streamed(url, stdin=False, tty=False, exits=True)


async def test_a_port_is_read_and_written_to_its_end() -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        writer.close()

    listening = await asyncio.start_server(shout, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with (
        listening,
        server(lambda channel: serve_tunnel(channel, partial(SocketConnection.open, "127.0.0.1"))) as url,
    ):
        connection = await forwarded(url, port)
        await connection.write(b"ping")
        await connection.end()
        async with asyncio.timeout(60):
            assert await connection.read() == b"PING"
            assert await connection.read() == b""
        connection.close()


async def test_a_port_without_a_listener_says_so_when_it_is_read() -> None:
    async def refused(port: int) -> SocketConnection:
        raise ConnectionRefusedError(111, "Connection refused")

    async with server(lambda channel: serve_tunnel(channel, refused)) as url:
        connection = await forwarded(url, 9)
        with pytest.raises(PortFailure, match="Connection refused"):
            async with asyncio.timeout(60):
                await connection.read()
        connection.close()
