"""Containers that are held by a shim which is killed: what was running is reported, and requests wait for the next."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from cathedra.clock import SystemClock
from cathedra.node.runtime import hosted
from cathedra.node.runtime.attached import MOST_WAITING
from cathedra.node.runtime.hosted import HostedRuntime
from cathedra.node.runtime.process import ProcessLauncher
from cathedra.node.runtime.runtime import (
    LOST_MESSAGE,
    LOST_REASON,
    ContainerRun,
    ContainerSpec,
    ExecProcess,
    PodIdentity,
    RuntimeFailure,
)
from cathedra.node.shim.client import ShimConnection, ShimListing, ShimOptions, connect_or_launch
from cathedra.node.shim.processes import has_variable, matching, process_session


class Held:
    """A runtime of processes, what it has reported, and its shim."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.runtime = HostedRuntime(ProcessLauncher(()), directory / "containers", clock=SystemClock())
        self.ended: list[ContainerRun] = []

    @property
    def shim_pid(self) -> int:
        assert self.runtime._shim is not None
        return self.runtime._shim.pid

    def spec(self, name: str, *command: str) -> ContainerSpec:
        identity = PodIdentity("default", "p", "uid")
        log = str(self.directory / f"{name}.log")
        return ContainerSpec(id=name, pod=identity, name=name, attempt=0, argv=command, log_path=log)

    def kill_shim(self) -> None:
        os.kill(self.shim_pid, signal.SIGKILL)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(120):
            while not condition():  # noqa: ASYNC110 - processes do not set events
                await asyncio.sleep(0.01)


@pytest.fixture
async def held() -> AsyncIterator[Held]:
    directory = Path(tempfile.mkdtemp(prefix="hosted-"))
    found = Held(directory)
    try:
        async with asyncio.TaskGroup() as group:
            await found.runtime.open(found.ended.append)
            supervising = group.create_task(found.runtime.supervise())
            yield found
            supervising.cancel()
    finally:
        await found.runtime.close(stop_containers=True)
        shutil.rmtree(directory, ignore_errors=True)


async def test_a_running_container_is_reported_as_lost_and_an_ended_one_is_not(held: Held) -> None:
    await held.runtime.start(held.spec("short", "true"))
    await held.until(lambda: len(held.ended) == 1)
    started = await held.runtime.start(held.spec("long", "sleep", "600"))
    lost = held.shim_pid
    held.kill_shim()
    await held.until(lambda: len(held.ended) == 2)
    run = held.ended[1]
    assert (run.name, run.exit_code, run.reason, run.message) == ("long", 137, LOST_REASON, LOST_MESSAGE)
    assert run.started_at == started.started_at
    assert held.shim_pid != lost


async def test_what_a_lost_shim_left_is_killed_before_its_end_is_reported(held: Held) -> None:
    pids = held.directory / "pids"
    await held.runtime.start(held.spec("c", "sh", "-c", f"echo $$ > {pids}; sleep 600 & echo $! >> {pids}; wait"))
    await held.until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    held.kill_shim()
    await held.until(lambda: len(held.ended) == 1)
    await held.until(lambda: not any(process_session(int(pid)) >= 0 for pid in pids.read_text().split()))


async def test_requests_made_while_no_shim_runs_are_answered_by_the_next(held: Held) -> None:
    await held.runtime.start(held.spec("old", "sleep", "600"))
    held.kill_shim()
    async with asyncio.timeout(120):
        run = await held.runtime.start(held.spec("new", "sleep", "600"))
        await held.runtime.signal("old", signal.SIGTERM)
        await held.runtime.remove("old")
    assert run.running
    assert [ended.name for ended in held.ended] == ["old"]
    assert not (held.directory / "containers" / "old").exists()
    process = await held.runtime.exec("new", ("sh", "-c", "exit 3"))
    assert await process.wait() == 3
    await process.close()


async def test_no_request_waits_for_a_shim_that_will_not_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(Path(tempfile.mkdtemp(prefix="hosted-", dir=tmp_path)))
    await held.runtime.open(held.ended.append)
    supervising = asyncio.create_task(held.runtime.supervise())
    await held.runtime.start(held.spec("c", "sleep", "600"))
    lost = asyncio.Event()

    async def fail(*_: object) -> ShimListing:
        lost.set()
        raise ConnectionRefusedError

    monkeypatch.setattr(hosted, "connect_or_launch", fail)
    held.kill_shim()
    await lost.wait()
    asking = asyncio.create_task(held.runtime.start(held.spec("d", "true")))
    await asyncio.sleep(0)
    supervising.cancel()
    with pytest.raises(RuntimeFailure, match="shim"):
        await asking
    monkeypatch.undo()
    await held.runtime.close(stop_containers=True)


async def test_an_attached_client_of_a_lost_container_sees_the_end_of_its_output(held: Held) -> None:
    await held.runtime.start(held.spec("c", "sh", "-c", "while :; do echo line; sleep 0.05; done"))
    attached = await held.runtime.attach("c")
    output = attached.output()
    assert (await anext(output))[1].startswith(b"line")
    held.kill_shim()
    async with asyncio.timeout(120):
        async for _ in output:
            pass
    await attached.close()


async def test_a_broken_connection_to_a_living_shim_loses_no_container(held: Held) -> None:
    await held.runtime.start(held.spec("c", "sleep", "600"))
    pid, shim = held.shim_pid, held.runtime._shim
    assert shim is not None
    assert isinstance(shim.connection, ShimConnection)
    shim.connection.abort()
    async with asyncio.timeout(120):
        await held.runtime.signal("c", 0)
    assert (held.shim_pid, held.ended) == (pid, [])
    await held.runtime.signal("c", signal.SIGTERM)
    await held.until(lambda: len(held.ended) == 1)
    assert (held.ended[0].exit_code, held.ended[0].signal) == (143, signal.SIGTERM)


async def test_what_ends_while_the_shims_list_is_on_its_way_is_found_as_ended(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    await held.runtime.start(held.spec("c", "sleep", "600"))

    async def connect_slowly(options: ShimOptions, on_exit: Callable[[dict[str, Any]], None]) -> ShimListing:
        told = asyncio.Event()

        def tell(container: dict[str, Any]) -> None:
            on_exit(container)
            told.set()

        listing = await connect_or_launch(options, tell)
        await held.runtime.signal("c", signal.SIGKILL)
        await told.wait()
        return listing

    monkeypatch.setattr(hosted, "connect_or_launch", connect_slowly)
    later = HostedRuntime(ProcessLauncher(()), held.directory / "containers", clock=SystemClock())
    (run,) = await later.open(held.ended.append)
    assert run.signal == signal.SIGKILL
    await later.close(stop_containers=False)


async def test_a_runtime_that_is_closed_after_its_shim_was_lost_leaves_no_process_behind(held: Held) -> None:
    pids = held.directory / "pids"
    await held.runtime.start(held.spec("c", "sh", "-c", f"echo $$ > {pids}; exec sleep 600"))
    await held.until(lambda: pids.exists() and bool(pids.read_text().strip()))
    held.kill_shim()
    await held.runtime.close(stop_containers=True)
    status = Path(f"/proc/{pids.read_text().strip()}/status")
    await held.until(lambda: not status.exists() or "State:\tZ" in status.read_text())


async def _pid(process: ExecProcess) -> int:
    _, line = await anext(process.output())
    return int(line)


@pytest.mark.parametrize("first", ["sleep 600", "setsid -f sleep 600; exec sleep 600"])
async def test_commands_end_before_the_end_of_their_container_is_reported(held: Held, first: str) -> None:
    """The devices of the container go to the next pod as soon as its end is reported."""
    alive: list[set[int]] = []
    pids = set[int]()
    marker = f"CATHEDRA_MOUNTS={held.directory}/containers/c/mounts"

    def ended(_: ContainerRun) -> None:
        alive.append({pid for pid in pids if process_session(pid) >= 0} | matching(has_variable(marker)))

    held.runtime._on_exit = ended
    await held.runtime.start(held.spec("c", "sh", "-c", first))
    commands = [
        await held.runtime.exec("c", ("sh", "-c", script))
        for script in (
            "sleep 600 & echo $!; wait",
            "setsid -f sleep 600 & echo $$; wait",
            "trap '' HUP TERM; echo $$; sleep 600",
        )
    ]
    pids |= {await _pid(command) for command in commands}
    await held.runtime.signal("c", signal.SIGKILL)
    await held.until(lambda: bool(alive))
    assert alive == [set()]
    for command in commands:
        await command.close()


async def test_a_command_that_begins_while_its_container_ends_is_killed(held: Held) -> None:
    await held.runtime.start(held.spec("c", "sleep", "600"))
    (run,) = held.runtime._running.values()
    starting = asyncio.create_task(held.runtime.exec("c", ("sh", "-c", "echo $$ >&2; exec sleep 600")))
    await asyncio.sleep(0)
    held.runtime._end(run)
    with pytest.raises(RuntimeFailure, match="not running"):
        await starting
    marker = has_variable(f"CATHEDRA_MOUNTS={held.directory}/containers/c/mounts")
    assert len(matching(marker)) == 1, "the container itself, which the shim still holds"


async def test_a_container_waits_for_an_attached_client_that_reads_slowly_and_goes_on_without_it(held: Held) -> None:
    done = held.directory / "done"
    await held.runtime.start(held.spec("c", "sh", "-c", f"yes | head -c 20000000; touch {done}; exec sleep 600"))
    attached = await held.runtime.attach("c")
    output = attached.output()
    await anext(output)
    sizes = [0, 1]
    while sizes[-1] != sizes[-2]:
        await asyncio.sleep(0.5)
        sizes.append(attached._waiting)
    assert attached._waiting < 20 * MOST_WAITING
    assert not done.exists()
    await attached.close()
    await held.until(done.exists)
