"""The example driver on a node of a small world, and what its containers would see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cathedra.api.quantity import Quantity
from cathedra.api.resource import DeviceRequestAllocationResult
from cathedra.driver import DriverRunner, MemoryFiles
from cathedra.drivers.example.driver import DriverOptions, ExampleDriver
from cathedra.drivers.example.profile import DriverProfile
from tests.unit.driver.world import World, result


class Bench:
    """A profile at work without sockets."""

    def __init__(self, world: World, profile: DriverProfile, options: DriverOptions | None = None) -> None:
        self.world = world
        self.files = MemoryFiles()
        self.driver = ExampleDriver(profile, options)
        self.runner: DriverRunner = world.runner(self.driver, files=self.files)
        self.runner.service.open()

    def share(self, device: str, share_id: str | None = None, **amounts: str) -> DeviceRequestAllocationResult:
        """An allocation of a device of the driver; ``amounts``: what was taken of its capacities."""
        consumed = {name.replace("__", "/"): Quantity(amount) for name, amount in amounts.items()}
        return result(
            device, request="one", driver=self.driver.name, share_id=share_id, consumed_capacity=consumed or {}
        )

    async def prepare(self, *devices: DeviceRequestAllocationResult, name: str = "c", **claim: Any) -> str:
        """Prepare a claim; answers the error, "" if there is none."""
        ref = await self.world.allocate(name, *devices, **claim)
        answers = await self.runner.service.node_prepare_resources([ref])
        return answers[ref.uid].error

    async def variables(self, *devices: DeviceRequestAllocationResult, name: str = "c", **claim: Any) -> dict[str, str]:
        """Prepare a claim; answers what its container has in its environment."""
        assert await self.prepare(*devices, name=name, **claim) == ""
        uid = (await self.world.claim(name)).metadata.uid
        (path,) = (
            path
            for path in self.files.contents
            if path.parent == Path("/data/cdi") and path.name.startswith("k8s.") and uid in path.name
        )
        document = json.loads(self.files.contents[path])
        edits = [each["containerEdits"]["env"] for each in document["devices"]]
        return dict(variable.split("=", 1) for env in edits for variable in env)
