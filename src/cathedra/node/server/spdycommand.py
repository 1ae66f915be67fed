"""Streams of a command over SPDY, in the protocol ``v4.channel.k8s.io``.

kubectl before 1.31 uses it for exec and attach, and kube-apiserver up to 1.35 towards kubelets. The client opens one
stream of each kind, named in the header ``streamType``: always ``error``, and ``stdin``, ``stdout``, ``stderr`` and
``resize`` as its request announced. The last data on the error stream is the exit status, as on the error channel of a
WebSocket (docs/spec/kubectl.md §6.2).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from cathedra.api.status import StatusError
from cathedra.node.concurrency import first_of, until_gone
from cathedra.node.runtime.runtime import STDOUT, ExecProcess
from cathedra.node.server.bytechannel import ByteChannel, SpdyConnection, StreamFrame
from cathedra.node.server.remotecommand import AnnouncedStreams, exit_status, resize_terminal
from cathedra.node.spdy import Data, OpenStream

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


class _Streams(msgspec.Struct):
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
) -> _Streams | None:
    """The streams of ``kinds``; None if they do not come."""
    streams = _Streams()
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


async def _take(connection: SpdyConnection, frame: OpenStream, kinds: frozenset[str], streams: _Streams) -> None:
    kind = next((value for name, value in frame.headers.items() if name.lower() == "streamtype"), "")
    if kind not in kinds or kind in streams.of:
        await connection.reset(frame.stream)
        return
    streams.of[kind] = frame.stream
    await connection.accept(frame.stream)


async def _connect(
    connection: SpdyConnection, frames: AsyncIterator[StreamFrame], streams: _Streams, process: ExecProcess
) -> None:
    try:
        await first_of(_send_output(connection, streams, process), _take_input(frames, streams, process))
    finally:
        await process.close()


@until_gone
async def _send_output(connection: SpdyConnection, streams: _Streams, process: ExecProcess) -> None:
    async for channel, data in process.output():
        stream = streams.of.get(_STDOUT if channel == STDOUT else _STDERR)
        if stream is not None:
            await connection.send(stream, data)
    await _end(connection, streams, exit_status(await process.wait()))


async def _end(connection: SpdyConnection, streams: _Streams, status: Mapping[str, Any]) -> None:
    """Send the exit status, and end the streams."""
    await connection.send(streams.of[_ERROR], json.dumps(status).encode(), fin=True)
    for kind in (_STDOUT, _STDERR):
        if kind in streams.of:
            await connection.send(streams.of[kind], b"", fin=True)


@until_gone
async def _take_input(frames: AsyncIterator[StreamFrame], streams: _Streams, process: ExecProcess) -> None:
    """Hand input to the command until the client is gone."""
    for frame in streams.early:
        await _hand_over(frame, streams, process)
    async for frame in frames:
        await _hand_over(frame, streams, process)


async def _hand_over(frame: StreamFrame, streams: _Streams, process: ExecProcess) -> None:
    if not isinstance(frame, Data):
        return
    if frame.stream == streams.of.get(_STDIN):
        if frame.data:
            await process.write(frame.data)
        if frame.fin:
            await process.close_input()
    elif frame.stream == streams.of.get(_RESIZE):
        resize_terminal(process, frame.data)
