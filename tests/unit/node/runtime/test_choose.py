"""Finding out which container runtime works on this machine."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from cathedra.clock import SystemClock
from cathedra.node.config import NodeConfig
from cathedra.node.runtime.choose import ContainerHome, EarlyRuntime, choose_runtime
from cathedra.node.runtime.process import MISSING
from cathedra.node.runtime.runtime import UnusableRuntime
from cathedra.node.shim.client import connect
from tests.requirements import container_runtime
from tests.unit.node.runtime.cri.fakecri import FakeCRI, serving


@pytest.fixture
def place() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="choose-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


async def test_without_candidates_containers_are_processes_and_what_is_missing_is_said(place: Path) -> None:
    chosen = await choose_runtime(ContainerHome(place / "containers"), clock=SystemClock(), candidates=())
    assert chosen.runtime.name == "process"
    assert chosen.missing.startswith(MISSING)
    assert chosen.missing.endswith(("(as requested)", "(not root)"))


async def test_a_runtime_that_is_not_there_is_passed_over(place: Path) -> None:
    chosen = await choose_runtime(
        ContainerHome(place / "containers"), clock=SystemClock(), candidates=("no-such-runtime",)
    )
    assert chosen.runtime.name == "process"
    assert "no no-such-runtime here" in chosen.missing or "not root" in chosen.missing


async def test_a_probe_that_was_interrupted_earlier_does_no_harm(place: Path) -> None:
    container_runtime("crun")
    stale = place / "containers-probe-1"
    stale.mkdir()
    chosen = await choose_runtime(ContainerHome(place / "containers"), clock=SystemClock(), candidates=("crun",))
    assert (chosen.runtime.name, chosen.missing) == ("crun", "")
    assert not stale.exists()
    assert [name for name in os.listdir(place) if "-probe-" in name] == []


async def test_the_container_of_an_interrupted_probe_does_not_make_a_runtime_useless(place: Path) -> None:
    """The program refuses a container whose name it has already."""
    container_runtime("crun")
    (place / "containers" / "runtime" / "probe").mkdir(parents=True)
    chosen = await choose_runtime(ContainerHome(place / "containers"), clock=SystemClock(), candidates=("crun",))
    assert (chosen.runtime.name, chosen.missing) == ("crun", "")


async def test_a_runtime_that_answers_at_a_named_socket_comes_first(place: Path) -> None:
    async with serving(FakeCRI(name="cri-o"), place / "cri.sock") as socket:
        sockets = (str(place / "none.sock"), f"unix://{socket}")
        chosen = await choose_runtime(
            ContainerHome(place / "containers"), clock=SystemClock(), candidates=(), sockets=sockets
        )
        assert (chosen.runtime.name, chosen.missing) == ("cri-o", "")
        await chosen.runtime.close(stop_containers=False)


async def test_without_an_answer_it_is_told_why(place: Path) -> None:
    fake = FakeCRI()
    fake.failures["Version"] = (grpc.StatusCode.UNIMPLEMENTED, "unknown service runtime.v1.RuntimeService")
    async with serving(fake, place / "cri.sock") as socket:
        chosen = await choose_runtime(
            ContainerHome(place / "containers"), clock=SystemClock(), candidates=(), sockets=(socket,)
        )
    assert chosen.runtime.name == "process"
    assert chosen.why == f"no container runtime answers at {socket}: unknown service runtime.v1.RuntimeService"


async def test_a_runtime_that_is_starting_is_waited_for(place: Path) -> None:
    fake = FakeCRI()
    fake.failures["Version"] = (grpc.StatusCode.UNKNOWN, "server is not initialized yet")
    async with serving(fake, place / "cri.sock") as socket:
        chosen = await choose_runtime(
            ContainerHome(place / "containers"), clock=SystemClock(), candidates=(), sockets=(socket,)
        )
        assert chosen.runtime.name == "containerd"
        await chosen.runtime.close(stop_containers=False)


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
