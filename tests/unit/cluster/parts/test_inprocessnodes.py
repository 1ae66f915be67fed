"""A node of this process that is started again after a failure."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cathedra.clock import LoopClock
from cathedra.cluster.parts.inprocessnodes import SupervisedNode
from cathedra.node.claims.checkpoint import CorruptCheckpoint
from cathedra.node.runtime.runtime import UnusableRuntime
from tests.running import on_virtual_clock


class Node:
    """A node that fails at once with ``error``, or gets ready."""

    agent: Any = None
    devices: Any = {}

    def __init__(self, error: BaseException | None) -> None:
        self.error = error
        self.ready = asyncio.Event()

    async def run(self) -> None:
        if self.error is not None:
            raise ExceptionGroup("the node's tasks", [self.error])  # type: ignore[list-item]
        self.ready.set()
        await asyncio.get_running_loop().create_future()

    async def wait_ready(self) -> None:
        await self.ready.wait()


class Nodes:
    """Makes a node for each attempt."""

    def __init__(self, *errors: BaseException | None) -> None:
        self.errors = list(errors)
        self.made = 0

    def __call__(self) -> Node:
        self.made += 1
        return Node(self.errors.pop(0) if self.errors else None)


async def settled(nodes: Nodes) -> tuple[SupervisedNode, asyncio.Task[None]]:
    supervised = SupervisedNode("n", nodes, LoopClock(asyncio.get_running_loop()))
    task = asyncio.ensure_future(supervised.run())
    await supervised.wait_settled()
    return supervised, task


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@on_virtual_clock
async def test_a_node_that_fails_is_made_and_run_again_until_it_runs(*, caplog: pytest.LogCaptureFixture) -> None:
    nodes = Nodes(*[CorruptCheckpoint("remove DRA state file /x")] * 3)
    supervised, task = await settled(nodes)
    assert supervised.failure == "remove DRA state file /x"
    assert "node n failed and starts again in 1 s: remove DRA state file /x" in caplog.text
    assert "Traceback" not in caplog.text
    await asyncio.sleep(1 + 2 + 4 + 1)
    assert (nodes.made, supervised.failure, task.done()) == (4, "", False)
    await ended(task)


@on_virtual_clock
async def test_a_fault_of_the_program_is_logged_with_its_traceback(*, caplog: pytest.LogCaptureFixture) -> None:
    _, task = await settled(Nodes(ValueError("a fault")))
    assert "ValueError: a fault" in caplog.text
    await ended(task)


@on_virtual_clock
async def test_an_option_that_cannot_be_met_ends_the_run() -> None:
    supervised = SupervisedNode(
        "n", Nodes(UnusableRuntime("oci", "crun is not installed")), LoopClock(asyncio.get_running_loop())
    )
    with pytest.raises(UnusableRuntime, match="crun is not installed"):
        await supervised.run()


@on_virtual_clock
async def test_a_node_that_runs_is_waited_for_and_then_settled() -> None:
    nodes = Nodes()
    supervised, task = await settled(nodes)
    assert supervised.failure == ""
    await asyncio.sleep(3600)
    assert nodes.made == 1
    await ended(task)
