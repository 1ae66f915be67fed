"""Calls of the node agent are written down as they come over gRPC, and fail or wait as ordered."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from cathedra._proto import (
    dra_health_v1_pb2,
    dra_health_v1_pb2_grpc,
    dra_v1beta1_pb2,
    dra_v1beta1_pb2_grpc,
    pluginregistration_v1_pb2,
    pluginregistration_v1_pb2_grpc,
)
from cathedra.clock import SystemClock
from cathedra.driver import DiskFiles, DriverRunner
from cathedra.drivers.example.controls import Orders, write_orders
from cathedra.drivers.example.driver import ExampleDriver
from cathedra.drivers.example.e2e import E2EProfile
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins.registration import PluginRegistrar
from cathedra.node.plugins.registry import PluginRegistry, RegistryListener
from tests.running import beside
from tests.unit.driver.world import World, in_real_time, result, running


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory whose name is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="dra-") as made:
        yield Path(made)


def served(world: World, driver: ExampleDriver, folder: Path) -> DriverRunner:
    return world.runner(driver, files=DiskFiles(), directory=folder, registry_dir=folder / "registry")


def channel_of(folder: Path, pattern: str) -> grpc.aio.Channel[Any, Any]:
    (socket,) = (path for path in folder.rglob(pattern) if path.name != "ctl.sock")
    return grpc.aio.insecure_channel(f"unix:{socket}")


@asynccontextmanager
async def registering(folder: Path) -> AsyncIterator[Any]:
    """A client of the driver's registration."""
    async with channel_of(folder / "registry", "*.sock") as channel:
        yield pluginregistration_v1_pb2_grpc.RegistrationStub(channel)


async def test_requests_answers_errors_and_messages_of_streams_are_written_down(folder: Path) -> None:
    world, driver = await in_real_time(), ExampleDriver(E2EProfile(1))
    ref = await world.allocate("c", result("device-00", driver=driver.name))
    async with asyncio.timeout(120), running(served(world, driver, folder)):
        async with channel_of(folder, "dra.sock") as channel:
            stub: Any = dra_v1beta1_pb2_grpc.DRAPluginStub(channel)
            claim = dra_v1beta1_pb2.Claim(namespace=ref.namespace, name=ref.name, uid=ref.uid)
            await stub.NodePrepareResources(dra_v1beta1_pb2.NodePrepareResourcesRequest(claims=[claim]))
            claim.name = "nowhere"
            with pytest.raises(grpc.aio.AioRpcError):
                await stub.NodePrepareResources(dra_v1beta1_pb2.NodePrepareResourcesRequest(claims=[claim]))
            health: Any = dra_health_v1_pb2_grpc.DRAResourceHealthStub(channel)
            stream = health.NodeWatchResources(dra_health_v1_pb2.NodeWatchResourcesRequest())
            await stream.read()
            stream.cancel()
        prepared, refused, watched = driver.controls.rpcs
    assert prepared.method == refused.method == "v1beta1.DRAPlugin/NodePrepareResources"
    assert f'uid: "{ref.uid}"' in prepared.request
    assert ('device_name: "device-00"' in prepared.response, prepared.error) == (True, "")
    assert (refused.response, "retrieve claim default/nowhere" in refused.error) == ("", True)
    assert watched.method == "v1.DRAResourceHealth/NodeWatchResources"
    assert 'device_name: "device-00"' in watched.response
    lines = driver.controls.carry_out(["rpcs", "NodePrepareResources"])
    assert [line.startswith("v1beta1.DRAPlugin/NodePrepareResources request: {") for line in lines] == [True, True]
    assert driver.controls.carry_out(["rpcs", "v1.DRAPlugin/NodePrepareResources"]) == []


async def test_a_call_that_was_ordered_to_fail_fails_and_one_that_is_blocked_waits(folder: Path) -> None:
    world, driver = await in_real_time(), ExampleDriver(E2EProfile(1))
    async with asyncio.timeout(120), running(served(world, driver, folder)), registering(folder) as stub:
        asked = pluginregistration_v1_pb2.InfoRequest()
        driver.controls.carry_out(["fail", "GetInfo", "not today"])
        with pytest.raises(grpc.aio.AioRpcError, match="not today"):
            await stub.GetInfo(asked)
        driver.controls.carry_out(["release", "GetInfo"])
        driver.controls.carry_out(["block", "GetInfo"])
        waiting = asyncio.ensure_future(stub.GetInfo(asked))
        done, _ = await asyncio.wait((waiting,), timeout=0.2)
        assert not done
        driver.controls.carry_out(["release", "GetInfo"])
        assert (await waiting).name == driver.name
    assert [call.error for call in driver.controls.rpcs] == ["not today", ""]


@pytest.mark.parametrize("call", ["GetInfo", "NotifyRegistrationStatus"])
async def test_a_driver_whose_handshake_fails_is_registered_once_it_does_not(folder: Path, call: str) -> None:
    """N3 of docs/spec/driver-sdk.md §20."""
    world, driver = await in_real_time(), ExampleDriver(E2EProfile(1))
    registry, usable = PluginRegistry(), asyncio.Event()
    registry.listen(RegistryListener(on_usable=lambda _: usable.set(), on_unusable=lambda _: None))
    registrar = PluginRegistrar(
        folder / "registry",
        registry,
        plugins=folder / "plugins",
        clock=SystemClock(),
        metrics=NodeMetrics(SystemClock()),
    )
    own = folder / "plugins" / driver.name
    own.mkdir(parents=True)
    write_orders(own, Orders(failing={call: "not today"}))
    async with beside(registrar.run()), asyncio.timeout(120), running(served(world, driver, folder)) as runner:
        assert runner.registration is not None
        while not driver.controls.carry_out(["rpcs", call]):
            await driver.controls.called()
        assert driver.controls.carry_out(["rpcs", call])[0].endswith("error: not today")
        assert not runner.registration.registered
        driver.controls.carry_out(["release", call])
        await runner.registration.wait_registered(100, "here")
        await usable.wait()
