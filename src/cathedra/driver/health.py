"""Device health: reports of a driver, and their distribution to all listeners.

The node agent considers a report valid for a limited time; a device that is not reported again becomes «Unknown». The
SDK therefore listens to the driver once and repeats the last state to every stream in time (docs/spec/driver-sdk.md §8
and §21.4).
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

DEFAULT_TIMEOUT = 30
"""Seconds for which a report is valid by default."""


class Health(enum.Enum):
    """The state of a device."""

    UNKNOWN = 0
    HEALTHY = 1
    UNHEALTHY = 2


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """A report about one device."""

    device: str
    state: Health
    pool: str = ""
    """By default the pool of the device."""
    message: str = ""
    timeout: int | None = None
    """Seconds for which the report is valid."""
    updated_at: float | None = None
    """Time at which the state was determined, in seconds since the epoch; by default that of the report."""


class HealthBoard:
    """The last report about each device, and the listeners to changes."""

    def __init__(self) -> None:
        self._reports: dict[tuple[str, str], DeviceHealth] = {}
        self._changed = asyncio.Event()
        self._valid = True
        self._closed = False

    @property
    def reports(self) -> tuple[DeviceHealth, ...]:
        """The last report about each device."""
        return tuple(self._reports.values())

    def post(self, reports: Iterable[DeviceHealth]) -> None:
        """Store reports; they may cover a part of the devices."""
        self._valid = True
        for report in reports:
            self._reports[report.pool, report.device] = report
        self._wake()

    def suspend(self) -> None:
        """Stop repeating reports after the driver's source has failed, until it reports again."""
        self._valid = False
        self._wake()

    def close(self) -> None:
        """End every `watch`, because the driver ends."""
        self._closed = True
        self._wake()

    async def watch(self) -> AsyncIterator[tuple[DeviceHealth, ...]]:
        """Yield all reports now, at each change, and often enough in between that none expires; until `close`."""
        while not self._closed:
            changed = self._changed
            if self._reports and self._valid:
                yield self.reports
            try:
                async with asyncio.timeout(self._pause()):
                    await changed.wait()
            except TimeoutError:
                continue

    async def changes(self) -> AsyncIterator[tuple[DeviceHealth, ...]]:
        """Yield all reports, now and at each change, until `close`, without regard to their expiry.

        Nothing is yielded while the driver's own source has failed.
        """
        while not self._closed:
            changed = self._changed
            yield self.reports if self._valid else ()
            await changed.wait()

    def _pause(self) -> float:
        timeouts = [report.timeout or DEFAULT_TIMEOUT for report in self._reports.values()]
        return max(min(timeouts, default=DEFAULT_TIMEOUT), 1) / 3

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
