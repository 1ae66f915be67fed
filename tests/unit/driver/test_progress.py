"""Progress lines of a driver."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cathedra.driver.errors import RegistrationFailed
from cathedra.driver.progress import print_progress
from cathedra.driver.serving.registration import PluginInfo, Registration
from tests.running import beside


class Slices:
    """The part of the publisher that progress reads."""

    def __init__(self) -> None:
        self.counts = (4, 1)
        self.event = asyncio.Event()

    async def wait_published(self) -> None:
        return

    def changed(self) -> asyncio.Event:
        return self.event

    def published(self) -> tuple[int, int]:
        return self.counts


async def test_every_change_is_a_line() -> None:
    said: asyncio.Queue[str] = asyncio.Queue()
    slices, registration = Slices(), Registration(PluginInfo("d", "/s", ("v1",)))
    runner: Any = SimpleNamespace(
        slices=slices, registration=registration, registry_dir=Path("/registry"), node_name="n1"
    )
    async with beside(print_progress(runner, said.put_nowait)):
        async with asyncio.timeout(120):
            assert {await said.get(), await said.get()} == {
                "published 4 devices in 1 slice for node n1",
                "waiting for a kubelet in /registry",
            }
            with pytest.raises(RegistrationFailed):
                registration.notify(registered=False, error="too old")
            assert await said.get() == "the kubelet at /registry refused the driver: too old"
            registration.notify(registered=True, error="")
            assert await said.get() == "registered with the kubelet at /registry"
            slices.counts, former, slices.event = (1, 1), slices.event, asyncio.Event()
            former.set()
            assert await said.get() == "published 1 device in 1 slice for node n1"
