"""The driver on its sockets, called as a kubelet calls it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from cathedra._proto import (
    dra_health_v1_pb2,
    dra_health_v1_pb2_grpc,
    dra_health_v1alpha1_pb2,
    dra_health_v1alpha1_pb2_grpc,
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    dra_v1beta1_pb2,
    dra_v1beta1_pb2_grpc,
    pluginregistration_v1_pb2,
    pluginregistration_v1_pb2_grpc,
)
from cathedra.driver import (
    Device,
    DeviceHealth,
    DiskFiles,
    Driver,
    DriverRunner,
    Edits,
    Health,
    OptionError,
    Pool,
    RegistrationFailed,
)
from cathedra.driver.serving.registration import supported_services
from tests.unit.driver.world import NODE, SHARES, Lamps, World, in_real_time, result, running


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A directory whose name is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="dra-") as directory:
        yield Path(directory)


def served(world: World, driver: Driver, directory: Path, **options: Any) -> DriverRunner:
    return world.runner(driver, files=DiskFiles(), directory=directory, registry_dir=directory / "registry", **options)


def sockets_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*.sock"))


@asynccontextmanager
async def calling(socket: str | Path) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        yield channel


async def test_a_driver_may_serve_fewer_versions(sockets: Path) -> None:
    class Old(Lamps):
        services = ("v1beta1.DRAPlugin",)

    world = await in_real_time()
    async with running(served(world, Old(), sockets)) as runner:
        assert runner.registration is not None
        info = runner.registration.info
        assert info.supported_versions == ("v1beta1.DRAPlugin",)
        async with grpc.aio.insecure_channel(f"unix:{info.endpoint}") as channel:
            old: Any = dra_v1beta1_pb2_grpc.DRAPluginStub(channel)
            assert not (await old.NodePrepareResources(dra_v1beta1_pb2.NodePrepareResourcesRequest())).claims
            new: Any = dra_v1_pb2_grpc.DRAPluginStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await new.NodePrepareResources(dra_v1_pb2.NodePrepareResourcesRequest())
            assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("services", "complaint"),
    [
        ((), "no supported DRA gRPC API is implemented and enabled"),
        (("v1.DRAPlugin", "v9.DRAPlugin"), "unknown gRPC services \\['v9.DRAPlugin'\\]"),
    ],
)
def test_services_that_make_no_sense_are_refused(services: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        supported_services(services, health=False)


async def test_handshake_names_the_driver_its_socket_and_its_services(sockets: Path) -> None:
    world = await in_real_time()
    async with running(served(world, Lamps(), sockets)) as runner:
        async with calling(sockets / "registry/lamp.example.com-reg.sock") as channel:
            registrar = pluginregistration_v1_pb2_grpc.RegistrationStub(channel)
            info = await registrar.GetInfo(pluginregistration_v1_pb2.InfoRequest())
            assert (info.type, info.name) == ("DRAPlugin", "lamp.example.com")
            assert info.endpoint == str(sockets / "plugins/lamp.example.com/dra.sock")
            assert list(info.supported_versions) == ["v1.DRAPlugin", "v1beta1.DRAPlugin"]
            await registrar.NotifyRegistrationStatus(
                pluginregistration_v1_pb2.RegistrationStatus(plugin_registered=True)
            )
        await runner.wait_ready()
    assert sockets_in(sockets) == []


async def test_refusal_is_answered_with_an_error_and_is_not_final(sockets: Path) -> None:
    world = await in_real_time()
    async with running(served(world, Lamps(), sockets)) as runner:
        registration = runner.registration
        assert registration is not None
        async with calling(sockets / "registry/lamp.example.com-reg.sock") as channel:
            registrar = pluginregistration_v1_pb2_grpc.RegistrationStub(channel)
            with pytest.raises(grpc.aio.AioRpcError, match="failed registration process: boom"):
                await registrar.NotifyRegistrationStatus(pluginregistration_v1_pb2.RegistrationStatus(error="boom"))
            with pytest.raises(RegistrationFailed, match="boom"):
                await registration.wait_registered(0.01, "there")
            await registrar.NotifyRegistrationStatus(
                pluginregistration_v1_pb2.RegistrationStatus(plugin_registered=True)
            )
        await registration.wait_registered(1, "there")


async def test_both_versions_prepare_and_only_the_newer_knows_shares(sockets: Path) -> None:
    world = await in_real_time()
    ref = await world.allocate("c", result("lamp-0", request="lamp/bright", share_id=SHARES[0]))
    async with (
        running(served(world, Lamps(), sockets)),
        calling(sockets / "plugins/lamp.example.com/dra.sock") as channel,
    ):
        claims: Any = [{"namespace": ref.namespace, "name": ref.name, "uid": ref.uid}]
        new = await dra_v1_pb2_grpc.DRAPluginStub(channel).NodePrepareResources(
            dra_v1_pb2.NodePrepareResourcesRequest(claims=claims)
        )
        old = await dra_v1beta1_pb2_grpc.DRAPluginStub(channel).NodePrepareResources(
            dra_v1beta1_pb2.NodePrepareResourcesRequest(claims=claims)
        )
        (device,) = new.claims[ref.uid].devices
        assert (device.pool_name, device.device_name, list(device.request_names)) == (NODE, "lamp-0", ["lamp"])
        assert device.share_id == SHARES[0]
        assert "share_id" not in dra_v1beta1_pb2.Device.DESCRIPTOR.fields_by_name
        assert list(old.claims[ref.uid].devices[0].cdi_device_ids) == list(device.cdi_device_ids)
        done = await dra_v1_pb2_grpc.DRAPluginStub(channel).NodeUnprepareResources(
            dra_v1_pb2.NodeUnprepareResourcesRequest(claims=claims)
        )
        assert (
            done.SerializeToString()
            == b"\x0a" + bytes([len(ref.uid) + 4, 10, len(ref.uid)]) + ref.uid.encode() + b"\x12\x00"
        )


async def test_errors_of_one_claim_and_of_a_whole_call_are_told_apart(sockets: Path) -> None:
    world = await in_real_time()
    lamps = Lamps()
    lamps.faults = [RuntimeError("stuck")]
    ref = await world.allocate("c", "lamp-0")
    async with (
        running(served(world, lamps, sockets)),
        calling(sockets / "plugins/lamp.example.com/dra.sock") as channel,
    ):
        stub = dra_v1_pb2_grpc.DRAPluginStub(channel)
        answer = await stub.NodePrepareResources(
            dra_v1_pb2.NodePrepareResourcesRequest(claims=[{"namespace": "default", "name": "c", "uid": ref.uid}])
        )
        assert answer.claims[ref.uid].error == "stuck"
        with pytest.raises(grpc.aio.AioRpcError, match="claim default/c got replaced"):
            await stub.NodePrepareResources(
                dra_v1_pb2.NodePrepareResourcesRequest(claims=[{"namespace": "default", "name": "c", "uid": "other"}])
            )
        assert not (await stub.NodePrepareResources(dra_v1_pb2.NodePrepareResourcesRequest())).claims


class Watchful(Lamps):
    def __init__(self) -> None:
        super().__init__()
        self.errors: list[tuple[Exception, bool]] = []

    def on_error(self, error: Exception, message: str, *, recoverable: bool) -> None:
        self.errors.append((error, recoverable))


@pytest.mark.parametrize("broken", ["registry", "plugins/lamp.example.com"])
async def test_a_listener_that_breaks_ends_the_driver_which_hears_why(sockets: Path, broken: str) -> None:
    """N13 of docs/spec/driver-sdk.md §20, as far as there is such a thing: gRPC's servers break only at their start."""
    place = sockets / broken
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("in the way of the socket's directory")
    driver = Watchful()
    with pytest.raises(OSError, match=str(place)) as ended:
        await served(await in_real_time(), driver, sockets).run()
    assert driver.errors == [(ended.value, False)]
    assert sockets_in(sockets) == [], "the other server has ended too"


async def test_driver_without_health_answers_unimplemented(sockets: Path) -> None:
    world = await in_real_time()
    async with (
        running(served(world, Lamps(), sockets)),
        calling(sockets / "plugins/lamp.example.com/dra.sock") as channel,
    ):
        stream = dra_health_v1_pb2_grpc.DRAResourceHealthStub(channel).NodeWatchResources(
            dra_health_v1_pb2.NodeWatchResourcesRequest()
        )
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await stream.read()
        assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED


class Monitored(Lamps):
    """Lamps with a thermometer."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: asyncio.Queue[DeviceHealth] = asyncio.Queue()

    async def health(self) -> AsyncIterator[list[DeviceHealth]]:
        while True:
            yield [await self.reports.get()]


async def test_health_reaches_streams_of_both_versions(sockets: Path) -> None:
    world = await in_real_time()
    driver = Monitored()
    async with running(served(world, driver, sockets)) as runner:
        assert runner.registration is not None
        assert runner.registration.info.supported_versions[2:] == ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
        async with calling(sockets / "plugins/lamp.example.com/dra.sock") as channel:
            new = dra_health_v1_pb2_grpc.DRAResourceHealthStub(channel).NodeWatchResources(
                dra_health_v1_pb2.NodeWatchResourcesRequest()
            )
            old = dra_health_v1alpha1_pb2_grpc.DRAResourceHealthStub(channel).NodeWatchResources(
                dra_health_v1alpha1_pb2.NodeWatchResourcesRequest()
            )
            driver.reports.put_nowait(DeviceHealth("lamp-0", Health.HEALTHY))
            assert [(await stream.read()).devices[0].health for stream in (new, old)] == [1, 1]
            driver.reports.put_nowait(DeviceHealth("lamp-0", Health.UNHEALTHY, message="hot", timeout=60))
            (device,) = (await new.read()).devices
            assert (device.device.pool_name, device.device.device_name) == (NODE, "lamp-0")
            assert (device.health, device.message, device.health_check_timeout_seconds) == (2, "hot", 60)
            assert device.last_updated_time > 0


async def test_driver_that_goes_away_ends_its_health_streams(sockets: Path) -> None:
    world = await in_real_time()
    async with calling(sockets / "plugins/lamp.example.com/dra.sock") as channel:
        driver = Monitored()
        async with running(served(world, driver, sockets)):
            stream = dra_health_v1_pb2_grpc.DRAResourceHealthStub(channel).NodeWatchResources(
                dra_health_v1_pb2.NodeWatchResourcesRequest()
            )
            driver.reports.put_nowait(DeviceHealth("lamp-0", Health.HEALTHY))
            await stream.read()
            start = world.clock.monotonic()
        assert world.clock.monotonic() - start < 2
        assert await stream.read() is grpc.aio.EOF


async def test_two_instances_serve_side_by_side_and_share_what_is_prepared(sockets: Path) -> None:
    world = await in_real_time()
    ref = await world.allocate("c", "lamp-0")
    first, second = Lamps(), Lamps()
    async with running(served(world, second, sockets, pod_uid="uid-2")) as new:
        async with running(served(world, first, sockets, pod_uid="uid-1")) as old:
            assert sockets_in(sockets / "registry") == [
                "lamp.example.com-uid-1-reg.sock",
                "lamp.example.com-uid-2-reg.sock",
            ]
            await old.service.node_prepare_resources([ref])
        answer = await new.service.node_prepare_resources([ref])
        assert answer[ref.uid].error == ""
        await new.service.node_unprepare_resources([ref])
    assert (first.calls, second.calls) == (["prepare c"], ["unprepare c ['lamp-0']"])


async def test_socket_left_by_a_killed_process_is_replaced(sockets: Path) -> None:
    (sockets / "registry").mkdir()
    (sockets / "registry/lamp.example.com-reg.sock").touch()
    world = await in_real_time()
    async with (
        running(served(world, Lamps(), sockets)),
        calling(sockets / "registry/lamp.example.com-reg.sock") as channel,
    ):
        stub = pluginregistration_v1_pb2_grpc.RegistrationStub(channel)
        assert (await stub.GetInfo(pluginregistration_v1_pb2.InfoRequest())).name == "lamp.example.com"


class Racked(Monitored):
    """Lamps of two pools, neither of them named after the node."""

    def resources(self) -> list[Pool]:
        return [Pool([Device("lamp-0")], name="upper"), Pool([Device("lamp-1"), Device("lamp-0")], name="lower")]


async def test_health_without_a_pool_is_that_of_the_pool_with_the_device(sockets: Path) -> None:
    world = await in_real_time()
    driver = Racked()
    async with running(served(world, driver, sockets)) as runner:
        await runner.slices.wait_published()
        async with calling(sockets / "plugins/lamp.example.com/dra.sock") as channel:
            stream = dra_health_v1_pb2_grpc.DRAResourceHealthStub(channel).NodeWatchResources(
                dra_health_v1_pb2.NodeWatchResourcesRequest()
            )
            driver.reports.put_nowait(DeviceHealth("lamp-1", Health.HEALTHY))
            (device,) = (await stream.read()).devices
            assert device.device.pool_name == "lower"
            driver.reports.put_nowait(DeviceHealth("lamp-0", Health.HEALTHY))
            await stream.read()
            driver.reports.put_nowait(DeviceHealth("lamp-7", Health.HEALTHY))
            await stream.read()
            assert driver.errors == [
                'reporting the health of a device: device "lamp-0": it is in the pools upper, lower; name one',
                'reporting the health of a device: device "lamp-7": no such device is published',
            ]


async def condition(met: Callable[[], bool]) -> None:
    """Wait for something that the driver's tasks and gRPC's threads do."""
    async with asyncio.timeout(60):
        while not met():  # noqa: ASYNC110 - gRPC's threads set no event
            await asyncio.sleep(0.01)


def remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


@pytest.mark.parametrize("removed", ["the registration socket", "its directory", "the service socket", "everything"])
async def test_sockets_that_are_removed_are_made_again(sockets: Path, removed: str) -> None:
    world = await in_real_time()
    runner = served(world, Lamps(), sockets)
    async with running(runner):
        assert runner.registration is not None
        service = Path(runner.registration.info.endpoint)
        (registration,) = (sockets / "registry").glob("*.sock")
        await runner.slices.wait_published()
        targets = {
            "the registration socket": [registration],
            "its directory": [sockets / "registry"],
            "the service socket": [service],
            "everything": [sockets / "registry", service.parent],
        }
        remove(*targets[removed])
        await condition(lambda: registration.exists() and service.exists())
        ref = await world.allocate("c", "lamp-0")
        async with calling(registration) as channel:
            stub = pluginregistration_v1_pb2_grpc.RegistrationStub(channel)
            info = await stub.GetInfo(pluginregistration_v1_pb2.InfoRequest(), wait_for_ready=True)
        async with calling(info.endpoint) as channel:
            claims: Any = [{"namespace": ref.namespace, "name": ref.name, "uid": ref.uid}]
            request = dra_v1_pb2.NodePrepareResourcesRequest(claims=claims)
            answer = await dra_v1_pb2_grpc.DRAPluginStub(channel).NodePrepareResources(request, wait_for_ready=True)
            assert answer.claims[ref.uid].error == ""
    assert sockets_in(sockets) == []


async def test_cdi_documents_that_are_removed_are_written_again(sockets: Path) -> None:
    class Common(Lamps):
        def common_edits(self) -> Edits:
            return Edits(env={"LAMPS": "yes"})

    world = await in_real_time()
    runner = served(world, Common(), sockets)
    async with running(runner):
        ref = await world.allocate("c", "lamp-0")
        assert (await runner.service.node_prepare_resources([ref]))[ref.uid].error == ""
        documents = {path: path.read_bytes() for path in (sockets / "cdi").iterdir()}
        assert len(documents) == 2
        for path in documents:
            path.unlink()
        await condition(lambda: all(path.exists() for path in documents))
        shutil.rmtree(sockets / "cdi")
        await condition(lambda: all(path.exists() for path in documents))
        assert {path: path.read_bytes() for path in documents} == documents
        await runner.service.node_unprepare_resources([ref])
        await asyncio.sleep(0)
        assert len(list((sockets / "cdi").iterdir())) == 1
