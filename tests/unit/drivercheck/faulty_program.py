"""A driver as a program of its own, right but for one fault that shows in its process: ``faulty_program FAULT``."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import load
from cathedra.client.resources import RESOURCESLICES
from cathedra.clock import SystemClock
from tests.unit.drivercheck.faulty_driver import NAME, FaultyDriver


class FaultyProgram(FaultyDriver):
    """Keeps a checkpoint, publishes once, and ends at SIGTERM."""

    @property
    def registry(self) -> Path:
        return Path(os.environ["KUBELET_REGISTRAR_DIRECTORY_PATH"])

    @property
    def cdi(self) -> Path:
        return Path(os.environ["CDI_ROOT"])

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint.json"

    def read_checkpoint(self) -> None:
        if self.fault == "forgets its claims" or not self.checkpoint.exists():
            return
        found = json.loads(self.checkpoint.read_text())
        if self.fault == "reads no older checkpoint" and found["version"] != self.fault:
            return
        self.prepared = {uid: [(one[0], one[1], one[2]) for one in held] for uid, held in found["claims"].items()}

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.checkpoint.write_text(json.dumps({"version": self.fault, "claims": self.prepared}))

    async def prepare(self, claim: Any) -> list[tuple[str, str, str]]:
        with self._kept():
            return await super().prepare(claim)

    def unprepare(self, uid: str) -> None:
        if self.fault == "reads no older checkpoint" and uid not in self.prepared:
            return
        with self._kept():
            super().unprepare(uid)

    async def publish(self) -> None:
        slices = self.client.resource(RESOURCESLICES)
        found = (await slices.list()).items
        if self.fault == "deletes all slices":
            for one in found:
                await slices.delete(one.metadata.name)
            found = ()
        if not any(one.spec.node_name == self.node for one in found):
            await super().publish()

    async def node_uid(self) -> str:
        known = self.root / "node-uid"
        if self.fault == "one owner for ever" and known.exists():
            return known.read_text()
        uid = await super().node_uid()
        known.write_text(uid)
        return uid

    async def stop(self) -> None:
        for server in self.servers:
            # With a grace period a stop waits for open streams.
            await server.stop(3600.0 if self.fault == "health without end" else None)


async def main(fault: str) -> None:
    root = Path(os.environ["KUBELET_PLUGINS_DIRECTORY_PATH"]) / NAME
    root.mkdir(parents=True, exist_ok=True)
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    async with await HTTPTransport.open(load(Path(os.environ["KUBECONFIG"]))) as transport:
        driver = FaultyProgram(Client(transport, clock=SystemClock()), root, os.environ["NODE_NAME"], fault)
        driver.instance = os.environ.get("POD_UID", "")[:8]
        driver.read_checkpoint()
        await driver.start()
        await ending.wait()
        await driver.stop()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else ""))
