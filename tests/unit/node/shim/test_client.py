"""Connecting to a shim, and starting one where none runs."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cathedra.node.shim import client
from cathedra.node.shim.client import ShimListing, ShimOptions, connect, connect_or_launch
from cathedra.node.shim.protocol import PROTOCOL, IncompatibleShim, ShimLost


@asynccontextmanager
async def answering(directory: Path, name: str = "shim.sock", **answer: Any) -> AsyncIterator[None]:
    """A shim that returns ``answer`` to every request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(json.dumps({"tag": json.loads(line)["tag"], **answer}).encode() + b"\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(serve, directory / name)
    try:
        yield
    finally:
        server.close()


def options(directory: Path) -> ShimOptions:
    return ShimOptions(directory, 1.0, "")


def no_exit(container: dict[str, Any]) -> None:
    raise AssertionError("no container ends here")


async def test_a_shim_says_first_who_it_is_and_what_it_holds(tmp_path: Path) -> None:
    async with answering(tmp_path, protocol=PROTOCOL, pid=7, containers=[{"id": "a"}]):
        found = await connect(tmp_path, no_exit)
        assert (found.pid, found.containers) == (7, ({"id": "a"},))
        await found.connection.close()


async def test_a_shim_of_another_version_is_refused(tmp_path: Path) -> None:
    async with answering(tmp_path, protocol=PROTOCOL + 1, pid=7, containers=[]):
        with pytest.raises(IncompatibleShim) as raised:
            await connect_or_launch(options(tmp_path), no_exit)
    assert (raised.value.found, raised.value.pid) == (str(PROTOCOL + 1), 7)


async def test_a_shim_from_before_protocols_had_numbers_is_refused(tmp_path: Path) -> None:
    async with answering(tmp_path, "keeper.sock"):
        with pytest.raises(IncompatibleShim) as raised:
            await connect_or_launch(options(tmp_path), no_exit)
    assert raised.value.found == "0"


def launching(monkeypatch: pytest.MonkeyPatch, launch: Callable[[ShimOptions], Any]) -> list[ShimOptions]:
    launched: list[ShimOptions] = []

    async def replaced(wanted: ShimOptions) -> None:
        launched.append(wanted)
        await launch(wanted)

    monkeypatch.setattr(client, "_launch", replaced)
    return launched


async def test_where_none_runs_one_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "made" / "for it"
    running: list[Any] = []

    async def launch(wanted: ShimOptions) -> None:
        server = answering(wanted.directory, protocol=PROTOCOL, pid=7, containers=[])
        await server.__aenter__()
        running.append(server)

    launched = launching(monkeypatch, launch)
    found = await connect_or_launch(options(directory), no_exit)
    assert isinstance(found, ShimListing)
    assert launched == [options(directory)]
    assert directory.stat().st_mode & 0o777 == 0o700
    await found.connection.close()
    await running[0].__aexit__(None, None, None)


async def test_a_socket_that_is_left_of_one_that_has_ended_is_no_shim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with answering(tmp_path, "keeper.sock"):
        pass
    (tmp_path / "keeper.sock").touch()

    async def nothing(wanted: ShimOptions) -> None:
        return

    launched = launching(monkeypatch, nothing)
    with pytest.raises(ShimLost, match="no container shim in "):
        await connect_or_launch(options(tmp_path), no_exit)
    assert len(launched) == 2, "one that is lost while it starts is replaced"


async def test_a_shim_that_cannot_start_says_why(tmp_path: Path) -> None:
    directory = tmp_path / "c"
    directory.mkdir()
    (directory / "shim.lock").mkdir()
    with pytest.raises(ShimLost, match=r"the container shim ended with code 1: .*shim.lock"):
        await connect_or_launch(options(directory), no_exit)


@pytest.mark.parametrize("file", ["", "shim.log", "shim.lock", "shim.sock", "shim.json"])
async def test_a_start_that_is_cancelled_leaves_no_shim(tmp_path: Path, file: str) -> None:
    starting = asyncio.create_task(connect_or_launch(options(tmp_path), no_exit))
    while not (tmp_path / file).exists():  # noqa: ASYNC110 - files do not set events
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    with (tmp_path / "shim.lock").open("a") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)  # which it holds until it has ended
    assert not (tmp_path / "shim.sock").exists()


async def test_a_shim_that_holds_containers_is_left_to_the_next_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    launching_now = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            asked.append((request := json.loads(line))["do"])
            answer = {"tag": request["tag"], "protocol": PROTOCOL, "pid": 7, "containers": [{"id": "a"}]}
            writer.write(json.dumps(answer).encode() + b"\n")
        writer.close()

    async def launch(wanted: ShimOptions) -> None:
        launching_now.set()
        await asyncio.sleep(0)
        servers.append(await asyncio.start_unix_server(serve, wanted.directory / "shim.sock"))

    servers: list[asyncio.Server] = []
    launching(monkeypatch, launch)
    starting = asyncio.create_task(connect_or_launch(options(tmp_path), no_exit))
    await launching_now.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert asked == ["list"]
    servers[0].close()


Play = Callable[[dict[str, Any], asyncio.StreamWriter], None]


class PlayedShim:
    """A shim whose answers a test decides; ``list`` is answered as a shim does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.protocol: int | None = PROTOCOL
        self.play: Play = lambda request, writer: None
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        while line := await reader.readline():
            request = json.loads(line)
            if request["do"] == "list":
                hello = {"tag": request["tag"], "containers": [], "pid": 4711}
                self.send(writer, hello if self.protocol is None else hello | {"protocol": self.protocol})
            else:
                self.play(request, writer)
        writer.close()

    def send(self, writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
        writer.write(json.dumps(message).encode() + b"\n")


@pytest.fixture
async def shim() -> AsyncIterator[PlayedShim]:
    with tempfile.TemporaryDirectory(prefix="shim-") as directory:
        played = PlayedShim(Path(directory))
        server = await asyncio.start_unix_server(played.serve, os.path.join(directory, "shim.sock"))
        yield played
        server.close()
        for writer in played.writers:
            writer.close()


async def test_answers_find_their_requests_in_any_order(shim: PlayedShim) -> None:
    waiting: list[dict[str, Any]] = []

    def play(request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        waiting.append(request)
        if len(waiting) == 2:
            for each in reversed(waiting):
                shim.send(writer, {"tag": each["tag"], "echo": each["id"]})

    shim.play = play
    connection = (await connect(shim.directory, lambda _: None)).connection
    answers = await asyncio.gather(*(connection.call({"do": "signal", "id": name}) for name in "ab"))
    assert [answer["echo"] for answer in answers] == ["a", "b"]
    await connection.close()


async def test_ends_and_output_are_handed_on_also_when_they_come_in_pieces(shim: PlayedShim) -> None:
    ended: list[str] = []
    output: list[tuple[str, bytes]] = []
    arrived = asyncio.Event()

    def play(request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        shim.send(writer, {"tag": request["tag"]})
        data = base64.b64encode(b"hello").decode()
        shim.send(writer, {"output": "c", "stream": "stdout", "data": data})
        whole = json.dumps({"exited": {"id": "c"}}).encode() + b"\n"
        writer.write(whole[:7])
        asyncio.get_running_loop().call_later(0.02, writer.write, whole[7:])

    def on_exit(container: dict[str, Any]) -> None:
        ended.append(container["id"])
        arrived.set()

    shim.play = play
    connection = (await connect(shim.directory, on_exit)).connection
    assert await connection.attach("c", lambda stream, data: output.append((stream, data))) == ""
    async with asyncio.timeout(120):
        await arrived.wait()
    assert (output, ended) == ([("stdout", b"hello")], ["c"])
    await connection.close()
    assert output[-1] == ("", b""), "its end is the end of all output"


async def test_a_lost_shim_fails_what_waits_and_what_is_asked_afterwards(shim: PlayedShim) -> None:
    shim.play = lambda request, writer: writer.close()
    connection = (await connect(shim.directory, lambda _: None)).connection
    with pytest.raises(ShimLost):
        await connection.call({"do": "remove", "id": "c"})
    await connection.wait_lost()
    assert connection.lost
    with pytest.raises(ShimLost):
        await connection.call({"do": "remove", "id": "c"})
    connection.send({"do": "resize", "id": "c"})


async def test_what_is_no_message_ends_the_connection(shim: PlayedShim) -> None:
    shim.play = lambda request, writer: writer.write(b"{nonsense\n")
    connection = (await connect(shim.directory, lambda _: None)).connection
    with pytest.raises(ShimLost):
        await connection.call({"do": "remove", "id": "c"})
    assert connection.lost


@pytest.mark.parametrize("protocol", [None, PROTOCOL + 1])
async def test_a_shim_of_another_protocol_is_refused(shim: PlayedShim, protocol: int | None) -> None:
    shim.protocol = protocol
    with pytest.raises(IncompatibleShim, match=f"speaks protocol {protocol}, and this agent speaks {PROTOCOL}") as said:
        await connect(shim.directory, lambda _: None)
    assert "`kill 4711`" in str(said.value)


async def test_where_no_shim_runs_there_is_no_connection(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        await connect(tmp_path, lambda _: None)
