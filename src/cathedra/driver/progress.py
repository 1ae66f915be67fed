"""What a driver's author sees of it: how many devices are published, and whether a kubelet has taken the driver."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cathedra.driver.run import DriverRunner

__all__ = ["narrate"]

Say = Callable[[str], None]


async def narrate(runner: DriverRunner, say: Say) -> None:
    """Say what becomes of ``runner``, a line for every change, until cancelled."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_published(runner, say))
        group.create_task(_registered(runner, say))


async def _published(runner: DriverRunner, say: Say) -> None:
    told = ""
    while True:
        await runner.slices.wait_published()
        changed = runner.slices.changed()
        devices, slices = runner.slices.published()
        line = f"published {_count(devices, 'device')} in {_count(slices, 'slice')} for node {runner.node_name}"
        if line != told:
            say(line)
        told = line
        await changed.wait()


async def _registered(runner: DriverRunner, say: Say) -> None:
    registration, directory = runner.registration, runner.registry_dir
    if registration is None:
        return
    while True:
        changed = registration.changed()
        if registration.registered:
            say(f"registered with the kubelet at {directory}")
        elif registration.error:
            say(f"the kubelet at {directory} refused the driver: {registration.error}")
        elif registration.registered is None:
            say(f"waiting for a kubelet in {directory}")
        await changed.wait()


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
