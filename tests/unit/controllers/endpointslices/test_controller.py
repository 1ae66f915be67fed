"""Slices follow services and the pods behind them."""

from __future__ import annotations

from typing import Any

import msgspec

from cathedra.api.core.core_v1 import Pod, PodCondition
from cathedra.api.struct import replace
from cathedra.client.objects import with_metadata
from cathedra.client.resources import ENDPOINTSLICES, PODS, SERVICES
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.endpointslices.controller import EndpointSliceController
from cathedra.controllers.garbagecollector.controller import GarbageCollector
from tests.unit.controllers.endpointslices.objects import pod, service
from tests.unit.controllers.nodes.objects import node
from tests.unit.controllers.world import World, play


async def behind(world: World, name: str = "web") -> list[tuple[str, bool | None]]:
    """Names of the pods in the service's slices, and whether they are ready."""
    slices = [
        one for one in await world.list(ENDPOINTSLICES) if one.metadata.labels["kubernetes.io/service-name"] == name
    ]
    found = [endpoint for one in slices for endpoint in one.endpoints]
    return sorted((one.target_ref.name, one.conditions.ready) for one in found if one.target_ref is not None)


def with_ready(status: str) -> Any:
    condition = PodCondition(type="Ready", status=status)
    return lambda one: replace(one, status=replace(one.status, conditions=(condition,)))


def test_slices_follow_readiness_labels_and_the_end_of_pods() -> None:
    async def story(world: World) -> None:
        await node(world, "n1")
        await world.create(SERVICES, service())
        await world.quiet()
        assert await behind(world) == []
        (empty,) = await world.list(ENDPOINTSLICES)
        created = (await world.of(SERVICES).get("web")).metadata.creation_timestamp
        assert empty.metadata.annotations == {"endpoints.kubernetes.io/last-change-trigger-time": str(created)}
        for name, ip in (("a", "10.0.0.1"), ("b", "10.0.0.2"), ("c", "10.0.0.3"), ("no-address", "")):
            await world.create(PODS, pod(name, *([ip] if ip else [])))
        await world.quiet()
        assert await behind(world) == [("a", True), ("b", True), ("c", True)]
        await world.change(PODS, "a", with_ready("False"), status=True)
        await world.change(PODS, "b", lambda one: with_metadata(one, labels={"app": "y"}))
        await world.finish("c")
        await world.quiet()
        assert await behind(world) == [("a", False)]

    play(EndpointSliceController, story)


def test_services_without_selector_and_those_with_another_name_get_no_slices() -> None:
    async def story(world: World) -> None:
        await world.create(SERVICES, service("by-hand", selector={}))
        await world.create(SERVICES, service("elsewhere", type="ExternalName", externalName="example.com"))
        await world.quiet()
        assert await world.names(ENDPOINTSLICES) == []

    play(EndpointSliceController, story)


def test_what_others_do_to_a_slice_is_put_right() -> None:
    async def story(world: World) -> None:
        await node(world, "n1")
        await world.create(SERVICES, service())
        await world.create(PODS, pod("a", "10.0.0.1"))
        await world.quiet()
        (name,) = await world.names(ENDPOINTSLICES)
        await world.change(ENDPOINTSLICES, name, lambda one: replace(one, endpoints=()))
        await world.quiet()
        assert await behind(world) == [("a", True)]
        for name in await world.names(ENDPOINTSLICES):
            await world.of(ENDPOINTSLICES).delete(name)
        await world.quiet()
        assert await behind(world) == [("a", True)]

    play(EndpointSliceController, story)


def test_each_family_of_a_service_has_slices_of_its_own() -> None:
    async def story(world: World) -> None:
        await node(world, "n1")
        await world.create(SERVICES, service(ipFamilies=["IPv4", "IPv6"]))
        await world.create(PODS, pod("a", "10.0.0.1", "fd00::1"))
        await world.quiet()
        slices = {one.address_type: one for one in await world.list(ENDPOINTSLICES)}
        assert {kind: one.endpoints[0].addresses for kind, one in slices.items()} == {
            "IPv4": ("10.0.0.1",),
            "IPv6": ("fd00::1",),
        }
        await world.change(SERVICES, "web", lambda one: replace(one, spec=replace(one.spec, ip_families=("IPv4",))))
        await world.quiet()
        assert [one.address_type for one in await world.list(ENDPOINTSLICES)] == ["IPv4"]

    play(EndpointSliceController, story)


def test_a_pod_whose_node_is_not_there_is_left_out_and_told() -> None:
    async def story(world: World) -> None:
        await node(world, "n1")
        await world.create(SERVICES, service())
        await world.create(PODS, pod("a", "10.0.0.1"))
        await world.create(PODS, pod("b", "10.0.0.2", node="gone"))
        await world.clock.sleep(2)
        assert await behind(world) == [("a", True)]
        told = "skipping Pod b for Service default/web: Node gone Not Found"
        message = f"Error updating Endpoint Slices for Service default/web: {told}"
        assert ("Warning", "FailedToUpdateEndpointSlices", message) in await world.events()
        await node(world, "gone")
        await world.clock.sleep(60)
        assert await behind(world) == [("a", True), ("b", True)]

    play(EndpointSliceController, story)


def collector(context: ControllerContext) -> GarbageCollector:
    return GarbageCollector(msgspec.structs.replace(context, served=(ENDPOINTSLICES, SERVICES)))


def test_slices_go_with_their_service() -> None:
    async def story(world: World) -> None:
        await world.create(SERVICES, service())
        await world.quiet()
        await world.of(SERVICES).delete("web")
        await world.clock.sleep(10)
        assert await world.names(ENDPOINTSLICES) == []

    play((EndpointSliceController, collector), story)


def test_a_heartbeat_of_a_pod_is_no_reason_to_look() -> None:
    async def story(world: World) -> None:
        await node(world, "n1")
        await world.create(SERVICES, service())
        await world.create(PODS, pod("a", "10.0.0.1"))
        await world.quiet()
        (before,) = await world.list(ENDPOINTSLICES)

        def note(one: Pod) -> Pod:
            return replace(one, status=replace(one.status, message="still here"))

        await world.change(PODS, "a", note, status=True)
        await world.quiet()
        (after,) = await world.list(ENDPOINTSLICES)
        assert after.metadata.resource_version == before.metadata.resource_version

    play(EndpointSliceController, story)
