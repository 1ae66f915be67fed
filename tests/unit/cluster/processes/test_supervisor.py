"""Children that fail, end and come back, seen from the process that supervises them."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cathedra.clock import SystemClock
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.parts.foundation import Served
from cathedra.cluster.processes.order import APISERVER, LAYOUTS, Layout
from cathedra.cluster.processes.supervisor import ChildEnded, Supervisor
from tests.unit.cluster.processes import scripted_child

SERVED = Served("127.0.0.1", 6443, True, ())


class Impatient(SystemClock):
    """A clock that notes how long was to be waited, and waits no longer."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class Case:
    """A supervisor of one child, and what is heard of it."""

    def __init__(self, folder: Path, lives: tuple[str, ...], layout: Layout = LAYOUTS[2]) -> None:
        (folder / "plan").write_text("\n".join(lives))
        config = ClusterConfig(data_dir=folder, nodes=1, processes=2)
        self.clock = Impatient()
        self.said: list[str] = []
        self.stores: list[socket.socket] = []
        self.dealt: asyncio.Queue[socket.socket] = asyncio.Queue()
        program = (sys.executable, scripted_child.__file__, str(folder))
        self.children = Supervisor(config, layout, clock=self.clock, say=self.said.append, program=program)

    async def serve_replica(self, connected: socket.socket) -> None:
        self.stores.append(connected)

    def deal_to(self, line: socket.socket) -> None:
        self.dealt.put_nowait(line)


@asynccontextmanager
async def running(folder: Path, *lives: str, layout: Layout = LAYOUTS[2]) -> AsyncIterator[Case]:
    case = Case(folder, lives, layout)
    await case.children.launch()
    task = asyncio.create_task(case.children.run(SERVED, case))
    try:
        await case.children.wait_ready()
        yield case
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def outcome(folder: Path, life: str) -> BaseException:
    """What a cluster ends with whose child has that life."""
    case = Case(folder, (life,))
    await case.children.launch()
    with pytest.raises(ExceptionGroup) as raised:
        await case.children.run(SERVED, case)
    (error,) = raised.value.exceptions
    return error


async def test_a_child_that_fails_at_the_start_ends_the_cluster_with_its_error(tmp_path: Path) -> None:
    error = await outcome(tmp_path, "fails")
    assert isinstance(error, ValueError)
    assert str(error) == "no such device"
    assert error.__notes__ == ["where it happened"]


async def test_a_child_that_is_killed_at_the_start_ends_the_cluster_which_says_how(tmp_path: Path) -> None:
    error = await outcome(tmp_path, "is killed")
    assert isinstance(error, ChildEnded)
    assert str(error) == "the process of scheduler, nodes was ended by SIGKILL"


async def test_a_child_that_ends_later_is_started_again_after_a_pause(tmp_path: Path) -> None:
    async with running(tmp_path, "ends later", "second life") as case:
        assert await case.children.summary() == "ends later"
        await case.children.silence("node-0")
        assert await case.children.summary() == "second life"
        (said,) = case.said
        assert said.startswith("the process of scheduler, nodes (")
        assert said.endswith(") ended with code 3; it is started again")
        assert len(case.clock.slept) == 1
        assert 0 < case.clock.slept[0] <= 1
        assert not case.children.has("node-0")
        assert len(case.stores) == 2, "each life has a line to the store of its own"
        for store in case.stores:
            store.close()


async def test_what_pods_use_is_what_the_child_of_their_node_says(tmp_path: Path) -> None:
    async with running(tmp_path, "answers") as case:
        assert await case.children.usage("node-0") == "answers node-0"
        assert case.children.has("node-0")
        with pytest.raises(KeyError, match="node-7"):
            await case.children.silence("node-7")


async def test_children_that_were_never_told_anything_end(tmp_path: Path) -> None:
    case = Case(tmp_path, ())
    await case.children.launch()
    await case.children.stop()
    assert (tmp_path / "never-told").exists()


async def test_an_api_server_is_dealt_connections_once_it_is_ready_and_again_in_each_life(tmp_path: Path) -> None:
    async with running(tmp_path, "ends later", "second life", layout=((APISERVER,),)) as case:
        first = await case.dealt.get()
        assert await case.children.ask_all("summary") == ["ends later"]
        assert await case.children.ask_all("silence") == [], "who has gone meanwhile says nothing"
        second = await case.dealt.get()
        assert await case.children.ask_all("summary") == ["second life"]
        (said,) = case.said
        assert said.startswith("the process of apiserver (")
        for line in (first, second, *case.stores):
            line.close()
