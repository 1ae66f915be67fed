"""Processes that clients start in a container end with their stream, and at the latest with the container.

The container's devices are then given to the next pod.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from cathedra.clock import SystemClock
from cathedra.node.runtime.choose import ContainerHome, choose_runtime
from cathedra.node.runtime.runtime import ContainerRun, ContainerSpec, PodIdentity, Runtime
from cathedra.node.server.portforward import port_connector
from cathedra.node.shim.processes import matching, process_session
from tests.requirements import container_runtime

SCRIPTS = (
    "sleep 1000 & sleep 1000",
    "sleep 1000 &",
    "trap '' HUP TERM INT; sleep 1000 & wait",
    "setsid sleep 1000 & wait",
)


def sleeping(seconds: int) -> set[int]:
    """Return the processes ``sleep SECONDS``; each test has a number of its own."""

    def belongs(pid: int) -> bool:
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False
        return line == b"sleep\0%d\0" % seconds and process_session(pid) >= 0

    return matching(belongs)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - processes do not set events
            await asyncio.sleep(0.01)


class Place:
    """A runtime with one container, and what it has reported."""

    def __init__(self, runtime: Runtime, directory: Path) -> None:
        self.runtime = runtime
        self.directory = directory
        self.ended = asyncio.Event()
        self.alive: set[int] | None = None
        self.seconds = 0

    async def start(self, script: str, *, host_pid: bool = False) -> None:
        identity = PodIdentity("default", "p", "uid")
        log = str(self.directory / "c.log")
        await self.runtime.start(
            ContainerSpec("c", identity, "c", 0, ("sh", "-c", script), host_pid=host_pid, log_path=log)
        )

    def on_exit(self, _: ContainerRun) -> None:
        self.alive = sleeping(self.seconds)
        self.ended.set()


@pytest.fixture(params=("process", "crun", "runc"))
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    directory = Path(tempfile.mkdtemp(prefix="commands-"))
    name = container_runtime(request.param)
    candidates = () if name == "process" else (name,)
    chosen = await choose_runtime(ContainerHome(directory / "containers"), candidates=candidates, clock=SystemClock())
    found = Place(chosen.runtime, directory)
    await chosen.runtime.open(found.on_exit)
    yield found
    await chosen.runtime.close(stop_containers=True)
    shutil.rmtree(directory, ignore_errors=True)


async def test_the_children_of_a_command_end_when_its_client_leaves(place: Place) -> None:
    await place.start("exec sleep 4321")
    for number, script in enumerate(SCRIPTS):
        for tty in (False, True):
            if script == "sleep 1000 &" and (tty or place.runtime.name == "runc"):
                continue  # a terminal is hung up with its first process; runc has pipes of its own in between
            await _ends_with_its_client(place, script, 5001 + number, tty=tty)
    assert len(sleeping(4321)) == 1


async def _ends_with_its_client(place: Place, script: str, seconds: int, *, tty: bool) -> None:
    process = await place.runtime.exec("c", ("sh", "-c", script.replace("1000", str(seconds))), tty=tty)
    await until(lambda: len(sleeping(seconds)) >= script.count("1000"))
    await process.close()
    await until(lambda: not sleeping(seconds))


@pytest.mark.parametrize("host_pid", [False, True])
async def test_commands_end_before_the_end_of_their_container_is_reported(place: Place, host_pid: bool) -> None:
    place.seconds = 6001 + host_pid
    await place.start("exec sleep 4322", host_pid=host_pid)
    processes = [
        await place.runtime.exec("c", ("sh", "-c", script.replace("1000", str(place.seconds)))) for script in SCRIPTS
    ]
    await until(lambda: len(sleeping(place.seconds)) == 5)
    await place.runtime.signal("c", signal.SIGKILL)
    async with asyncio.timeout(120):
        await place.ended.wait()
    assert place.alive == set()
    for process in processes:
        await process.close()


async def test_a_client_that_attaches_and_leaves_ends_nothing(place: Place) -> None:
    await place.start("sleep 4323 & wait")
    attached = await place.runtime.attach("c")
    await attached.close()
    await until(lambda: len(sleeping(4323)) == 1)
    assert not place.ended.is_set()


SERVE = """
import socket, sys
listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
while True:
    listening.accept()[0].sendall(b"from the pod")
"""


async def test_only_ports_of_the_pods_own_processes_are_forwarded(place: Place) -> None:
    """Pods share the node's network: without a check, ``pods/portforward`` reaches every service of its loopback."""
    with socket.create_server(("127.0.0.1", 0)) as foreign, socket.create_server(("127.0.0.1", 0)) as free:
        other, port = foreign.getsockname()[1], free.getsockname()[1]
        free.close()
        await place.start("exec sleep 4324")
        connect = port_connector(place.runtime, "uid", lambda: {"c"})
        with pytest.raises(ConnectionRefusedError):
            await connect(other)
        serving = await place.runtime.exec("c", (sys.executable, "-S", "-c", SERVE, str(port)))
        _, line = await anext(serving.output())
        assert line == b"listening\n"
        connection = await connect(port)
        assert await connection.read() == b"from the pod"
        connection.close()
        with pytest.raises(ConnectionRefusedError):
            await port_connector(place.runtime, "uid", lambda: {"another"})(port)
        await serving.close()
