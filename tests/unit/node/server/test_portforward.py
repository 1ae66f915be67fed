"""Connections to ports of a pod, forwarded over a WebSocket (docs/spec/kubectl.md §6.3)."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cathedra.clock import run_virtual
from cathedra.node.runtime.runtime import PortConnection, Runtime
from cathedra.node.server.bytechannel import NumberedChannels, WebSocketChannel
from cathedra.node.server.portforward import (
    MOST_STREAMS,
    MOST_UNPAIRED,
    PAIR_SECONDS,
    SocketConnection,
    address_of,
    port_connector,
    serve_channels,
    serve_tunnel,
)
from cathedra.node.spdy import Data, FrameReader, Reset, Writer
from tests.running import beside


class Client:
    """A WebSocket as the application sees it, from the client's side."""

    def __init__(self) -> None:
        self.to_server: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.from_server: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def send(self, data: bytes) -> None:
        self.to_server.put_nowait({"type": "websocket.receive", "bytes": data})

    async def receive(self) -> bytes:
        message = await self.from_server.get()
        assert message["type"] == "websocket.send"
        return bytes(message["bytes"])


@asynccontextmanager
async def serving(serve: Callable[[Any, Any], Awaitable[None]]) -> AsyncIterator[Client]:
    client = Client()
    async with beside(serve(client.to_server.get, client.from_server.put)) as task:
        async with asyncio.timeout(120):
            yield client
            client.to_server.put_nowait({"type": "websocket.disconnect"})
            await task


@asynccontextmanager
async def shouting() -> AsyncIterator[int]:
    """A server that repeats in capitals what it hears, until it hears nothing more; answers its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data.upper())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def local(port: int) -> PortConnection:
    return await SocketConnection.open("127.0.0.1", port)


async def tunnel(receive: Any, send: Any) -> None:
    await serve_tunnel(WebSocketChannel(receive, send), local)


def open_pair(writer: Writer, port: int, first: int, request: str) -> bytes:
    headers = {"port": str(port), "requestID": request}
    return writer.open(first, headers | {"streamType": "error"}) + writer.open(
        first + 2, headers | {"streamType": "data"}
    )


async def read_streams(client: Client, ends: set[int]) -> dict[int, bytes]:
    """Return the data of each stream, until all of ``ends`` have ended."""
    reader, found = FrameReader(), dict[int, bytes]()
    while ends:
        for frame in reader.feed(await client.receive()):
            if isinstance(frame, Data):
                found[frame.stream] = found.get(frame.stream, b"") + frame.data
                if frame.fin:
                    ends = ends - {frame.stream}
    return found


async def test_connections_in_a_tunnel_do_not_mix() -> None:
    async with shouting() as port, serving(tunnel) as client:
        writer = Writer()
        client.send(open_pair(writer, port, 1, "0") + open_pair(writer, port, 5, "1"))
        client.send(b"".join(writer.data(3, b"one")) + b"".join(writer.data(7, b"two", fin=True)))
        client.send(b"".join(writer.data(3, b" more", fin=True)))
        assert await read_streams(client, {1, 3, 5, 7}) == {1: b"", 3: b"ONE MORE", 5: b"", 7: b"TWO"}


async def test_a_port_without_a_listener_is_told_on_the_error_stream() -> None:
    async with shouting() as port:
        pass
    async with serving(tunnel) as client:
        client.send(open_pair(Writer(), port, 1, "0"))
        found = await read_streams(client, {1, 3})
        assert found[1].startswith(f"error forwarding port {port} to the pod: ".encode())
        assert found[3] == b""


async def test_a_client_that_goes_away_takes_its_connections_along() -> None:
    async with shouting() as port, serving(tunnel) as client:
        writer = Writer()
        client.send(open_pair(writer, port, 1, "0") + b"".join(writer.data(3, b"hello")))
        reader = FrameReader()
        while not any(isinstance(frame, Data) for frame in reader.feed(await client.receive())):
            pass


async def test_channels_begin_with_their_port_and_carry_data_after_that() -> None:
    async with (
        shouting() as port,
        serving(lambda receive, send: serve_channels([port], NumberedChannels(receive, send), local)) as client,
    ):
        assert [await client.receive() for _ in range(2)] == [
            bytes([channel]) + port.to_bytes(2, "little") for channel in (0, 1)
        ]
        client.send(b"\x00hello")
        assert await client.receive() == b"\x00HELLO"


async def test_channels_in_base64_are_characters() -> None:
    async def channels(receive: Any, send: Any) -> None:
        await serve_channels([port], NumberedChannels(receive, send, base64=True), local)

    async with shouting() as port, serving(channels) as client:
        encoded = base64.b64encode(port.to_bytes(2, "little")).decode()
        assert [(await client.from_server.get())["text"] for _ in range(2)] == ["0" + encoded, "1" + encoded]
        client.to_server.put_nowait({"type": "websocket.receive", "text": "0aGVsbG8="})
        assert await client.from_server.get() == {"type": "websocket.send", "text": "0SEVMTE8="}


async def test_a_port_that_reads_nothing_lets_its_client_wait_and_loses_nothing() -> None:
    messages, size = 1000, 64 * 1024
    reading, heard = asyncio.Event(), 0
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        await reading.wait()
        while heard < messages * size and (data := await reader.read(2**20)):
            heard += len(data)
        done.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1024)
    port = server.sockets[0].getsockname()[1]
    async with (
        server,
        serving(lambda receive, send: serve_channels([port], NumberedChannels(receive, send), local)) as client,
    ):
        for _ in range(messages):
            client.send(b"\x00" + b"x" * size)
        left = messages + 1
        while client.to_server.qsize() < left:
            left = client.to_server.qsize()
            for _ in range(1000):
                await asyncio.sleep(0)
        assert left > 0
        reading.set()
        await done.wait()
    assert heard == messages * size


async def test_what_is_sent_to_a_port_without_a_listener_is_thrown_away() -> None:
    async with shouting() as dead:
        pass

    async def channels(receive: Any, send: Any) -> None:
        await serve_channels([dead, port], NumberedChannels(receive, send), local)

    async with shouting() as port, serving(channels) as client:
        for _ in range(1000):
            client.send(b"\x00hello")
        assert {(await client.receive())[:1] for _ in range(5)} == {b"\x00", b"\x01", b"\x02", b"\x03"}
        client.send(b"\x02hello")
        assert await client.receive() == b"\x02HELLO"
    assert client.to_server.empty()


async def test_a_websocket_with_channels_is_closed_when_its_ports_have_ended() -> None:
    async with shouting() as dead:
        pass
    async with serving(lambda receive, send: serve_channels([dead], NumberedChannels(receive, send), local)) as client:
        assert [(await client.receive())[:1] for _ in range(3)] == [b"\x00", b"\x01", b"\x01"]
        assert await client.from_server.get() == {"type": "websocket.close", "code": 1000}


async def answers(client: Client, count: int) -> list[Any]:
    """The next resets and data that the node sends; replies are passed over."""
    reader, found = FrameReader(), list[Any]()
    while len(found) < count:
        found += reader.feed(await client.receive())
    return found


def opened(writer: Writer, stream: int, kind: str, request: str) -> bytes:
    return writer.open(stream, {"port": "1", "requestID": request, "streamType": kind})


async def test_streams_without_a_partner_are_bounded() -> None:
    async with serving(tunnel) as client:
        writer = Writer()
        streams = [2 * number + 1 for number in range(MOST_UNPAIRED + 3)]
        for stream in streams:
            client.send(opened(writer, stream, "data", str(stream)))
        assert [(type(frame), frame.stream) for frame in await answers(client, 3)] == [
            (Reset, stream) for stream in streams[MOST_UNPAIRED:]
        ]


async def test_the_streams_of_a_connection_are_bounded() -> None:
    async def connect(port: int) -> PortConnection:
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(lambda receive, send: serve_tunnel(WebSocketChannel(receive, send), connect)) as client:
        writer = Writer()
        for first in range(1, 2 * MOST_STREAMS, 4):
            client.send(open_pair(writer, 1, first, str(first)))
        client.send(open_pair(writer, 1, 2 * MOST_STREAMS + 1, "more"))
        found = [frame.stream for frame in await answers(client, 2)]
        assert found == [2 * MOST_STREAMS + 1, 2 * MOST_STREAMS + 3]


async def test_a_second_stream_of_the_same_kind_is_reset() -> None:
    async with serving(tunnel) as client:
        writer = Writer()
        client.send(opened(writer, 1, "data", "r") + opened(writer, 3, "data", "r"))
        assert [(type(frame), frame.stream) for frame in await answers(client, 1)] == [(Reset, 3)]


async def test_a_stream_that_the_client_resets_makes_room_for_another() -> None:
    async with serving(tunnel) as client:
        writer = Writer()
        for stream in range(1, 6 * MOST_UNPAIRED, 2):
            client.send(opened(writer, stream, "data", str(stream)) + writer.reset(stream))
        client.send(opened(writer, 999, "nonsense", ""))
        assert [frame.stream for frame in await answers(client, 1)] == [999]


async def test_what_waits_for_a_port_is_bounded_in_bytes() -> None:
    async with serving(tunnel) as client:
        writer = Writer()
        client.send(opened(writer, 1, "data", "r"))
        for _ in range(3):
            client.send(b"".join(writer.data(1, b"x" * 128 * 1024)))
        assert [(type(frame), frame.stream) for frame in await answers(client, 1)] == [(Reset, 1)]


def test_a_stream_whose_partner_does_not_come_is_broken_off() -> None:
    async def body() -> list[Any]:
        async with serving(tunnel) as client:
            writer = Writer()
            client.send(opened(writer, 1, "error", "7") + opened(writer, 3, "data", "8"))
            await asyncio.sleep(PAIR_SECONDS - 1)
            client.send(opened(writer, 5, "nonsense", ""))
            before = await answers(client, 1)
            return [*before, *await answers(client, 2)]

    early, told, reset = run_virtual(body())
    assert early.stream == 5
    assert (told.stream, told.data, told.fin) == (1, b"(request=7) timed out waiting for streams", True)
    assert (type(reset), reset.stream) == (Reset, 3)


LISTEN = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
both = sys.argv[1] == "::"
listening = socket.create_server((sys.argv[1], int(sys.argv[2])), family=family, reuse_port=True, dualstack_ipv6=both)
print(listening.getsockname()[1], flush=True)
sys.stdin.read()
"""


class Listener:
    def __init__(self, address: str, port: int = 0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", LISTEN, address, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline() or b"-1")

    @property
    def pid(self) -> int:
        return self.process.pid


@pytest.fixture
def started() -> Iterator[list[Listener]]:
    found: list[Listener] = []
    yield found
    for listener in found:
        listener.process.communicate()


@pytest.mark.parametrize(
    ("place", "reached"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),
        ("::1", "::1"),
        ("::", "127.0.0.1"),
        ("127.0.0.2", None),
    ],
)
def test_a_socket_of_the_pod_is_reached_where_it_listens(
    started: list[Listener], place: str, reached: str | None
) -> None:
    started.append(listener := Listener(place))
    assert address_of(listener.port, [listener.pid, 2**22 + 1]) == reached
    assert address_of(listener.port, [os.getpid()]) is None
    assert address_of(listener.port, []) is None


def test_a_socket_that_the_kernel_prefers_must_be_the_pods_too(started: list[Listener]) -> None:
    started.append(own := Listener("0.0.0.0"))
    with socket.socket() as foreign:
        foreign.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        foreign.bind(("127.0.0.1", own.port))
        foreign.listen()
        assert address_of(own.port, [own.pid]) is None
        assert address_of(own.port, [own.pid, os.getpid()]) == "127.0.0.1"


class Shared:
    """A runtime whose pods share the node's network."""

    sandboxes = None

    def __init__(self, *processes: int) -> None:
        self._processes = frozenset(processes)
        self.asked: list[object] = []

    async def processes(self, container_ids: object) -> frozenset[int]:
        self.asked.append(container_ids)
        return self._processes


async def test_a_port_at_which_another_process_listens_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        runtime: Runtime = Shared(1)  # type: ignore[assignment]
        with pytest.raises(ConnectionRefusedError, match="no process of the pod listens there"):
            await port_connector(runtime, "uid", lambda: {"c"})(port)
        own = Shared(os.getpid())
        connection = await port_connector(own, "uid", lambda: {"c"})(port)  # type: ignore[arg-type]
        assert own.asked == [{"c"}]
        connection.close()
