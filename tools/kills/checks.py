"""Checks of a cluster from which something was taken away: its lines, events and objects, and that it works again."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.client.resources import CONFIGMAPS, EVENTS
from tools.kills.programs import Program
from tools.kills.world import Violation, World

__all__ = [
    "PATIENCE",
    "TRACE",
    "Scenario",
    "again",
    "config_map",
    "delayed_pod",
    "expect",
    "fails",
    "logged",
    "memory_of",
    "writes",
]

PATIENCE: Final = 60.0
TRACE: Final = "Traceback (most recent call last)"

Scenario = Callable[[World], Awaitable[str]]
"""Return the line that names the fault."""


def config_map(name: str, value: str) -> Any:
    """Return a config map with one value."""
    return ConfigMap(metadata=ObjectMeta(name=name), data={"value": value})


async def writes(place: World) -> bool:
    """Return True if an object can be created and deleted within ten seconds."""
    name = "probe"
    try:
        async with asyncio.timeout(10):
            await place.of(CONFIGMAPS).create(config_map(name, "1"))
            await place.of(CONFIGMAPS).delete(name)
    except StatusError as error:
        return error.is_already_exists and await _deleted(place, name)
    except (OSError, TimeoutError):
        return False
    return True


async def _deleted(place: World, name: str) -> bool:
    await place.delete(CONFIGMAPS, name)
    return False


async def expect(place: World, names: list[str]) -> None:
    """Check that acknowledged config maps exist.

    Raises:
        Violation: one does not.
    """
    found = {one.metadata.name for one in await place.list(CONFIGMAPS)}
    if missing := set(names) - found:
        raise Violation(f"acknowledged, but not there: {sorted(missing)}")


async def delayed_pod(place: World, taken: contextlib.AbstractContextManager[None], wanted: str) -> str:
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


async def fails(program: Program) -> str:
    """Start it and return its only line."""
    program.start()
    async with asyncio.timeout(PATIENCE):
        while program.running:  # noqa: ASYNC110  # another process ends
            await asyncio.sleep(0.05)
    lines = program.said().strip().splitlines()
    if program.status != 2 or not lines or TRACE in program.said():
        raise Violation(f"{program.part} ended with {program.status}: {program.said()[-2000:]}")
    return lines[-1]


async def again(program: Program) -> None:
    """Start a program and wait until it serves.

    Raises:
        Violation: it ends.
    """
    program.start()
    if not await program.until_ready():
        raise Violation(f"{program.part} does not start again: {program.said()[-2000:]}")


async def logged(program: Program, pattern: str) -> str:
    """Wait for a line of the log that matches, and return it.

    Raises:
        TimeoutError: there is none within a minute.
    """
    async with asyncio.timeout(PATIENCE):
        while True:
            for line in program.said().splitlines():
                if re.search(pattern, line):
                    return line
            await asyncio.sleep(0.05)


def memory_of(pid: int, field: str) -> int:
    """Return a size of a process in KiB, such as VmSize."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))
