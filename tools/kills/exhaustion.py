"""Each part of a cluster without descriptors, memory or processes for a while.

A part that lacks something reports it in its log, or in an event of the pod that waits. It neither loses anything nor
spins, and works again when the shortage ends. One that dies of it is started again, as a service manager does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from cathedra.api.status import StatusError
from cathedra.client.resources import CONFIGMAPS, EVENTS, PODS
from tools.kills.checks import Scenario, again, config_map, delayed_pod, expect, logged, memory_of, writes
from tools.kills.programs import Program
from tools.kills.world import NODE, Violation, World
from tools.soak.figures import processes

__all__ = ["EXHAUSTIONS", "LARGE"]

SPARE: Final = 24 << 20
"""Bytes that an API server without memory may still map."""
LARGE: Final = "x" * 200_000
CROWD: Final = 60
"""Large pods that have to be kept in memory."""
SHORTAGE_SECONDS: Final = 15.0
"""Seconds for which a part lacks memory or processes."""
NO_DESCRIPTOR: Final = "Too many open files"
FEWEST: Final = 4
"""Limit of descriptors with which no further one can be opened, since the standard ones and the loop have these."""
BUSY: Final = 0.6
"""Share of a core above which a part without descriptors counts as spinning."""
LOOK_SECONDS: Final = 3.0
TICKS: Final = os.sysconf("SC_CLK_TCK")
CGROUP: Final = Path("/sys/fs/cgroup/pids/kills")


async def no_descriptors_for_the_server(place: World) -> str:
    """Further connections wait. Those that are open are served, and the others when there are descriptors again."""
    server = place.program("API server")
    port = int((place.data / "port").read_text())
    with _few_descriptors(server):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        line = await logged(server, NO_DESCRIPTOR)
        if not await writes(place):
            raise Violation("an open connection is not served")
        ready = await place.readiness()
        if f"new connections wait: {NO_DESCRIPTOR}" not in ready:
            raise Violation(f"readyz answers {ready!r}")
        await _check_idle(server)
        writer.close()
    await place.until("a write succeeds on a new connection", lambda: _writes_anew(place))
    return line


async def no_descriptors_for_a_client(place: World, part: str) -> str:
    """A part whose server starts again cannot connect, reports it, and connects when it can."""
    program, server = place.program(part), place.program("API server")
    with _few_descriptors(program):
        server.kill()
        await again(server)
        line = await logged(program, NO_DESCRIPTOR)
        await _check_idle(program)
    return line


async def no_descriptors_on_the_node(place: World, part: str) -> str:
    """A pod waits with an event that names the reason, and runs when there are descriptors again."""
    return await delayed_pod(place, _few_descriptors(place.program(part)), NO_DESCRIPTOR)


async def no_processes(place: World, part: str) -> str:
    """A pod runs, waits, or its container fails with a status that names the reason; afterwards pods run."""
    members = processes(place.program(part).pid)
    if part == "node agent":
        members += _shims(place.root)
    with _few_processes(members):
        running = asyncio.create_task(place.run_next(may_fail=True))
        await asyncio.wait({running}, timeout=SHORTAGE_SECONDS)
        waited = not running.done()
    await running
    if place.ended and not place.ended.startswith("Completed"):
        return place.ended
    return "nothing: the pod waited" if waited else "nothing: it needs no more, and the pod ran"


async def no_memory_for_the_server(place: World) -> str:
    """An API server that gets no more memory refuses what does not fit, or is started again; nothing is lost."""
    server = place.program("API server")
    acknowledged, line = [], ""

    async def write(number: int) -> None:
        nonlocal line
        try:
            async with asyncio.timeout(20):
                await place.of(CONFIGMAPS).create(config_map(f"large-{number}", LARGE * 5))
            acknowledged.append(f"large-{number}")
        except StatusError as error:
            line = line or str(error)
        except (OSError, TimeoutError) as error:
            line = line or f"{type(error).__name__}: {error}"

    with _little_memory(server.pid, SPARE):
        await asyncio.gather(*(write(number) for number in range(60)))
        alive = server.running
    if not alive:
        await again(server)
    await place.until("a write succeeds again", lambda: writes(place))
    await expect(place, acknowledged)
    for number in range(60):
        await place.delete(CONFIGMAPS, f"large-{number}")
    return _ending(line, alive=alive)


async def no_memory(place: World, part: str) -> str:
    """Pods with large annotations do not fit into a part. One that ends of it is started again."""
    program = place.program(part)
    with _little_memory(program.pid, 0):
        for number in range(CROWD):
            await place.create(_large_pod(f"crowd-{number}", NODE if part == "node agent" else ""))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SHORTAGE_SECONDS):
                while program.running and not _memory_line(program):  # noqa: ASYNC110  # another process writes it
                    await asyncio.sleep(0.1)
        alive = program.running
    line = _memory_line(program)
    if not alive:
        await again(program)
    for number in range(CROWD):
        await place.delete(PODS, f"crowd-{number}")

    async def gone() -> bool:
        return not await place.list(PODS)

    await place.until("the deleted pods go", gone)
    return _ending(line, alive=alive)


async def no_memory_for_the_driver(place: World) -> str:
    """A claim that does not fit into the driver is not prepared, or the driver ends; afterwards its pod runs."""
    driver = place.program("driver")
    with _little_memory(driver.pid, 0):
        running = asyncio.create_task(place.run_next(annotation=LARGE))
        line = await _warned(place, running, "memory")
        alive = driver.running
    if not alive:
        await again(driver)
    await running
    return _ending(line or _memory_line(driver), alive=alive)


async def _warned(place: World, running: asyncio.Task[None], pattern: str) -> str:
    """Return the first warning that matches; "" if there is none until the pod has run, or within some seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SHORTAGE_SECONDS):
            while not running.done():
                for one in await place.list(EVENTS):
                    if one.type == "Warning" and re.search(pattern, one.message, re.IGNORECASE):
                        return f"{one.reason}: {one.message}"
                await asyncio.sleep(0.1)
    return ""


def _ending(line: str, *, alive: bool) -> str:
    return f"{line or 'nothing: it needs no more'} ({'it lives on' if alive else 'it ended'})"


def _memory_line(program: Program) -> str:
    lines = [one for one in program.said().splitlines() if "memory" in one.lower()]
    # The line of a part rather than the end of a traceback.
    return next((one for one in lines if "no connection" in one), lines[0] if lines else "")


def _large_pod(name: str, node: str) -> dict[str, Any]:
    """A pod that no node takes; with ``node``, one that is bound to it and refused there."""
    spec: dict[str, Any] = {
        "nodeSelector": {"no": "node"},
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "host"}],
    }
    spec |= {"nodeName": node} if node else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": {"a": LARGE}}, "spec": spec}


def _named() -> Iterator[tuple[str, Scenario]]:
    yield "no descriptors for the API server", no_descriptors_for_the_server
    for part in ("controller manager", "scheduler"):
        yield f"no descriptors for the {part}", partial(no_descriptors_for_a_client, part=part)
    for part in ("node agent", "driver"):
        yield f"no descriptors for the {part}", partial(no_descriptors_on_the_node, part=part)
    yield "no memory for the API server", no_memory_for_the_server
    for part in ("controller manager", "scheduler", "node agent"):
        yield f"no memory for the {part}", partial(no_memory, part=part)
    yield "no memory for the driver", no_memory_for_the_driver
    for part in ("API server", "controller manager", "scheduler", "node agent", "driver"):
        yield f"no processes for the {part}", partial(no_processes, part=part)


EXHAUSTIONS: Final[Mapping[str, Scenario]] = dict(_named())


@contextmanager
def _limited(pid: int, kind: int, limit: int) -> Iterator[None]:
    """Lower a soft limit of a process. The hard one stays, since raising it again is denied in some containers."""
    before, hard = resource.prlimit(pid, kind, (limit, resource.prlimit(pid, kind)[1]))
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, kind, (before, hard))


def _few_descriptors(program: Program) -> contextlib.AbstractContextManager[None]:
    return _limited(program.pid, resource.RLIMIT_NOFILE, FEWEST)


def _little_memory(pid: int, spare: int) -> contextlib.AbstractContextManager[None]:
    return _limited(pid, resource.RLIMIT_AS, memory_of(pid, "VmSize") * 1024 + spare)


@contextmanager
def _few_processes(members: Sequence[int]) -> Iterator[None]:
    """Put processes in a cgroup that allows no more of them."""
    CGROUP.mkdir(exist_ok=True)
    for member in members:
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


def _shims(root: Path) -> list[int]:
    """Return the processes that start the containers of a node; they are no children of its agent."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_text()
            if "cathedra.node.shim" in command and str(root) in command:
                found.append(int(process.name))
    return found


async def _writes_anew(place: World) -> bool:
    await place.close()
    await place.connect()
    return await writes(place)


async def _check_idle(program: Program) -> None:
    """Check that a part which lacks something does not spin.

    Raises:
        Violation: it uses most of a core, or has ended.
    """
    before, began = _processor_seconds(program), time.monotonic()
    await asyncio.sleep(LOOK_SECONDS)
    share = (_processor_seconds(program) - before) / (time.monotonic() - began)
    if share > BUSY:
        raise Violation(f"the {program.part} uses {share:.0%} of a core")


def _processor_seconds(program: Program) -> float:
    if not program.running:
        raise Violation(f"the {program.part} ended: {program.said()[-2000:]}")
    fields = Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
