"""Setting a driver up and running it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from cathedra.api.status import StatusError
from cathedra.client.resources import RESOURCESLICES
from cathedra.client.transport import APICall
from cathedra.driver import Device, Driver, OptionError, PrometheusMetrics, run
from cathedra.driver.preparing.checkpoint import FileLock, NoLock
from cathedra.driver.preparing.specs import vendor_for
from tests.running import run_with
from tests.unit.driver.world import Lamps, World, in_real_time, in_virtual_time, running


@pytest.mark.parametrize(
    ("name", "message"),
    [("", "driver name must be set"), ("Upper.example.com", "must be a DNS subdomain"), ("x" * 64, "at most 63")],
)
@run_with(in_virtual_time)
async def test_wrong_driver_names_are_refused(world: World, *, name: str, message: str) -> None:
    class Named(Driver):
        pass

    driver = Named()
    driver.name = name
    with pytest.raises(OptionError, match=message):
        world.runner(driver)


def test_driver_named_like_no_cdi_vendor_gets_a_prefix() -> None:
    assert vendor_for("gpu.example.com") == "gpu.example.com"
    assert vendor_for("3dfx.example.com") == "k8s.3dfx.example.com"


def test_program_ends_with_a_clear_message_when_its_surroundings_are_wrong(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"lamp\.example\.com: no NodeName was set to publish resources"):
        run(Lamps(), {"KUBECONFIG": str(kubeconfig(tmp_path)), "KUBELET_PLUGINS_DIRECTORY_PATH": str(tmp_path)})


def kubeconfig(directory: Path) -> Path:
    path = directory / "kubeconfig"
    path.write_text(
        """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: u, user: {token: t}}]
"""
    )
    return path


@run_with(in_virtual_time)
async def test_devices_that_cannot_be_found_at_first_end_the_runner(world: World) -> None:
    class Broken(Lamps):
        def devices(self) -> list[Device]:
            raise OSError("no bus")

    driver = Broken()
    with pytest.raises(ExceptionGroup) as failure:
        async with running(world.runner(driver)):
            pass
    assert failure.group_contains(OSError, match="no bus")
    assert driver.errors[-1].startswith("the driver has ended: ")


@run_with(in_virtual_time)
async def test_devices_that_cannot_be_found_later_leave_the_published_ones(world: World) -> None:
    class Flaky(Lamps):
        def devices(self) -> list[Device]:
            if self.faults:
                raise self.faults.pop(0)
            return super().devices()

    driver = Flaky()
    async with running(world.runner(driver)):
        driver.faults = [OSError("no bus")]
        driver.republish()
        await world.clock.sleep(1)
        assert len(await world.slices()) == 1
        assert driver.errors == ["asking the driver for its devices: no bus"]


@run_with(in_virtual_time)
async def test_many_wishes_to_republish_are_one(world: World) -> None:
    class Counting(Lamps):
        asked = 0

        def devices(self) -> list[Device]:
            self.asked += 1
            return super().devices()

    driver = Counting()
    async with running(world.runner(driver)):
        for _ in range(10):
            driver.republish()
        await world.clock.sleep(1)
        assert driver.asked == 2


@run_with(in_virtual_time)
async def test_prepared_claims_are_counted(world: World) -> None:
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry, "dra_example_driver")

    def value(name: str, result: str) -> float | None:
        return registry.get_sample_value(f"dra_example_driver_{name}_total", {"result": result})

    lamps = Lamps()
    service = world.runner(lamps, observer=metrics).service
    assert value("prepare_claims", "error") == 0
    ref = await world.allocate("c", "lamp-0")
    lamps.faults = [RuntimeError("no")]
    await service.node_prepare_resources([ref])
    await service.node_prepare_resources([ref])
    await service.node_unprepare_resources([ref])
    assert (value("prepare_claims", "error"), value("prepare_claims", "success")) == (1, 1)
    assert value("unprepare_claims", "success") == 1


async def test_file_lock_keeps_two_instances_apart(tmp_path: Path) -> None:
    world = await in_real_time()
    first, second = FileLock(tmp_path, world.clock), FileLock(tmp_path, world.clock)
    order: list[str] = []

    async def enter() -> None:
        async with second.held():
            order.append("second")

    async with first.held():
        task = asyncio.ensure_future(enter())
        await asyncio.sleep(0.05)
        order.append("first")
    await task
    assert order == ["first", "second"]
    assert (tmp_path / "serialize.lock").exists()


async def test_driver_that_looks_after_itself_is_not_held_up() -> None:
    lock = NoLock()
    async with lock.held(), lock.held():
        pass


async def newest(world: World) -> str:
    """Return the newest version of the group on the server, without the negotiation of a client."""
    for version in ("v1", "v1beta2", "v1beta1"):
        try:
            ref = msgspec.structs.replace(RESOURCESLICES, version=version)
            await world.server.transport().call(APICall("list", ref))
        except StatusError:
            continue
        return version
    return ""


@pytest.mark.parametrize(("release", "version"), [("1.37", "v1"), ("1.33", "v1beta2"), ("1.32", "v1beta1")])
def test_a_driver_publishes_and_prepares_with_the_newest_version_that_the_server_has(
    release: str, version: str
) -> None:
    """v1, then v1beta2, then v1beta1 (docs/spec/driver-sdk.md §15)."""

    async def test(world: World) -> None:
        assert await newest(world) == version
        lamps = Lamps(2)
        async with running(world.runner(lamps)) as runner:
            (found,) = await world.slices()
            assert [device.name for device in found.spec.devices] == ["lamp-0", "lamp-1"]
            ref = await world.allocate("c", "lamp-0")
            answers = await runner.service.node_prepare_resources([ref])
            assert (answers[ref.uid].error, lamps.errors) == ("", [])

    in_virtual_time(test, release)
