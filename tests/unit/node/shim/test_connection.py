"""The agent's end of the line: answers, ends of containers, output, and the news that the shim is gone."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from cathedra.node.shim.client import connect
from cathedra.node.shim.errors import IncompatibleShim, ShimLost
from cathedra.node.shim.protocol import PROTOCOL

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
    answers = await asyncio.gather(*(connection.ask({"do": "signal", "id": name}) for name in "ab"))
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
        await connection.ask({"do": "remove", "id": "c"})
    await connection.wait_lost()
    assert connection.lost
    with pytest.raises(ShimLost):
        await connection.ask({"do": "remove", "id": "c"})
    connection.tell({"do": "resize", "id": "c"})


async def test_what_is_no_message_ends_the_connection(shim: PlayedShim) -> None:
    shim.play = lambda request, writer: writer.write(b"{nonsense\n")
    connection = (await connect(shim.directory, lambda _: None)).connection
    with pytest.raises(ShimLost):
        await connection.ask({"do": "remove", "id": "c"})
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
