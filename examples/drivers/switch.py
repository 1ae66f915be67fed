"""GPUs behind a switch: in no node until one is attached to the node that is to use it.

    cathedra driver-fabric switch:Switch                      # once for the cluster; a second instance waits to lead
    cathedra driver --module switch:Switch --node node-0      # on every node

The switch is made up: a file ($SWITCH) that says to which node each GPU is connected. It needs $SWITCH_SECONDS to
connect one; and a GPU of which it says ``broken`` cannot be connected.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

from cathedra.driver import Attachment, Claim, Device, Edits, FabricDriver, Pool, Prepared, Ref
from cathedra.driver.claim import ClaimedDevice

GPUS = 4


class Switch(FabricDriver):
    """Four GPUs of a rack, for whichever nodes need them."""

    name = "switch.example.com"

    def __init__(self) -> None:
        self.file = Path(os.environ.get("SWITCH", "switch.json"))
        self.seconds = float(os.environ.get("SWITCH_SECONDS", "0.2"))

    def pools(self) -> Pool:
        """All GPUs, wherever they are attached now."""
        return Pool(name="rack-1", devices=[Device(f"gpu-{i}", attributes={"port": i}) for i in range(GPUS)])

    async def attach(self, claim: Claim, device: ClaimedDevice, node: str) -> None:
        """Connect the GPU's port to the node's."""
        ports = self._ports()
        if ports.get(device.device) == "broken":
            raise RuntimeError(f"{device.device} does not answer")
        await asyncio.sleep(self.seconds)
        self._write({**self._ports(), device.device: node})

    async def detach(self, ref: Ref, attachment: Attachment) -> None:
        """Disconnect it, if it is there: it may not have come that far."""
        ports = self._ports()
        if ports.get(attachment.device) == attachment.node:
            del ports[attachment.device]
            self._write(ports)

    def prepare(self, claim: Claim) -> Iterator[Prepared]:
        """On the node: the GPU has arrived on its bus."""
        for gpu in claim.allocations:
            found = self._ports().get(gpu.device)
            if found != self.node_name:
                raise RuntimeError(f"{gpu.device} is attached to {found or 'no node'}, not to {self.node_name}")
            yield gpu.prepared(Edits(env={"SWITCHED_GPU": f"{gpu.device}@{self.node_name}"}))

    def _ports(self) -> dict[str, str]:
        try:
            ports: dict[str, str] = json.loads(self.file.read_text())
        except FileNotFoundError:
            return {}
        return ports

    def _write(self, ports: dict[str, str]) -> None:
        newer = self.file.with_suffix(".new")
        newer.write_text(json.dumps(ports))
        newer.replace(self.file)
