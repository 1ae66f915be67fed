"""A cluster that lacks disk, permission to write, descriptors, processes or memory for a while, or has a damaged file.

Each scenario takes something away, checks that a clear line reports it and that nothing acknowledged is lost, gives it
back, and checks that the cluster works again. ``python -m tools.kills.shortages`` prints a table; it needs root.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from cathedra.api.status import StatusError
from cathedra.client.resources import CONFIGMAPS, EVENTS
from tools.kills.programs import Program
from tools.kills.world import Violation, World, world

__all__ = ["SCENARIOS", "main", "run"]

DISK: Final = "64m"
SPARE: Final = 24 << 20
"""Bytes that a process without memory may still map."""
BALLAST: Final = "ballast"
PATIENCE: Final = 60.0
WAIT: Final = 15.0
"""Seconds for which a node has no processes."""
LARGE: Final = "x" * 200_000
TRACE: Final = "Traceback (most recent call last)"
CGROUP: Final = Path("/sys/fs/cgroup/pids/kills")

Scenario = Callable[[World], Awaitable[str]]
"""Return the line that says what is wrong."""


async def disk_of_the_store_full(place: World) -> str:
    """Writes are refused, reads go on, and what was acknowledged is there."""
    acknowledged, line = [], ""
    with _full(place.data):
        for number in range(200):
            try:
                made = _map(f"full-{number}", LARGE)
                await place.of(CONFIGMAPS).create(made)
                acknowledged.append(f"full-{number}")
            except StatusError as error:
                line = str(error)
                break
        if not line:
            raise Violation("a full disk refuses no write")
        await _expect(place, acknowledged)
    await place.until("a write succeeds again", lambda: _writes(place))
    await _expect(place, acknowledged)
    for name in acknowledged:
        await place.delete(CONFIGMAPS, name)
    return line


async def start_on_read_only(place: World) -> str:
    """A start on a read-only data directory ends with one line."""
    server = place.program("API server")
    server.stop()
    _mount("-o", "remount,ro", str(place.data))
    try:
        line = await _fails(server)
    finally:
        _mount("-o", "remount,rw", str(place.data))
    await _again(server)
    return line


async def disk_of_the_node_full(place: World) -> str:
    """A pod waits with an event that names the reason, and runs when there is room again."""
    return await _delayed_pod(place, _full(place.root), "No space left on device")


async def node_read_only(place: World) -> str:
    """A pod waits while the directory of node and driver is read-only, and then runs."""
    return await _delayed_pod(place, _read_only(place.root), "Read-only file system")


async def store_truncated(place: World) -> str:
    """A start on half a database ends with one line; with the file brought back, everything is there."""
    return await _damaged(place, "API server", place.data / "objects.sqlite", lambda data: data[: len(data) // 2])


async def store_zeros(place: World) -> str:
    """The same with zeros."""
    return await _damaged(place, "API server", place.data / "objects.sqlite", lambda data: bytes(len(data)))


async def store_emptied(place: World) -> str:
    """An empty file is no new store if writes were acknowledged."""
    return await _damaged(place, "API server", place.data / "objects.sqlite", lambda _: b"")


async def node_checkpoint_truncated(place: World) -> str:
    """The node agent does not start on half a checkpoint: it would forget prepared claims."""
    return await _damaged(place, "node agent", place.root / "dra_manager_state", lambda data: data[: len(data) // 2])


async def node_checkpoint_zeros(place: World) -> str:
    """The same with zeros."""
    return await _damaged(place, "node agent", place.root / "dra_manager_state", lambda data: bytes(len(data)))


async def node_checkpoint_null(place: World) -> str:
    """The same with the JSON value null."""
    return await _damaged(place, "node agent", place.root / "dra_manager_state", lambda _: b"null")


async def driver_checkpoint_truncated(place: World) -> str:
    """The driver keeps half a checkpoint aside, and learns from the node which claims are prepared."""
    return await _kept_aside(place, lambda data: data[: len(data) // 2])


async def driver_checkpoint_zeros(place: World) -> str:
    """The same with zeros."""
    return await _kept_aside(place, lambda data: bytes(len(data)))


async def driver_checkpoint_null(place: World) -> str:
    """The same with the JSON value null."""
    return await _kept_aside(place, lambda _: b"null")


async def no_descriptors(place: World) -> str:
    """Connections beyond the limit of descriptors are not served. The server lives and serves again afterwards."""
    server = place.program("API server")
    server.stop()
    server.limits = {resource.RLIMIT_NOFILE: 80}
    try:
        await _again(server)
        port = int((place.data / "port").read_text())
        with contextlib.ExitStack() as held:
            for _ in range(150):
                held.callback(socket.create_connection(("127.0.0.1", port), 5).close)
            served = await _writes(place)
        await place.until("a write succeeds again", lambda: _writes(place))
        if not server.running:
            raise Violation("the API server ended")
    finally:
        server.stop()
        server.limits = {}
        await _again(server)
    return "served beside them" if served else "connections without an answer"


async def no_processes(place: World) -> str:
    """A pod waits, or its container fails with a status that names the reason; afterwards pods run."""
    with _few_processes(place.program("node agent").pid, place.root):
        running = asyncio.create_task(place.run_next(may_fail=True))
        await asyncio.wait({running}, timeout=WAIT)
    await running
    return place.ended or "the pod waited"


async def no_memory(place: World) -> str:
    """An API server that gets no more memory refuses what does not fit, or is started again; nothing is lost."""
    server = place.program("API server")
    used = _status(server.pid, "VmSize") * 1024
    # The hard limit stays, since raising it again is denied in some containers.
    resource.prlimit(server.pid, resource.RLIMIT_AS, (used + SPARE, resource.RLIM_INFINITY))
    acknowledged, line = [], ""

    async def write(number: int) -> None:
        nonlocal line
        try:
            async with asyncio.timeout(20):
                await place.of(CONFIGMAPS).create(_map(f"large-{number}", LARGE * 5))
            acknowledged.append(f"large-{number}")
        except StatusError as error:
            line = line or str(error)
        except (OSError, TimeoutError) as error:
            line = line or f"{type(error).__name__}: {error}"

    await asyncio.gather(*(write(number) for number in range(60)))
    alive = server.running
    if alive:
        resource.prlimit(server.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    else:
        await _again(server)
    await place.until("a write succeeds again", lambda: _writes(place))
    await _expect(place, acknowledged)
    for number in range(60):
        await place.delete(CONFIGMAPS, f"large-{number}")
    return f"{line or 'all writes fitted'} ({'it lives on' if alive else 'it ended'})"


SCENARIOS: Final[Mapping[str, Scenario]] = {
    function.__name__.replace("_", " "): function
    for function in (
        disk_of_the_store_full,
        start_on_read_only,
        disk_of_the_node_full,
        node_read_only,
        store_truncated,
        store_zeros,
        store_emptied,
        node_checkpoint_truncated,
        node_checkpoint_zeros,
        node_checkpoint_null,
        driver_checkpoint_truncated,
        driver_checkpoint_zeros,
        driver_checkpoint_null,
        no_descriptors,
        no_processes,
        no_memory,
    )
}


# Taking away and giving back.


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)


@contextmanager
def _full(folder: Path) -> Iterator[None]:
    """Fill the file system of a folder but for some kilobytes."""
    ballast = folder / BALLAST
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def _read_only(folder: Path) -> Iterator[None]:
    # Sockets and logs are open for writing, so that a remount is refused; a bind mount can be read-only all the same.
    _mount("--bind", str(folder), str(folder))
    _mount("-o", "remount,ro,bind", str(folder))
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@contextmanager
def _few_processes(pid: int, root: Path) -> Iterator[None]:
    """Put a node agent and its shim in a cgroup that allows no more processes."""
    CGROUP.mkdir(exist_ok=True)
    shim = [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit() and _is_shim_of(one, root)]
    for member in (pid, *shim):
        (CGROUP / "cgroup.procs").write_text(str(member))
    count = int((CGROUP / "pids.current").read_text())
    (CGROUP / "pids.max").write_text(str(count))
    try:
        yield
    finally:
        (CGROUP / "pids.max").write_text("max")
        for left in (CGROUP / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (CGROUP.parent / "cgroup.procs").write_text(left)
        with contextlib.suppress(OSError):
            CGROUP.rmdir()


def _is_shim_of(process: Path, root: Path) -> bool:
    try:
        command = (process / "cmdline").read_text()
    except OSError:
        return False
    return "cathedra.node.shim" in command and str(root) in command


# Checks.


def _map(name: str, value: str) -> Any:
    from cathedra.api.core.core_v1 import ConfigMap
    from cathedra.api.core.meta_v1 import ObjectMeta

    return ConfigMap(metadata=ObjectMeta(name=name), data={"value": value})


async def _writes(place: World) -> bool:
    name = "probe"
    try:
        async with asyncio.timeout(10):
            await place.of(CONFIGMAPS).create(_map(name, "1"))
            await place.of(CONFIGMAPS).delete(name)
    except StatusError as error:
        return error.is_already_exists and await _deleted(place, name)
    except (OSError, TimeoutError):
        return False
    return True


async def _deleted(place: World, name: str) -> bool:
    await place.delete(CONFIGMAPS, name)
    return False


async def _expect(place: World, names: list[str]) -> None:
    found = {one.metadata.name for one in await place.list(CONFIGMAPS)}
    if missing := set(names) - found:
        raise Violation(f"acknowledged, but not there: {sorted(missing)}")


async def _delayed_pod(place: World, taken: contextlib.AbstractContextManager[None], wanted: str) -> str:
    """Create a pod while something is missing: its events name it, and it runs afterwards."""
    line = ""
    with taken:
        task = asyncio.create_task(place.run_next())
        end = asyncio.get_running_loop().time() + PATIENCE
        while not line and not task.done() and asyncio.get_running_loop().time() < end:
            events = await place.list(EVENTS)
            said = [f"{one.reason}: {one.message}" for one in events if one.type == "Warning"]
            line = next((text for text in said if wanted in text and place.pod in text + _about(events, text)), "")
            await asyncio.sleep(0.1)
    await task
    if not line:
        raise Violation(f"no event has {wanted!r}, but {said}")
    return line


def _about(events: Any, text: str) -> str:
    return " ".join(one.involved_object.name for one in events if f"{one.reason}: {one.message}" == text)


async def _damaged(place: World, part: str, path: Path, damage: Callable[[bytes], bytes]) -> str:
    """Start a program on a damaged file; it must end with one line, and work again with the file as it was."""
    program = place.program(part)
    program.stop()
    kept = {one: one.read_bytes() for one in path.parent.glob(f"{path.name}*") if one.is_file()}
    path.write_bytes(damage(kept[path]))  # noqa: ASYNC240
    try:
        line = await _fails(program)
    finally:
        program.stop()
        for one in path.parent.glob(f"{path.name}*"):
            if one not in kept:
                one.unlink()
        for one, content in kept.items():
            one.write_bytes(content)
    await _again(program)
    return line


async def _kept_aside(place: World, damage: Callable[[bytes], bytes]) -> str:
    """Start the driver on a damaged checkpoint; it reports it, and prepares claims as before."""
    driver = place.program("driver")
    driver.stop()
    path = next(place.root.glob("plugins/*/checkpoint.json"))
    path.write_bytes(damage(path.read_bytes()))
    await _again(driver)
    return await _logged(driver, "checkpoint")


async def _fails(program: Program) -> str:
    """Start it and return its only line."""
    program.start()
    async with asyncio.timeout(PATIENCE):
        while program.running:  # noqa: ASYNC110  # another process ends
            await asyncio.sleep(0.05)
    lines = program.said().strip().splitlines()
    if program.status != 2 or not lines or TRACE in program.said():
        raise Violation(f"{program.part} ended with {program.status}: {program.said()[-2000:]}")
    return lines[-1]


async def _again(program: Program) -> None:
    program.start()
    if not await program.until_ready():
        raise Violation(f"{program.part} does not start again: {program.said()[-2000:]}")


async def _logged(program: Program, pattern: str) -> str:
    async with asyncio.timeout(PATIENCE):
        while True:
            for line in program.said().splitlines():
                if re.search(pattern, line):
                    return line
            await asyncio.sleep(0.05)


def _status(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


# The run.


@asynccontextmanager
async def _on_small_disks(folder: Path) -> AsyncIterator[World]:
    places = [folder / "data", folder / "node"]
    for one in places:
        one.mkdir()
        _mount("-t", "tmpfs", "-o", f"size={DISK},mode=700", "none", str(one))
    try:
        async with world(folder, together=False) as place:
            # A fault point opens files, so that its process would lack descriptors, too.
            for program in place.programs:
                program.watched = False
                program.stop()
                await _again(program)
            yield place
    finally:
        for one in places:
            await asyncio.to_thread(subprocess.run, ["umount", "--lazy", str(one)], check=False)


async def run(folder: Path, names: list[str]) -> dict[str, tuple[str, str]]:
    """Run scenarios one after the other in one world. Return the line of each, and what was wrong ("": nothing)."""
    found: dict[str, tuple[str, str]] = {}
    async with _on_small_disks(folder) as place:
        await place.run_next()
        for name in names:
            try:
                line = await SCENARIOS[name](place)
                for one in place.programs:
                    if not one.running:
                        await _again(one)
                await place.run_next()
                found[name] = line, ""
            except (Violation, TimeoutError) as error:
                found[name] = "", f"{type(error).__name__}: {error}"
                for one in place.programs:
                    if not one.running:
                        one.start()
            print(f"{name}: {' '.join(found[name])}", flush=True)
    return found


def main() -> int:
    """Run the scenarios that the options name."""
    parser = argparse.ArgumentParser(prog="tools.kills.shortages", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], choices=list(SCENARIOS), help="a scenario (repeatable)")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    found = asyncio.run(run(folder, options.only or list(SCENARIOS)))
    shutil.rmtree(folder, ignore_errors=True)
    print("| what is missing or damaged | what is said | violations |\n|---|---|---|")
    for name, (line, wrong) in found.items():
        text = line.replace(str(folder), "").replace("|", "\\|")
        print(f"| {name} | `{text[:220]}` | {wrong or 0} |")
    return 1 if any(wrong for _, wrong in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
