"""Drivers: a claim that is prepared and unprepared through the plugin socket, as a kubelet does it.

The caller, the driver and an API server in memory are one process, and files are on this machine's disk. A figure is
the median of `ROUNDS` claims, one after the other. Calls of ``fsync`` are counted, because a disk that takes long for
them decides how long the rest takes.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cathedra.api import resource
from cathedra.api.core.core_v1 import Node
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.resources import NODES, RESOURCECLAIMS
from cathedra.clock import Clock, SystemClock
from cathedra.driver import Device, Driver, Edits
from cathedra.driver.claim import Claim
from cathedra.driver.kit.bench import MemoryAPI
from cathedra.driver.run import DriverPlacement, DriverRunner
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins.client import ClaimReference
from cathedra.node.plugins.grpcclient import GRPCPluginClient, PluginServices

__all__ = ["rows"]

Row = tuple[str, float, str, str | float | None, str | float | None]

ROUNDS: Final = 300
WARM: Final = 20
NAMESPACE: Final = "default"
SERVICE: Final = "v1.DRAPlugin"
GO_DRIVER: Final = 2.6
"""Milliseconds of the same with the Go driver of the Kubernetes project, against Cathedra's API server."""
MOST_SYNCS: Final = 2
"""One for the checkpoint, one for the CDI document."""


def rows() -> Iterator[Row]:
    """The times of both calls, and the calls of ``fsync`` of both together."""
    prepare, unprepare, syncs = asyncio.run(_measured(SystemClock()))
    yield "driver/Prepare/through the plugin socket, median", prepare * 1000, "ms", GO_DRIVER, GO_DRIVER
    yield "driver/Unprepare/through the plugin socket, median", unprepare * 1000, "ms", None, None
    yield "driver/PrepareAndUnprepare/fsyncs", syncs, "", 1.7, MOST_SYNCS


class _Lamps(Driver):
    """Four devices, each with a variable for the container."""

    name = "lamp.example.com"

    def devices(self) -> list[Device]:
        return [Device(f"lamp-{number}", {"index": number}) for number in range(4)]

    def prepare(self, claim: Claim) -> Any:
        for one in claim.allocations:
            yield one.prepared(Edits(env={"LAMP": one.device}))


async def _measured(clock: Clock) -> tuple[float, float, float]:
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    client = Client(MemoryAPI(), clock=clock)
    placement = DriverPlacement(
        node_name="node-0",
        plugin_dir=folder / "plugin",
        registry_dir=folder / "registry",
        cdi_dir=folder / "cdi",
        boot_id="boot",
    )
    await client.resource(NODES).create(Node(metadata=ObjectMeta(name="node-0")))
    runner = DriverRunner(_Lamps(), client, placement, clock=clock, random=random.Random(1))
    running = asyncio.ensure_future(runner.run())
    try:
        await runner.slices.wait_published()
        plugin = GRPCPluginClient(
            _Lamps.name,
            str(next((folder / "plugin").glob("*.sock"))),
            PluginServices(SERVICE),
            clock=clock,
            metrics=NodeMetrics(clock),
        )
        with _counted_syncs() as syncs:
            times = [await _round(client, plugin, number, clock) for number in range(WARM + ROUNDS)]
        await plugin.close()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        shutil.rmtree(folder, ignore_errors=True)
    prepares, unprepares = zip(*times[WARM:], strict=True)
    return statistics.median(prepares), statistics.median(unprepares), len(syncs) / len(times)


async def _round(client: Client, plugin: GRPCPluginClient, number: int, clock: Clock) -> tuple[float, float]:
    claims = client.resource(RESOURCECLAIMS, NAMESPACE)
    request = resource.DeviceRequest(name="lamp", exactly=resource.ExactDeviceRequest(device_class_name=_Lamps.name))
    made = await claims.create(
        resource.ResourceClaim(
            metadata=ObjectMeta(name=f"claim-{number}"),
            spec=resource.ResourceClaimSpec(devices=resource.DeviceClaim(requests=(request,))),
        )
    )
    result = resource.DeviceRequestAllocationResult(
        request="lamp", driver=_Lamps.name, pool="node-0", device=f"lamp-{number % 4}"
    )
    allocation = resource.AllocationResult(devices=resource.DeviceAllocationResult(results=(result,)))
    await claims.update_status(replace(made, status=resource.ResourceClaimStatus(allocation=allocation)))
    reference = ClaimReference(NAMESPACE, made.metadata.uid, made.metadata.name)
    began = clock.monotonic()
    answers = await plugin.prepare([reference])
    prepared = clock.monotonic()
    assert not answers[made.metadata.uid].error
    await plugin.unprepare([reference])
    ended = clock.monotonic()
    await claims.delete(made.metadata.name)
    return prepared - began, ended - prepared


@contextmanager
def _counted_syncs() -> Iterator[list[int]]:
    """Collect the descriptors of all calls of ``fsync`` and ``fdatasync`` of this process."""
    found: list[int] = []
    known = {name: getattr(os, name) for name in ("fsync", "fdatasync")}

    def counting(name: str) -> Any:
        def sync(descriptor: int) -> None:
            found.append(descriptor)
            known[name](descriptor)

        return sync

    for name in known:
        setattr(os, name, counting(name))
    try:
        yield found
    finally:
        for name, function in known.items():
            setattr(os, name, function)
