"""The driver SDK and the node agent meet on the kubelet's sockets alone."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cathedra.cdi.catalogue import load
from cathedra.client.resources import RESOURCESLICES
from cathedra.clock import SystemClock
from cathedra.driver import DiskFiles
from cathedra.drivers.gpu import GpuDriver
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins.client import ClaimReference
from cathedra.node.plugins.registration import PluginRegistrar
from cathedra.node.plugins.registry import PluginRegistry, RegistryListener
from tests.running import beside
from tests.unit.driver.world import NODE, in_real_time, result, running


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory whose name is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="dra-") as made:
        yield Path(made)


async def test_gpu_driver_registers_prepares_and_comes_back_after_a_restart(directory: Path) -> None:
    world = await in_real_time()
    ref = await world.allocate("c", result("gpu-1", request="gpu", driver="gpu.example.com"))
    claim = ClaimReference(ref.namespace, ref.uid, ref.name)
    registry = PluginRegistry()
    usable, unusable = asyncio.Event(), asyncio.Event()
    registry.listen(RegistryListener(on_usable=lambda _: usable.set(), on_unusable=lambda _: unusable.set()))
    registrar = PluginRegistrar(
        directory / "registry", registry, plugins=directory, clock=SystemClock(), metrics=NodeMetrics(SystemClock())
    )
    async with beside(registrar.run()):
        async with asyncio.timeout(120):
            for _ in range(2):
                runner = world.runner(
                    GpuDriver(), files=DiskFiles(), directory=directory, registry_dir=directory / "registry"
                )
                async with running(runner):
                    await runner.wait_ready()
                    await usable.wait()
                    client = registry.get("gpu.example.com").client
                    outcome = (await client.prepare([claim]))[ref.uid]
                    assert outcome.error == ""
                    (device,) = outcome.devices
                    assert (device.pool, device.device, device.request_names) == (NODE, "gpu-1", ("gpu",))
                    edits = load([directory / "cdi"]).edits(device.cdi_device_ids)
                    assert "GPU_DEVICE_1=gpu-1" in edits.env
                    assert f"KUBERNETES_NODE_NAME={NODE}" in edits.env
                    assert [mount.container_path for mount in edits.mounts] == [
                        "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/c/gpu/gpu.example.com-metadata.json"
                    ]
                    usable.clear()
                await unusable.wait()
                unusable.clear()


async def test_slices_that_a_restarted_agent_deletes_are_back_in_seconds(directory: Path) -> None:
    world = await in_real_time()
    registry = PluginRegistry()
    runner = world.runner(GpuDriver(), files=DiskFiles(), directory=directory, registry_dir=directory / "registry")

    async def agent() -> None:
        registrar = PluginRegistrar(
            directory / "registry", registry, plugins=directory, clock=SystemClock(), metrics=NodeMetrics(SystemClock())
        )
        await registrar.run()

    async with asyncio.timeout(120), running(runner):
        for _ in range(2):
            assert runner.registration is not None
            told = runner.registration.changed()
            async with beside(agent()):
                await world.client.resource(RESOURCESLICES).delete_collection(field_selector=f"spec.nodeName={NODE}")
                await told.wait()
                began = SystemClock().monotonic()
                while not await world.slices():  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
                assert SystemClock().monotonic() - began < 20  # 30 without the node agent's word
