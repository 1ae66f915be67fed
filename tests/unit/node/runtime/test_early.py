"""A runtime that is chosen before there is an agent."""

from __future__ import annotations

import asyncio
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cathedra.clock import SystemClock
from cathedra.node.config import NodeConfig
from cathedra.node.runtime.early import EarlyRuntime
from cathedra.node.runtime.runtime import UnusableRuntime
from cathedra.node.shim.client import connect
from tests.requirements import container_runtime


@pytest.fixture
def root() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="early-"))
    yield directory / "node"
    shutil.rmtree(directory, ignore_errors=True)


def config(root: Path, runtime: str) -> NodeConfig:
    return NodeConfig(name="n", root=root, runtime=runtime)


async def runs_a_shim(root: Path) -> bool:
    try:
        shim = await connect(root / "containers", lambda _: None)
    except OSError:
        return False
    await shim.connection.close()
    return True


async def test_an_agent_takes_the_runtime_that_was_asked_for_and_closing_leaves_it_alone(root: Path) -> None:
    early = EarlyRuntime(config(root, "process"), SystemClock())
    chosen = await early.take()
    await chosen.runtime.open(lambda _: None)
    await early.close()
    assert chosen.runtime.name == "process"
    assert await runs_a_shim(root)
    await chosen.runtime.close(stop_containers=True)


async def test_directories_with_secrets_are_closed_to_others_before_anything_starts(root: Path) -> None:
    (root / "pods").mkdir(parents=True, mode=0o755)
    early = EarlyRuntime(config(root, "process"), SystemClock())
    assert {stat.S_IMODE((root / name).stat().st_mode) for name in ("pods", "containers", "pki")} == {0o700}
    await early.close()


async def test_a_runtime_that_no_agent_takes_leaves_no_shim(root: Path) -> None:
    container_runtime("crun")
    early = EarlyRuntime(config(root, "crun"), SystemClock())
    for _ in range(10_000):
        if await runs_a_shim(root):
            break
        await asyncio.sleep(0.001)
    await early.close()
    assert not await runs_a_shim(root)


async def test_one_that_has_been_chosen_and_is_not_taken_leaves_no_shim_either(root: Path) -> None:
    container_runtime("crun")
    early = EarlyRuntime(config(root, "crun"), SystemClock())
    await asyncio.wait([task for task in asyncio.all_tasks() if task.get_name() == "runtime of n"])
    await early.close()
    assert not await runs_a_shim(root)


async def test_a_runtime_that_was_asked_for_and_is_not_there_is_told_to_who_takes_it(root: Path) -> None:
    early = EarlyRuntime(config(root, "no-such-runtime"), SystemClock())
    with pytest.raises(UnusableRuntime, match="no-such-runtime"):
        await early.take()
    await early.close()
