"""exec, attach and port-forward: the same handlers for WebSockets and SPDY/3.1.

docs/spec/node.md §17.10 and docs/spec/kubectl.md §6.2–6.3. SPDY clients show an HTTP error before the upgrade.
WebSocket clients do not, so there the error channel carries the refusal.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from cathedra.api.status import StatusError, bad_request, failure, internal_error
from cathedra.asgi.application import Receive, Scope, Send
from cathedra.asgi.upgrade import UPGRADE, Upgrade
from cathedra.node.concurrency import first_of, until_gone
from cathedra.node.containers.records import ContainerRecord
from cathedra.node.pods.worker import PodWorker
from cathedra.node.runtime.runtime import STDOUT, ExecProcess, Runtime, RuntimeFailure
from cathedra.node.server.bytechannel import (
    ByteChannel,
    NumberedChannels,
    SpdyConnection,
    StreamFrame,
    UpgradedChannel,
    WebSocketChannel,
    choose_protocol,
)
from cathedra.node.server.portforward import (
    MOST_PORTS,
    STREAMS,
    TUNNEL,
    ConnectPort,
    port_connector,
    serve_channels,
    serve_tunnel,
)
from cathedra.node.server.portforward import PROTOCOLS as FORWARDING
from cathedra.node.server.remotecommand import PROTOCOLS as COMMANDS
from cathedra.node.server.remotecommand import AnnouncedStreams, CommandSocket, exit_status, resize_terminal
from cathedra.node.spdy import Data, OpenStream

_PROTOCOL: Final = b"x-stream-protocol-version"
_ACCEPTED: Final = b"x-accepted-stream-protocol-versions"


class StreamServer:
    """Connects clients with the commands and ports of pods."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def connect(self, request: NodeRequest, record: ContainerRecord) -> None:
        """Run a command in a container, or attach to its own.

        Raises:
            StatusError: it was refused before the upgrade.
        """
        wanted = AnnouncedStreams(
            stdin=request.flag("stdin", "input"),
            stdout=request.flag("stdout", "output"),
            stderr=request.flag("stderr", "error"),
            tty=request.flag("tty"),
        )
        if not wanted.any:
            raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
        if request.upgrade is not None:
            await self._connect_spdy(request, request.upgrade, record, wanted)
            return
        protocol = await _accepted(request, COMMANDS)
        socket = CommandSocket(request.receive, request.send, protocol, wanted)
        await socket.greet()
        try:
            process = await self._process(request, record)
        except StatusError as error:
            await socket.refuse(error.to_json())
        else:
            await socket.serve(process)

    async def _connect_spdy(
        self, request: NodeRequest, upgrade: Upgrade, record: ContainerRecord, wanted: AnnouncedStreams
    ) -> None:
        if record.current is None or not record.current.running:
            raise failure(500, "InternalError", _not_found(record))
        if not await _switched(request, PROTOCOLS):
            return
        reader, writer = upgrade.streams
        try:
            channel = UpgradedChannel(reader, writer)
            await serve_spdy_command(channel, wanted, lambda: self._process(request, record))
        finally:
            writer.close()

    async def _process(self, request: NodeRequest, record: ContainerRecord) -> ExecProcess:
        current = record.current
        if current is None or not current.running:
            raise internal_error(_not_found(record))
        try:
            if request.parts[0] == "attach":
                return await self._runtime.attach(current.id)
            return await self._execute(current.id, request)
        except RuntimeFailure as error:
            raise internal_error(error.message) from error

    async def _execute(self, container_id: str, request: NodeRequest) -> ExecProcess:
        command = tuple(request.query.get("command", ()))
        if not command:
            raise bad_request("you must specify at least 1 command for the container")
        stdin = request.flag("stdin", "input")
        return await self._runtime.exec(container_id, command, tty=request.flag("tty"), stdin=stdin)

    async def forward(self, request: NodeRequest, worker: PodWorker) -> None:
        """Forward connections to ports of a pod.

        Raises:
            StatusError: it was refused before the upgrade.
        """
        if not any(record.running for record in worker.records):
            raise failure(500, "InternalError", f'pod "{worker.pod.metadata.name}" has no running container')
        connect = port_connector(self._runtime, worker.pod.metadata.uid, lambda: _running_containers(worker))
        if request.upgrade is not None:
            await _forward_spdy(request, request.upgrade, connect)
            return
        ports = [int(port) for port in ",".join(request.query.get("port", ())).split(",") if port.isdecimal()]
        if TUNNEL not in request.subprotocols:
            _check_ports(ports)
        protocol = await _accepted(request, FORWARDING)
        if protocol == TUNNEL:
            await serve_tunnel(WebSocketChannel(request.receive, request.send), connect)
        else:
            channels = NumberedChannels(request.receive, request.send, base64="base64." in protocol)
            await serve_channels(ports, channels, connect)


async def _accepted(request: NodeRequest, known: Sequence[str]) -> str:
    """Accept a WebSocket. Return its sub-protocol.

    Raises:
        StatusError: 403 as at a kubelet, it offers only others.
    """
    protocol = choose_protocol(request.subprotocols, known)
    if protocol is None:
        offered = " ".join(request.subprotocols)
        names = " ".join(each for each in known if each)
        raise failure(403, "Forbidden", f"requested protocol(s) are not supported: [{offered}]; supports [{names}]")
    await request.receive()  # the connection itself
    await request.send({"type": "websocket.accept", "subprotocol": protocol or None})
    return protocol


def _running_containers(worker: PodWorker) -> set[str]:
    """Return the IDs of a pod's containers that run now."""
    return {record.current.id for record in worker.records if record.current is not None and record.current.running}


def _check_ports(ports: Sequence[int]) -> None:
    """Check the ports of the form with channels, whose numbers are one byte.

    Raises:
        StatusError: 400, there are none, or too many.
    """
    if not ports or max(ports) > 65535:
        raise bad_request('query parameter "port" is required')
    if len(ports) > MOST_PORTS:
        raise bad_request(f'query parameter "port" names {len(ports)} ports, and there are channels for {MOST_PORTS}')


async def _forward_spdy(request: NodeRequest, upgrade: Upgrade, connect: ConnectPort) -> None:
    if not await _switched(request, (STREAMS,)):
        return
    reader, writer = upgrade.streams
    try:
        await serve_tunnel(UpgradedChannel(reader, writer), connect)
    finally:
        writer.close()


def _not_found(record: ContainerRecord) -> str:
    """Return a kubelet's message. It has no colon: kubectl would take "a: b" for YAML, and show neither."""
    return f'container not found ("{record.name}")'


async def _switched(request: NodeRequest, known: Sequence[str]) -> bool:
    """Switch to the best stream protocol that both sides support. Return False if there is none; the error was sent."""
    protocol = next((each for each in known if each in request.stream_protocols), None)
    if protocol is not None:
        headers = [(b"upgrade", b"SPDY/3.1"), (_PROTOCOL, protocol.encode())]
        await request.send({"type": "http.response.start", "status": 101, "headers": headers})
        return True
    await _refuse_protocols(request, known)
    return False


async def _refuse_protocols(request: NodeRequest, known: Sequence[str]) -> None:
    offered = " ".join(request.stream_protocols)
    body = f"unable to upgrade: unable to negotiate protocol: client supports [{offered}], server accepts {list(known)}"
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body.encode())).encode())]
    headers += [(_ACCEPTED, each.encode()) for each in known]
    await request.send({"type": "http.response.start", "status": 403, "headers": headers})
    await request.send({"type": "http.response.body", "body": body.encode()})


# Streams of a command over SPDY, in the protocol ``v4.channel.k8s.io``.
#
# kubectl before 1.31 uses it for exec and attach, and kube-apiserver up to 1.35 towards kubelets. The client opens one
# stream of each kind, named in the header ``streamType``: always ``error``, and ``stdin``, ``stdout``, ``stderr`` and
# ``resize`` as its request announced. The last data on the error stream is the exit status, as on the error channel of
# a WebSocket (docs/spec/kubectl.md §6.2).

PROTOCOLS: Final = ("v4.channel.k8s.io",)
"""Stream protocols by preference; every kubectl since 1.4 offers this one."""
CREATION_SECONDS: Final = 30.0
"""Seconds in which the announced streams must be opened."""
_CLOSE_SECONDS: Final = 5.0
"""Seconds for the client to close the connection first; closing it here first could lose the last data."""
_MOST_EARLY: Final = 64
"""Maximum number of frames before all streams are open; clients send no data before that."""

_ERROR: Final = "error"
_STDIN: Final = "stdin"
_STDOUT: Final = "stdout"
_STDERR: Final = "stderr"
_RESIZE: Final = "resize"


class _CommandStreams(msgspec.Struct):
    """The streams of one command, by kind, and what arrived on them before all were there."""

    of: dict[str, int] = msgspec.field(default_factory=dict)
    early: list[StreamFrame] = msgspec.field(default_factory=list)


async def serve_spdy_command(
    channel: ByteChannel, wanted: AnnouncedStreams, start: Callable[[], Awaitable[ExecProcess]]
) -> None:
    """Start a command once its streams are open, and connect them until either ends; the command ends with them.

    A StatusError of ``start`` is sent on the error stream.
    """
    connection = SpdyConnection(channel)
    frames = connection.frames()
    with contextlib.suppress(OSError):  # the client has disconnected
        streams = await _opened(connection, frames, wanted.kinds)
        if streams is None:
            await channel.refuse()
            return
        try:
            process = await start()
        except StatusError as error:
            await _end(connection, streams, error.to_json())
        else:
            await _connect(connection, frames, streams, process)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await connection.wait_gone()


async def _opened(
    connection: SpdyConnection, frames: AsyncIterator[StreamFrame], kinds: frozenset[str]
) -> _CommandStreams | None:
    """Return the streams of ``kinds``; None if they do not come in time."""
    streams = _CommandStreams()
    try:
        async with asyncio.timeout(CREATION_SECONDS):
            while not kinds <= streams.of.keys():
                frame = await anext(frames)
                if isinstance(frame, OpenStream):
                    await _take(connection, frame, kinds, streams)
                elif len(streams.early) < _MOST_EARLY:
                    streams.early.append(frame)
    except (TimeoutError, StopAsyncIteration):
        return None
    return streams


async def _take(connection: SpdyConnection, frame: OpenStream, kinds: frozenset[str], streams: _CommandStreams) -> None:
    kind = next((value for name, value in frame.headers.items() if name.lower() == "streamtype"), "")
    if kind not in kinds or kind in streams.of:
        await connection.reset(frame.stream)
        return
    streams.of[kind] = frame.stream
    await connection.accept(frame.stream)


async def _connect(
    connection: SpdyConnection, frames: AsyncIterator[StreamFrame], streams: _CommandStreams, process: ExecProcess
) -> None:
    try:
        await first_of(_send_output(connection, streams, process), _take_input(frames, streams, process))
    finally:
        await process.close()


@until_gone
async def _send_output(connection: SpdyConnection, streams: _CommandStreams, process: ExecProcess) -> None:
    async for channel, data in process.output():
        stream = streams.of.get(_STDOUT if channel == STDOUT else _STDERR)
        if stream is not None:
            await connection.send(stream, data)
    await _end(connection, streams, exit_status(await process.wait()))


async def _end(connection: SpdyConnection, streams: _CommandStreams, status: Mapping[str, Any]) -> None:
    """Send the exit status, and end the streams."""
    await connection.send(streams.of[_ERROR], json.dumps(status).encode(), fin=True)
    for kind in (_STDOUT, _STDERR):
        if kind in streams.of:
            await connection.send(streams.of[kind], b"", fin=True)


@until_gone
async def _take_input(frames: AsyncIterator[StreamFrame], streams: _CommandStreams, process: ExecProcess) -> None:
    """Hand input to the command until the client is gone."""
    for frame in streams.early:
        await _hand_over(frame, streams, process)
    async for frame in frames:
        await _hand_over(frame, streams, process)


async def _hand_over(frame: StreamFrame, streams: _CommandStreams, process: ExecProcess) -> None:
    if not isinstance(frame, Data):
        return
    if frame.stream == streams.of.get(_STDIN):
        if frame.data:
            await process.write(frame.data)
        if frame.fin:
            await process.close_input()
    elif frame.stream == streams.of.get(_RESIZE):
        resize_terminal(process, frame.data)


_MOST: Final = 2**63 - 1
_MOST_PARAMETERS: Final = 1000
_TRUE: Final = frozenset({"true", "1"})


class NodeRequest(msgspec.Struct, frozen=True):
    """A request or WebSocket; ``parts`` are those of the path."""

    protocol: str
    """The scope's type: ``http`` or ``websocket``."""
    method: str
    path: str
    parts: tuple[str, ...]
    query: dict[str, list[str]]
    subprotocols: tuple[str, ...]
    """Sub-protocols that a WebSocket offers."""
    stream_protocols: tuple[str, ...]
    """Stream protocols that an upgrade request offers."""
    upgrade: Upgrade | None
    """Connection of a request to upgrade to SPDY; None for others."""
    receive: Receive
    send: Send

    @property
    def streams(self) -> bool:
        """Return True if it requests streams, as WebSocket or as upgrade."""
        return self.protocol == "websocket" or self.upgrade is not None

    def flag(self, *names: str) -> bool:
        """Return True if one of the parameters is set to true."""
        return any(self.query.get(name, [""])[0].lower() in _TRUE for name in names)

    def number(self, name: str, *, least: int) -> int:
        """Return a query parameter as a number.

        Raises:
            StatusError: 400, it is no number or out of range.
        """
        try:
            number = int(self.query[name][0])
        except ValueError as error:
            raise bad_request(f"{name} must be a number") from error
        if number < least:
            raise bad_request(f"{name} must be at least {least}")
        if number > _MOST:
            raise bad_request(f"{name} must be at most {_MOST}")
        return number


def parsed(scope: Scope, receive: Receive, send: Send) -> NodeRequest:
    """Return the request of an ASGI scope.

    Raises:
        StatusError: 400, its query cannot be read.
    """
    try:
        query = parse_qs(scope["query_string"].decode(), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError as error:
        raise bad_request(f"the query cannot be read: {error}") from error
    return NodeRequest(
        protocol=scope["type"],
        method=scope.get("method", "GET"),
        path=scope["path"],
        parts=tuple(scope["path"].removeprefix("/").split("/")),
        query=query,
        subprotocols=tuple(scope.get("subprotocols", ())),
        stream_protocols=_stream_protocols(scope),
        upgrade=scope.get("extensions", {}).get(UPGRADE),
        receive=receive,
        send=send,
    )


def _stream_protocols(scope: Scope) -> tuple[str, ...]:
    """Return the protocols that the client offers. The header may come once with a list, or several times."""
    offered = [value for name, value in scope["headers"] if name == b"x-stream-protocol-version"]
    return tuple(each.strip() for value in offered for each in value.decode("latin-1").split(",") if each.strip())
