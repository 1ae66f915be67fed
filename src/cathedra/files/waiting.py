"""Waiting for a condition over files, which is evaluated after each change of the directories that it is about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from cathedra.files.inotify import Inotify

__all__ = ["wait_for_files"]

_POLL_SECONDS: Final = 1.0
"""Between two evaluations where the kernel has no inotify, or none to spare."""


async def wait_for_files(condition: Callable[[], bool], directories: Sequence[Path]) -> None:
    """Return once ``condition`` holds.

    It is evaluated at the beginning, and after each name that appears in, or vanishes from, one of ``directories``.
    Directories need not exist: name their parents too, so that their own coming and going is noticed.
    """
    try:
        inotify = Inotify()
    except OSError:
        while not condition():  # noqa: ASYNC110 - without inotify there is no event
            await asyncio.sleep(_POLL_SECONDS)
        return
    try:
        while True:
            for directory in directories:
                _watch(inotify, directory)
            # After the directories are watched: what changes from now on is noticed below.
            if condition():
                return
            await _readable(inotify.fd)
            for _ in inotify.read():
                pass
    finally:
        inotify.close()


def _watch(inotify: Inotify, directory: Path) -> None:
    try:
        inotify.watch(directory)
    except OSError:
        return  # not there; its parent is watched


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, _resolve, ready)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


def _resolve(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
