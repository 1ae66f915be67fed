"""Progress lines of a driver: number of published devices, and registration with the kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cathedra.driver.publishing.controller import ResourceSliceController
    from cathedra.driver.run import DriverRunner

Say = Callable[[str], None]


async def print_progress(runner: DriverRunner, say: Say) -> None:
    """Print a line for every change of ``runner``, until cancelled."""
    async with asyncio.TaskGroup() as group:
        group.create_task(print_published(runner.slices, say, place=f" for node {runner.node_name}"))
        group.create_task(_registered(runner, say))


async def print_published(slices: ResourceSliceController, say: Say, prefix: str = "", *, place: str = "") -> None:
    """Print the number of published devices whenever it changes, until cancelled."""
    told = ""
    while True:
        await slices.wait_published()
        changed = slices.changed()
        devices, parts = slices.published()
        line = f"{prefix}published {_count(devices, 'device')} in {_count(parts, 'slice')}{place}"
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
