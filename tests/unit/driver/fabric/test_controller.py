"""One of several instances leads: it publishes the pools of the cluster, and attaches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import DeviceClass
from cathedra.api.status import StatusError
from cathedra.client.leaderelection import LostLeadership
from cathedra.client.resources import DEVICECLASSES, LEASES
from cathedra.client.transport import PatchType
from cathedra.driver import Device, FabricController, FabricDriver, OptionError, Pool
from tests.running import run_with
from tests.unit.driver.fabric.switched import (
    NAME,
    POOL,
    Switch,
    allocate,
    bound,
    client_of,
    controlling,
    elector_of,
    on_node,
    told,
)
from tests.unit.driver.world import World, in_virtual_time


@run_with(in_virtual_time)
async def test_pools_can_be_reached_from_all_nodes_and_their_devices_are_waited_for(world: World) -> None:
    async with controlling(world, Switch(2)):
        (found,) = await world.slices()
    assert (found.spec.all_nodes, found.spec.node_name, found.metadata.owner_references) == (True, None, ())
    assert found.metadata.name.startswith(f"00000-{NAME}-")
    for device in found.spec.devices:
        assert device.binds_to_node
        assert device.binding_conditions == (FabricDriver.attached_condition,)
        assert device.binding_failure_conditions == (FabricDriver.failed_condition,)


@run_with(in_virtual_time)
async def test_a_large_pool_has_several_slices_of_one_generation(world: World) -> None:
    switch = Switch(100)
    async with controlling(world, switch):
        before = await world.slices()
        switch.count = 300
        switch.republish()
        await asyncio.sleep(1)
        after = await world.slices()
    assert [(one.spec.pool.generation, one.spec.pool.resource_slice_count) for one in before] == [(1, 1)]
    assert [(one.spec.pool.generation, one.spec.pool.resource_slice_count) for one in after] == [(2, 3)] * 3


@run_with(in_virtual_time)
async def test_what_the_author_says_of_nodes_and_conditions_stands(world: World) -> None:
    class Racks(FabricDriver):
        name = NAME

        def pools(self) -> Iterable[Pool]:
            own = Device("a", binds_to_node=False, binding_conditions=("Up",), binding_failure_conditions=("Down",))
            yield Pool(name="rack-1", devices=[own], node_selector=on_node("node-a"))
            yield Pool(name="rack-2", devices=[Device("b", node_name="node-b")])

    async with controlling(world, Racks()):
        first, second = sorted(await world.slices(), key=lambda one: one.spec.pool.name)
    assert (first.spec.all_nodes, first.spec.node_selector) == (None, on_node("node-a"))
    assert first.spec.devices[0].binding_conditions == ("Up",)
    assert first.spec.devices[0].binds_to_node is False
    assert (second.spec.all_nodes, second.spec.per_device_node_selection) == (None, True)


@run_with(in_virtual_time)
async def test_slices_vanish_with_the_class_that_owns_them(world: World) -> None:
    made = await world.client.resource(DEVICECLASSES).create(DeviceClass(metadata=ObjectMeta(name=NAME)))
    async with controlling(world, Switch(), owner_class=NAME):
        (found,) = await world.slices()
    (owner,) = found.metadata.owner_references
    assert (owner.api_version, owner.kind, owner.name) == ("resource.k8s.io/v1", "DeviceClass", NAME)
    assert owner.uid == made.metadata.uid


@run_with(in_virtual_time)
async def test_a_class_that_is_not_there_ends_the_controller(world: World) -> None:
    controller = FabricController(Switch(), client_of(world), elector=elector_of(world), owner_class="nowhere")
    with pytest.raises(StatusError, match="nowhere"):
        await controller.run()


@run_with(in_virtual_time)
async def test_a_driver_needs_a_name(world: World) -> None:
    with pytest.raises(OptionError, match="driver name must be set"):
        FabricController(FabricDriver(), client_of(world), elector=elector_of(world))


@run_with(in_virtual_time)
async def test_of_two_instances_one_works_and_the_other_takes_over(world: World) -> None:
    first, second = Switch(), Switch()
    async with controlling(world, first, seed=1) as leader, controlling(world, second, seed=2) as standby:
        await allocate(world, "c", "node-a", bound("gpu-0"))
        await asyncio.sleep(1)
        assert (leader.missing, standby.missing) == ("", "")
        assert (len(first.calls), second.calls) == (1, [])
    async with controlling(world, second, seed=2):
        await allocate(world, "d", "node-a", bound("gpu-1"))
        await asyncio.sleep(30)
        assert await told(world, "d", "gpu-1") == {"Attached": "True"}
    assert second.calls == ["attach gpu-1 to node-a for d"]


@run_with(in_virtual_time)
async def test_a_leader_that_loses_its_lease_stops_in_the_middle_of_attaching(world: World) -> None:
    switch = Switch()
    switch.open.clear()
    controller = FabricController(switch, client_of(world), elector=elector_of(world))
    running = asyncio.ensure_future(controller.run())
    await asyncio.sleep(1)
    await allocate(world, "c", "node-a", bound("gpu-0"))
    await asyncio.sleep(1)
    leases = world.client.resource(LEASES, "default")
    await leases.patch(NAME, PatchType.MERGE, {"spec": {"holderIdentity": "another"}})
    with pytest.raises(LostLeadership):
        await running
    switch.open.set()
    await asyncio.sleep(60)
    assert await told(world, "c", "gpu-0") == {}
    assert controller.slices is None


@run_with(in_virtual_time)
async def test_an_attribute_that_cannot_be_published_is_reported_and_left_out(world: World) -> None:
    switch = Switch(1)
    async with controlling(world, switch):
        switch.pools = lambda: Pool(name=POOL, devices=[Device("gpu", attributes={"x": 1.5, "y": 1})])  # type: ignore[assignment,dict-item]
        switch.republish()
        await asyncio.sleep(1)
        (found,) = await world.slices()
    assert [(device.name, *device.attributes) for device in found.spec.devices] == [("gpu", "y")]
    assert 'an attribute is left out: device "gpu": attribute "x": 1.5 is of type float' in switch.errors[0]
