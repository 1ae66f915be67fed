"""Nodes that fail on purpose: simulated ones, to see what scheduler, controllers and claims make of it.

``cathedra up --runtime simulated --fail PROFILE[=SHARE]``. What happens when follows from the cluster's random numbers,
so a simulation repeats.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Final

from cathedra.clock import Clock
from cathedra.cluster.config import DYING_DEVICES, FLAPPING, NodeFault
from cathedra.drivers.example.controls import Controls
from cathedra.node.plugins.client import ClaimReference, PluginClient, PrepareOutcome

__all__ = ["NodeFailures", "SlowPlugin", "fails"]

HEARD_SECONDS: Final = (60.0, 240.0)
SILENT_SECONDS: Final = (60.0, 180.0)
"""Longer than a node may be silent before it counts as lost (40 s), shorter than its pods wait (300 s)."""
PREPARE_SECONDS: Final = (5.0, 60.0)
ALIVE_SECONDS: Final = (60.0, 300.0)
"""How long until the next device of a node dies."""
DEAD_SECONDS: Final = 600.0
"""How long until it is replaced."""
TAINT: Final = "simulated.cathedra.dev/dead"


def fails(faults: Iterable[NodeFault], number: int) -> frozenset[str]:
    """The ways in which the node of that number (from 0) fails; a share is spread evenly, the first has all."""
    return frozenset(
        fault.profile for fault in faults if math.ceil((number + 1) * fault.share) > math.ceil(number * fault.share)
    )


class NodeFailures:
    """What makes one node fail, for as long as `run` runs."""

    def __init__(self, profiles: frozenset[str], heard: asyncio.Event, *, clock: Clock, random: Random) -> None:
        """``heard`` is set while the node tells that it lives."""
        self._profiles = profiles
        self._heard = heard
        self._clock = clock
        self._random = random

    async def run(self, controls: Sequence[Controls]) -> None:
        """Fail until cancelled; ``controls`` are those of the node's drivers."""
        async with asyncio.TaskGroup() as group:
            if FLAPPING in self._profiles:
                group.create_task(self._flap())
            if DYING_DEVICES in self._profiles:
                for each in controls:
                    group.create_task(self._kill_devices(each))

    async def _flap(self) -> None:
        while True:
            await self._clock.sleep(self._random.uniform(*HEARD_SECONDS))
            self._heard.clear()
            await self._clock.sleep(self._random.uniform(*SILENT_SECONDS))
            self._heard.set()

    async def _kill_devices(self, controls: Controls) -> None:
        async with asyncio.TaskGroup() as group:
            dead: set[str] = set()
            while True:
                await self._clock.sleep(self._random.uniform(*ALIVE_SECONDS))
                alive = [report.device for report in controls.health() if report.device not in dead]
                if alive:
                    group.create_task(self._die(controls, self._random.choice(alive), dead))

    async def _die(self, controls: Controls, device: str, dead: set[str]) -> None:
        dead.add(device)
        controls.carry_out(("health", device, "Unhealthy", "it has died, as was asked for"))
        controls.carry_out(("taint", device, f"{TAINT}:NoExecute"))
        await self._clock.sleep(DEAD_SECONDS)
        controls.carry_out(("untaint", device, TAINT))
        controls.carry_out(("health", device, "Healthy"))
        dead.discard(device)


class SlowPlugin:
    """A driver that takes its time to prepare claims."""

    def __init__(self, plugin: PluginClient, *, clock: Clock, random: Random) -> None:
        self._plugin = plugin
        self._clock = clock
        self._random = random

    async def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareOutcome]:
        """Make the claims' devices ready, some time later."""
        await self._clock.sleep(self._random.uniform(*PREPARE_SECONDS))
        return await self._plugin.prepare(claims)

    async def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, str]:
        """Let go of the claims at once."""
        return await self._plugin.unprepare(claims)
