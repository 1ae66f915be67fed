"""A command's streams over SPDY: a stand-in for kubectl that speaks the frames."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from cathedra.api.status import internal_error
from cathedra.node.runtime.runtime import ExecProcess
from cathedra.node.server import streams
from cathedra.node.server.remotecommand import AnnouncedStreams
from cathedra.node.server.streams import serve_spdy_command
from cathedra.node.spdy import Data, Frame, FrameReader, OpenStream, Reset, Writer
from tests.running import beside
from tests.unit.node.server.echo import Echo

ALL = AnnouncedStreams(stdin=True, stdout=True, stderr=True)
KINDS = ("error", "stdin", "stdout", "stderr")


class Channel:
    """Both ends of a connection; the client's is `to_server` and `from_server`."""

    def __init__(self) -> None:
        self.to_server: asyncio.Queue[bytes] = asyncio.Queue()
        self.from_server: asyncio.Queue[bytes] = asyncio.Queue()
        self.refused = False
        self.gone = False
        self.broken = False

    async def pieces(self) -> AsyncIterator[bytes]:
        while not self.gone:
            piece = await self.to_server.get()
            self.gone = not piece
            if piece:
                yield piece

    async def put(self, data: bytes) -> None:
        if self.broken:
            raise BrokenPipeError
        self.from_server.put_nowait(data)

    async def refuse(self) -> None:
        self.refused = True


class Kubectl:
    """The client's frames, and what has come back by stream."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.writer = Writer()
        self.streams: dict[str, int] = {}
        self._reader = FrameReader()

    def open(self, *kinds: str) -> None:
        for kind in kinds:
            self.streams[kind] = 2 * len(self.streams) + 1
            self.channel.to_server.put_nowait(self.writer.open(self.streams[kind], {"streamType": kind}))

    def send(self, kind: str, data: bytes, *, fin: bool = False) -> None:
        for frame in self.writer.data(self.streams[kind], data, fin=fin):
            self.channel.to_server.put_nowait(frame)

    def hang_up(self) -> None:
        self.channel.to_server.put_nowait(b"")

    async def until(self, done: Callable[[Frame], bool]) -> list[Frame]:
        seen: list[Frame] = []
        while not (seen and done(seen[-1])):
            seen += self._reader.feed(await self.channel.from_server.get())
        return seen

    async def outcome(self, *kinds: str) -> dict[str, bytes]:
        """Return the data of each of ``kinds`` until all of them ended."""
        names = {number: kind for kind, number in self.streams.items()}
        said, open_kinds = dict.fromkeys(kinds, b""), set(kinds)
        while open_kinds:
            for frame in self._reader.feed(await self.channel.from_server.get()):
                if isinstance(frame, Data):
                    said[names[frame.stream]] += frame.data
                    if frame.fin:
                        open_kinds.discard(names[frame.stream])
        return said


@asynccontextmanager
async def serving(
    wanted: AnnouncedStreams, start: Callable[[], Awaitable[ExecProcess]]
) -> AsyncIterator[tuple[Kubectl, asyncio.Task[None]]]:
    channel = Channel()
    async with beside(serve_spdy_command(channel, wanted, start)) as task:
        async with asyncio.timeout(120):
            yield Kubectl(channel), task


def starting(program: Echo) -> Callable[[], Awaitable[ExecProcess]]:
    async def start() -> ExecProcess:
        return program

    return start


async def test_input_and_both_outputs_have_a_stream_each_and_the_last_word_is_the_exit_code() -> None:
    program = Echo(code=3, loud=True)
    async with serving(ALL, starting(program)) as (kubectl, task):
        kubectl.open(*KINDS)
        kubectl.send("stdin", b"hello")
        kubectl.send("stdin", b"", fin=True)
        said = await kubectl.outcome("error", "stdout", "stderr")
        kubectl.hang_up()
        await task
    assert (said["stdout"], said["stderr"]) == (b"hello", b"HELLO")
    status = json.loads(said["error"])
    assert (status["reason"], status["details"]["causes"][0]["message"]) == ("NonZeroExitCode", "3")
    assert program.closed


async def test_nothing_runs_before_every_announced_stream_is_open() -> None:
    started = asyncio.Event()

    async def start() -> ExecProcess:
        started.set()
        return Echo(loud=True)

    async with serving(ALL, start) as (kubectl, _):
        kubectl.open(*KINDS[:-1])
        kubectl.send("stdin", b"early")
        await asyncio.sleep(0)
        assert not started.is_set()
        kubectl.open(KINDS[-1])
        kubectl.send("stdin", b"", fin=True)
        assert (await kubectl.outcome("error", "stdout", "stderr"))["stdout"] == b"early"


async def test_a_terminal_has_a_size_and_no_second_output() -> None:
    assert AnnouncedStreams(stdout=True, stderr=True, tty=True).kinds == {"error", "stdout", "resize"}
    program = Echo(loud=True)
    async with serving(AnnouncedStreams(stdin=True, stdout=True, tty=True), starting(program)) as (kubectl, _):
        kubectl.open("error", "stdin", "stdout", "resize")
        kubectl.send("resize", b'{"Width":80,"Height":24}')
        kubectl.send("stdin", b"x", fin=True)
        await kubectl.outcome("error", "stdout")
    assert program.sizes == [(80, 24)]


async def test_why_a_command_did_not_start_is_said_on_the_error_stream() -> None:
    async def start() -> ExecProcess:
        raise internal_error("no such thing")

    async with serving(ALL, start) as (kubectl, _):
        kubectl.open(*KINDS)
        said = await kubectl.outcome("error", "stdout", "stderr")
    status = json.loads(said["error"])
    assert (status["status"], status["message"]) == ("Failure", "Internal error occurred: no such thing")


async def test_a_stream_that_was_not_announced_is_reset() -> None:
    async with serving(AnnouncedStreams(stdout=True), starting(Echo(loud=True))) as (kubectl, _):
        kubectl.open("stdin")
        seen = await kubectl.until(lambda frame: isinstance(frame, Reset))
        assert seen[-1] == Reset(kubectl.streams["stdin"])


async def test_a_client_that_opens_no_streams_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "CREATION_SECONDS", 0.01)
    async with serving(ALL, starting(Echo(loud=True))) as (kubectl, task):
        await task
    assert kubectl.channel.refused


async def test_a_client_that_goes_away_takes_its_command_along() -> None:
    program = Echo(loud=True)
    async with serving(ALL, starting(program)) as (kubectl, task):
        kubectl.open(*KINDS)
        kubectl.hang_up()
        await task
    assert program.closed


async def test_a_connection_that_breaks_ends_the_command_quietly() -> None:
    program = Echo(loud=True)
    async with serving(ALL, starting(program)) as (kubectl, task):
        kubectl.open(*KINDS)
        kubectl.send("stdin", b"x")
        await kubectl.until(lambda frame: isinstance(frame, Data))
        kubectl.channel.broken = True
        kubectl.send("stdin", b"y", fin=True)
        kubectl.hang_up()
        await task
    assert program.closed


async def test_bytes_that_are_no_frames_end_the_connection() -> None:
    async with serving(ALL, starting(Echo(loud=True))) as (kubectl, task):
        kubectl.channel.to_server.put_nowait(b"\x80\x02" + bytes(20))
        await task
    assert kubectl.channel.refused


def test_the_frames_of_a_client_are_the_servers() -> None:
    opened = next(FrameReader().feed(Writer().open(1, {"streamType": "error"})))
    assert opened == OpenStream(1, {"streamType": "error"}, fin=False)
