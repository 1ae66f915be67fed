"""Asks a driver for its devices, and again whenever it says that they have changed.

The first answer decides whether the driver starts at all; a later one that fails leaves published what was, until the
driver's author has corrected it (docs/spec/driver-sdk.md §10).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from cathedra.clock import Clock
from cathedra.driver.publishing.controller import ErrorHandler, ResourceSliceController
from cathedra.driver.publishing.layout import DesiredPool

__all__ = ["REPUBLISH_PAUSE", "keep_published"]

REPUBLISH_PAUSE: Final = 0.05
"""Seconds in which further calls of `Driver.republish` are counted as one."""


async def keep_published(
    slices: ResourceSliceController,
    desired: Callable[[], Awaitable[Mapping[str, DesiredPool]]],
    wanted: asyncio.Event,
    *,
    clock: Clock,
    on_error: ErrorHandler,
) -> None:
    """Hand what ``desired`` answers to ``slices``, now and after each time that ``wanted`` is set, until cancelled.

    Raises:
        Exception: what ``desired`` raises at the first attempt.
    """
    slices.update(await desired())
    while True:
        await wanted.wait()
        await clock.sleep(REPUBLISH_PAUSE)
        wanted.clear()
        try:
            slices.update(await desired())
        except Exception as error:
            on_error(error, "asking the driver for its devices")
