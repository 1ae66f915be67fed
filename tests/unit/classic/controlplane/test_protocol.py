"""The kubelet's protocol of 1.31 over sockets: a driver of today's kit and today's node agent speak it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from cathedra.clock import SystemClock
from cathedra.driver.files import DiskFiles
from cathedra.driver.serving.registration import DRA_OF_131
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins.client import ClaimReference, PluginDevice
from cathedra.node.plugins.grpcclient import NO_SERVICE, GRPCPluginClient, PluginServices
from tests.unit.driver.world import NODE, Lamps, in_real_time, running


class OldLamps(Lamps):
    """Serves what a kubelet of 1.31 calls, and nothing else."""

    services = (DRA_OF_131,)


async def test_a_claim_is_prepared_and_let_go_of_by_a_driver_that_names_no_service() -> None:
    world = await in_real_time()
    ref = await world.allocate("c", "lamp-1")
    with tempfile.TemporaryDirectory(prefix="dra-") as directory:
        path = Path(directory)
        runner = world.runner(OldLamps(), files=DiskFiles(), directory=path, registry_dir=path / "registry")
        async with running(runner):
            assert runner.registration is not None
            info = runner.registration.info
            assert info.supported_versions == (NO_SERVICE,)
            clock = SystemClock()
            client = GRPCPluginClient(
                info.name,
                info.endpoint,
                PluginServices(NO_SERVICE),
                clock=clock,
                metrics=NodeMetrics(clock),
            )
            claims = [ClaimReference(ref.namespace, ref.uid, ref.name)]
            outcome = (await client.prepare(claims))[ref.uid]
            (device,) = outcome.devices
            assert isinstance(device, PluginDevice)
            assert (device.pool, device.device, len(device.request_names)) == (NODE, "lamp-1", 1)
            assert len(device.cdi_device_ids) == 1
            assert await client.unprepare(claims) == {ref.uid: ""}
            await client.close()
