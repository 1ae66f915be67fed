"""Removing the ResourceSlices of drivers that are gone, so that they attract no more pods.

docs/spec/node.md §5. A driver that comes back within the delay keeps its slices untouched; a restart of the
driver therefore disturbs no pod.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.resources import RESOURCESLICES
from cathedra.clock import Clock
from cathedra.node.plugins.registry import PluginRegistry, RegistryListener

__all__ = ["WIPING_DELAY", "SliceWiper"]

WIPING_DELAY: Final = 30.0
"""How long a driver may be away, in seconds."""

_STEPS: Final = 100
_FIRST: Final = 1.0
_JITTER: Final = 0.2
_CAP: Final = 300.0
_LOG = logging.getLogger(__name__)


class SliceWiper:
    """Deletes this node's slices: all of them once at start, and those of a driver when it has been away too long."""

    def __init__(
        self,
        client: Client,
        node_name: str,
        *,
        clock: Clock,
        random: random.Random,
        wait_for_node: Callable[[], Awaitable[object]],
        delay: float = WIPING_DELAY,
    ) -> None:
        self._slices = client.resource(RESOURCESLICES)
        self._node_name = node_name
        self._clock = clock
        self._random = random
        self._wait_for_node = wait_for_node
        self._delay = delay
        self._group: asyncio.TaskGroup | None = None
        self._timers: dict[str, asyncio.Task[None]] = {}
        self._wiped = asyncio.Event()

    async def wait_wiped(self) -> None:
        """Wait until the slices of earlier drivers are gone; those that are published from then on stay."""
        await self._wiped.wait()

    def follow(self, registry: PluginRegistry) -> None:
        """Start and stop timers as drivers of ``registry`` go and come."""
        registry.listen(RegistryListener(on_usable=self._cancel, on_unusable=self._start))

    async def run(self) -> None:
        """Wipe the node's slices once, then serve the timers until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                await self._wipe(f"spec.nodeName={self._node_name}")
                self._wiped.set()
                await asyncio.get_running_loop().create_future()
            finally:
                self._group = None

    def _start(self, driver: str) -> None:
        if driver in self._timers or self._group is None:
            return
        self._timers[driver] = self._group.create_task(self._expire(driver))

    def _cancel(self, driver: str) -> None:
        timer = self._timers.pop(driver, None)
        if timer is not None:
            timer.cancel()

    async def _expire(self, driver: str) -> None:
        await self._clock.sleep(self._delay)
        _LOG.info("driver %s has been away for %.0f s: removing its ResourceSlices", driver, self._delay)
        await self._wipe(f"spec.nodeName={self._node_name},spec.driver={driver}")
        self._timers.pop(driver, None)

    async def _wipe(self, field_selector: str) -> None:
        await self._wait_for_node()
        pause = _FIRST
        for _ in range(_STEPS):
            try:
                await self._slices.delete_collection(field_selector=field_selector)
            except (StatusError, ConnectionError) as error:
                if isinstance(error, StatusError) and error.is_not_found:
                    return
                _LOG.warning("removing ResourceSlices (%s) failed, trying again: %s", field_selector, error)
                await self._clock.sleep(pause * (1 + self._random.random() * _JITTER))
                pause = min(pause * 2, _CAP)
            else:
                return
