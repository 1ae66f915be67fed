"""ResourceSlices in the cluster follow what the driver offers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from cathedra.api import resource
from cathedra.api.core import core_v1, meta_v1
from cathedra.api.struct import replace
from cathedra.client.resources import NODES, RESOURCESLICES
from cathedra.driver import Device, DroppedFieldsError, Pool, Version
from cathedra.driver.publishing.controller import ResourceSliceController, keep_published
from cathedra.driver.publishing.layout import DesiredPool, DesiredSlice
from tests.running import run_with
from tests.unit.driver.world import DRIVER, NODE, Lamps, World, in_virtual_time, running
from tests.unit.spoiled import SPOILED, SpoiledTransport


@run_with(in_virtual_time)
async def test_first_publication_makes_one_slice_owned_by_the_node(world: World) -> None:
    async with running(world.runner(Lamps(2))):
        (found,) = await world.slices()
    node = await world.client.resource(NODES).get(NODE)
    assert found.metadata.name.startswith(f"00000-{DRIVER}-{NODE}-")
    (owner,) = found.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Node", NODE, node.metadata.uid, True)
    assert found.spec.node_name == NODE
    assert found.spec.pool == resource.ResourcePool(name=NODE, generation=1, resource_slice_count=1)
    assert [device.name for device in found.spec.devices] == ["lamp-0", "lamp-1"]


@run_with(in_virtual_time)
async def test_restart_with_the_same_devices_writes_nothing(world: World) -> None:
    async with running(world.runner(Lamps())):
        before = await world.slices()
    async with running(world.runner(Lamps())) as runner:
        await world.clock.sleep(120)
        assert await world.slices() == before
        statistics = runner.slices.statistics
        assert (statistics.creates, statistics.updates, statistics.deletes) == (0, 0, 0)


@run_with(in_virtual_time)
async def test_change_inside_one_slice_keeps_its_name_and_the_generation(world: World) -> None:
    lamps = Lamps(2)
    async with running(world.runner(lamps)):
        (before,) = await world.slices()
        lamps.count = 3
        lamps.republish()
        await world.clock.sleep(1)
        (after,) = await world.slices()
    assert (after.metadata.uid, after.spec.pool.generation) == (before.metadata.uid, 1)
    assert len(after.spec.devices) == 3


@run_with(in_virtual_time)
async def test_more_slices_get_a_new_generation_everywhere(world: World) -> None:
    lamps = Lamps(100)
    async with running(world.runner(lamps)):
        lamps.count = 300
        lamps.republish()
        await world.clock.sleep(1)
        found = await world.slices()
    assert [s.spec.pool.generation for s in found] == [2, 2, 2]
    assert [s.spec.pool.resource_slice_count for s in found] == [3, 3, 3]
    assert [len(s.spec.devices) for s in found] == [128, 128, 44]


@run_with(in_virtual_time)
async def test_ten_full_slices_need_ten_creates_and_nothing_more(world: World) -> None:
    async with running(world.runner(Lamps(1280))) as runner:
        await world.clock.sleep(200)
        assert len(await world.slices()) == 10
        statistics = runner.slices.statistics
        assert (statistics.creates, statistics.updates, statistics.deletes) == (10, 0, 0)


@run_with(in_virtual_time)
async def test_deleted_slice_comes_back_after_half_a_minute(world: World) -> None:
    async with running(world.runner(Lamps())):
        await world.clock.sleep(100)
        (before,) = await world.slices()
        await world.client.resource(RESOURCESLICES).delete(before.metadata.name)
        await world.clock.sleep(29)
        assert await world.slices() == []
        await world.clock.sleep(2)
        (after,) = await world.slices()
    assert after.metadata.uid != before.metadata.uid


@pytest.mark.parametrize("seconds", [-5, 0, 5, 25])
@run_with(in_virtual_time)
async def test_slices_that_a_starting_node_agent_deletes_are_back_in_seconds(world: World, *, seconds: int) -> None:
    """It deletes them at its start, and takes the driver before or after that."""
    async with running(world.runner(Lamps(300))) as runner:
        await world.clock.sleep(100)
        if seconds >= 0:
            runner.slices.agent_came()
        await world.clock.sleep(abs(seconds))
        before = {found.metadata.uid for found in await world.slices()}
        await world.client.resource(RESOURCESLICES).delete_collection(field_selector=f"spec.nodeName={NODE}")
        await world.clock.sleep(0.5)
        if seconds < 0:
            runner.slices.agent_came()
        await world.clock.sleep(1.5)
        after = {found.metadata.uid for found in await world.slices()}
        assert len(after) == len(before) == 3
        assert not after & before
        await world.clock.sleep(100)
        assert {found.metadata.uid for found in await world.slices()} == after
        assert runner.slices.statistics.creates == 6


@run_with(in_virtual_time)
async def test_a_node_agent_that_deletes_nothing_causes_no_writes(world: World) -> None:
    async with running(world.runner(Lamps(2))) as runner:
        runner.slices.agent_came()
        await world.clock.sleep(100)
        statistics = runner.slices.statistics
        assert (statistics.creates, statistics.updates, statistics.deletes) == (1, 0, 0)


@run_with(in_virtual_time)
async def test_changed_slice_is_put_right_after_half_a_minute(world: World) -> None:
    async with running(world.runner(Lamps())):
        (found,) = await world.slices()
        await world.client.resource(RESOURCESLICES).update(
            replace(found, spec=replace(found.spec, devices=found.spec.devices[:1]))
        )
        await world.clock.sleep(31)
        (after,) = await world.slices()
    assert after.spec.devices == found.spec.devices


@run_with(in_virtual_time)
async def test_pool_that_is_no_longer_wanted_disappears(world: World) -> None:
    class Two(Lamps):
        names = ("a", "b")

        def resources(self) -> list[Pool]:
            return [Pool(name=name, devices=[Device("d")]) for name in self.names]

    driver = Two()
    async with running(world.runner(driver)):
        assert {s.spec.pool.name for s in await world.slices()} == {"a", "b"}
        driver.names = ("b",)
        driver.republish()
        await world.clock.sleep(1)
        assert [s.spec.pool.name for s in await world.slices()] == ["b"]


@run_with(in_virtual_time)
async def test_driver_that_offers_nothing_still_publishes_an_empty_slice(world: World) -> None:
    async with running(world.runner(Lamps(0))):
        (found,) = await world.slices()
    assert found.spec.devices == ()


@run_with(in_virtual_time)
async def test_slices_survive_the_driver(world: World) -> None:
    async with running(world.runner(Lamps())):
        pass
    assert len(await world.slices()) == 1


@run_with(in_virtual_time)
async def test_contradicting_devices_are_reported_and_nothing_is_published(world: World) -> None:
    class Twins(Lamps):
        def devices(self) -> list[Device]:
            return [Device("twin"), Device("twin")] if self.count else []

    driver = Twins(0)
    async with running(world.runner(driver)):
        driver.count = 2
        driver.republish()
        await world.clock.sleep(1)
        (found,) = await world.slices()
    assert found.spec.devices == ()
    assert driver.errors == [f'pool validation failed: pool "{NODE}": duplicate device name "twin"']


class Firmware(Lamps):
    """Lamps whose firmware has a version that is no semantic version, or none."""

    versions: Sequence[str | None] = ("550", "550", "1.0.0", None)

    def devices(self) -> list[Device]:
        return [
            Device(f"lamp-{i}", attributes={"index": i, "firmware": version and Version(version)})  # type: ignore[dict-item]
            for i, version in enumerate(self.versions)
        ]


@run_with(in_virtual_time)
async def test_attributes_that_are_invalid_are_named_once_and_all_else_is_published(world: World) -> None:
    lamps = Firmware()
    async with running(world.runner(lamps)):
        for _ in range(3):
            lamps.republish()
            await world.clock.sleep(100)
        (found,) = await world.slices()
    published = {device.name: sorted(device.attributes) for device in found.spec.devices}
    assert published == {
        "lamp-0": ["index"],
        "lamp-1": ["index"],
        "lamp-2": ["firmware", "index"],
        "lamp-3": ["index"],
    }
    assert lamps.errors == [
        'publishing devices: an attribute is left out: device "lamp-3": attribute "firmware": None is of type '
        "NoneType; an attribute is an int, a bool, a str, a Version, or a list of one of these",
        'publishing devices: an attribute is left out: device "lamp-0": attributes[firmware].version: Invalid '
        'value: "550": must be a string compatible with semver.org spec 2.0.0 (and 1 other device)',
    ]


@pytest.mark.parametrize("release", ["1.32", "1.37"], ids=["v1beta1", "v1"])
def test_a_device_that_is_invalid_is_named_once_and_the_others_are_published(release: str) -> None:
    class Mixed(Lamps):
        def devices(self) -> list[Device]:
            bad = (Device("Lamp_1"), Device("lamp-2", capacity={"watt": "many"}))
            return [Device(f"lamp-{i}") for i in range(10, 140)] + list(bad)

    async def test(world: World) -> None:
        lamps = Mixed()
        async with running(world.runner(lamps)):
            await world.clock.sleep(100)
            found = await world.slices()
        assert [len(each.spec.devices) for each in found] == [128, 2]
        assert [error.split(":")[1:3] for error in lamps.errors] == [
            [" a device is left out", ' device "lamp-2"'],
            [" a device is left out", ' device "Lamp_1"'],
        ]

    in_virtual_time(test, release)


@run_with(in_virtual_time)
async def test_pool_for_the_whole_cluster_names_no_node(world: World) -> None:
    class Shared(Lamps):
        def resources(self) -> Pool:
            return Pool(name="net", devices=[Device("port")], all_nodes=True)

    async with running(world.runner(Shared(), pool_name="net")):
        (found,) = await world.slices()
    assert (found.spec.node_name, found.spec.all_nodes, found.spec.pool.name) == (None, True, "net")


@run_with(in_virtual_time)
async def test_api_server_that_fails_is_asked_again(world: World) -> None:
    await world.client.resource(NODES).delete(NODE)
    lamps = Lamps()
    runner = world.runner(lamps)
    task = asyncio.ensure_future(runner.run())
    await world.clock.sleep(1)
    assert await world.slices() == []
    assert lamps.errors
    assert all(error.startswith("processing ResourceSlice objects: ") for error in lamps.errors)
    await world.client.resource(NODES).create(core_v1.Node(metadata=meta_v1.ObjectMeta(name=NODE)))
    await runner.slices.wait_published()
    assert len(await world.slices()) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@run_with(lambda test: in_virtual_time(test, DRADeviceTaints=False))
async def test_fields_that_the_api_server_drops_are_reported_once_and_not_sent_again(world: World) -> None:
    class Tainted(Lamps):
        dropped: tuple[str, ...] = ()

        def devices(self) -> list[Device]:
            return [Device("lamp", taints=[resource.DeviceTaint(key="k.example.com/hot", effect="NoSchedule")])]

        def on_dropped(self, error: DroppedFieldsError) -> None:
            self.dropped = error.features

    driver = Tainted()
    async with running(world.runner(driver)) as runner:
        await world.clock.sleep(200)
        statistics = runner.slices.statistics
        assert (statistics.creates, statistics.updates) == (1, 0)
    assert driver.dropped == ("DRADeviceTaints",)
    assert driver.errors == [
        f'processing ResourceSlice objects: pool "{NODE}", slice #0: some fields were dropped by the apiserver, '
        "probably because these features are disabled: DRADeviceTaints"
    ]


class Effortless(Lamps):
    """Has nothing to do on the node."""

    dropped: tuple[str, ...] = ()

    def resources(self) -> Pool:
        return Pool(devices=self.devices(), skip_node_operations=("*",))

    def on_dropped(self, error: DroppedFieldsError) -> None:
        self.dropped = error.features


@run_with(lambda test: in_virtual_time(test, DRAOptionalNodeOperations=True))
async def test_a_driver_may_ask_to_be_spared_the_calls_of_the_node_agent(world: World) -> None:
    driver = Effortless()
    async with running(world.runner(driver)):
        (found,) = await world.slices()
    assert found.spec.skip_node_operations == ("*",)
    assert driver.dropped == ()


@run_with(in_virtual_time)
async def test_a_cluster_that_drops_a_field_is_written_to_once(world: World) -> None:
    driver = Effortless()
    async with running(world.runner(driver)) as runner:
        await world.clock.sleep(200)
        assert (runner.slices.statistics.creates, runner.slices.statistics.updates) == (1, 0)
    assert driver.dropped == ("DRAOptionalNodeOperations",)


@run_with(in_virtual_time)
async def test_time_of_a_taint_does_not_move_when_other_devices_change(world: World) -> None:
    class Tainted(Lamps):
        def devices(self) -> list[Device]:
            hot = Device("hot", taints=[resource.DeviceTaint(key="k.example.com/hot", effect="NoSchedule")])
            return [hot, *super().devices()]

    driver = Tainted()
    async with running(world.runner(driver)):
        (before,) = await world.slices()
        await world.clock.sleep(100)
        driver.count += 1
        driver.republish()
        await world.clock.sleep(1)
        (after,) = await world.slices()
    assert before.spec.devices[0].taints[0].time_added is not None
    assert len(after.spec.devices) == 6
    assert after.spec.devices[0] == before.spec.devices[0]


@run_with(in_virtual_time)
async def test_a_slice_that_cannot_be_decoded_is_replaced(world: World) -> None:
    """The slice exists when the driver starts, or is changed by others later."""
    slices = world.client.resource(RESOURCESLICES)

    async def spoil() -> resource.ResourceSlice:
        (found,) = await world.slices()
        annotations = {SPOILED: "spec.devices[0].attributes"}
        return await slices.update(replace(found, metadata=replace(found.metadata, annotations=annotations)))

    async with running(world.runner(Lamps(2))):
        await world.clock.sleep(1)
    early = await spoil()
    async with running(world.runner(Lamps(2), through=SpoiledTransport)) as runner:
        await world.clock.sleep(60)
        (second,) = await world.slices()
        assert (second.metadata.uid != early.metadata.uid, second.metadata.annotations) == (True, {})
        await spoil()
        await world.clock.sleep(120)
        (third,) = await world.slices()
        assert (third.metadata.uid != second.metadata.uid, third.metadata.annotations) == (True, {})
        assert runner.slices.statistics.creates == 2


@run_with(in_virtual_time)
async def test_an_answer_that_fails_later_leaves_published_what_was(world: World) -> None:
    errors: list[str] = []
    answers: list[Mapping[str, DesiredPool] | Exception] = [
        {"p": DesiredPool("p", (DesiredSlice(),), all_nodes=True)},
        RuntimeError("the bus is busy"),
    ]

    async def desired() -> Mapping[str, DesiredPool]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def report(error: Exception, message: str) -> None:
        errors.append(f"{message}: {error}")

    slices = ResourceSliceController(world.client, DRIVER, clock=world.clock, on_error=report)
    wanted = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(slices.run()),
            group.create_task(keep_published(slices, desired, wanted, clock=world.clock, on_error=report)),
        ]
        await slices.wait_published()
        wanted.set()
        await asyncio.sleep(1)
        assert errors == ["asking the driver for its devices: the bus is busy"]
        assert [one.spec.pool.name for one in await world.slices()] == ["p"]
        for task in tasks:
            task.cancel()


@run_with(in_virtual_time)
async def test_a_first_answer_that_fails_is_raised(world: World) -> None:
    async def desired() -> Mapping[str, DesiredPool]:
        raise RuntimeError("no such bus")

    slices = ResourceSliceController(world.client, DRIVER, clock=world.clock, on_error=lambda *_: None)
    with pytest.raises(RuntimeError, match="no such bus"):
        await keep_published(slices, desired, asyncio.Event(), clock=world.clock, on_error=lambda *_: None)
