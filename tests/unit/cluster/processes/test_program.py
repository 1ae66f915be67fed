"""What every child does, by a child of its own kind and by hand."""

from __future__ import annotations

import asyncio
import socket
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.parts.foundation import Served
from cathedra.cluster.processes.channel import ParentLine, write_order
from cathedra.cluster.processes.order import APISERVER, Order
from cathedra.cluster.processes.program import STOPPED_EARLY, while_stored

PROGRAM = textwrap.dedent(
    """
    import sys
    from cathedra.cluster.processes.program import run_child

    async def work(order, line, inherited):
        line.say(f"{order.parts[0]} with {sorted(inherited)}")
        if order.nodes:
            raise ExceptionGroup("parts", [ValueError("no such device")])
        await line.answer({})

    sys.exit(run_child(sys.argv[1:], work))
    """
)


def order(folder: Path, *nodes: str) -> Order:
    return Order(
        parts=(APISERVER,),
        config=ClusterConfig(data_dir=folder),
        nodes=nodes,
        served=Served("127.0.0.1", 6443, True, ()),
        socket=folder / "api.sock",
        tokens={},
        log_level="info",
        log_format="text",
    )


async def life(given: Order | None) -> tuple[list[str], ParentLine, int]:
    """What a child says that gets that order, its line, and its exit code."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    words = (sys.executable, "-c", PROGRAM, f"line={theirs.fileno()}")
    process = await asyncio.create_subprocess_exec(*words, pass_fds=(theirs.fileno(),))
    theirs.close()
    said: list[str] = []
    line = ParentLine(reader, writer, say=said.append)
    if given is not None:
        write_order(writer, given.written())
    writer.write_eof()
    await line.listen()
    return said, line, await process.wait()


async def test_a_child_works_with_what_it_inherits_until_its_parent_has_gone(tmp_path: Path) -> None:
    said, line, code = await life(order(tmp_path))
    assert said == ["apiserver with ['line']"]
    assert line.failure is None
    assert code == 0


async def test_a_child_tells_what_it_failed_with(tmp_path: Path) -> None:
    _, line, code = await life(order(tmp_path, "node-0"))
    assert repr(line.failure) == "ValueError('no such device')"
    assert code == STOPPED_EARLY


async def test_a_child_that_is_never_told_anything_ends() -> None:
    said, line, code = await life(None)
    assert (said, line.failure, code) == ([], None, STOPPED_EARLY)


class Primary:
    """A primary that goes when it is told to."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    async def lost(self) -> None:
        await self.gone.wait()


async def test_work_ends_with_the_primary_or_by_itself() -> None:
    ended: list[str] = []

    async def work(seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
        finally:
            ended.append("work")

    primary: Any = Primary()
    await while_stored(work(0), primary)
    working = asyncio.create_task(while_stored(work(3600), primary))
    await asyncio.sleep(0)
    primary.gone.set()
    await working
    await while_stored(work(0), None)
    assert ended == ["work"] * 3


async def test_what_work_fails_with_is_told() -> None:
    async def work() -> None:
        raise ValueError("no such device")

    with pytest.raises(ValueError, match="no such device"):
        await while_stored(work(), None)
