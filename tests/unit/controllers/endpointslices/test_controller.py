"""Slices follow services and the pods behind them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cathedra.api.core.core_v1 import Node, Pod, PodCondition
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import Time, replace, to_dict
from cathedra.client.objects import ObjectKey, with_metadata
from cathedra.client.resources import ENDPOINTSLICES, PODS, SERVICES
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.endpointslices.controller import (
    EndpointSliceController,
    TriggerTimes,
    address_types,
    endpoint_of,
    ports_of,
)
from cathedra.controllers.garbagecollector import GarbageCollector
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


NODE = Node(metadata=ObjectMeta(name="n1", labels={"topology.kubernetes.io/zone": "a"}))
GOING = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("made", "publish", "conditions"),
    [
        ({}, False, (True, True, False)),
        ({"ready": False}, False, (False, False, False)),
        ({"ready": False}, True, (True, False, False)),
        (GOING, False, (False, True, True)),
        (GOING, True, (True, True, True)),
    ],
)
def test_an_endpoint_says_whether_its_pod_is_ready_serves_and_ends(
    made: dict[str, Any], publish: bool, conditions: tuple[bool, bool, bool]
) -> None:
    endpoint = endpoint_of(pod("p", "10.0.0.1", **made), NODE, service(publishNotReadyAddresses=publish), "IPv4")
    assert endpoint is not None
    told = endpoint.conditions
    assert (told.ready, told.serving, told.terminating) == conditions


def test_an_endpoint_names_its_pod_node_and_zone() -> None:
    endpoint = endpoint_of(pod("p", "10.0.0.1"), NODE, service(), "IPv4")
    assert to_dict(endpoint) == {
        "addresses": ["10.0.0.1"],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "targetRef": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "uid-p"},
        "nodeName": "n1",
        "zone": "a",
    }


@pytest.mark.parametrize(("subdomain", "hostname"), [("web", "h"), ("other", None)])
def test_a_host_name_counts_within_the_service_that_is_its_domain(subdomain: str, hostname: str | None) -> None:
    endpoint = endpoint_of(pod("p", "10.0.0.1", hostname="h", subdomain=subdomain), NODE, service(), "IPv4")
    assert endpoint is not None
    assert endpoint.hostname == hostname


def test_addresses_are_of_one_family_and_in_canonical_form() -> None:
    both = pod("p", "10.0.0.1", "2001:DB8:0::1")
    found = {kind: endpoint_of(both, None, service(), kind) for kind in ("IPv4", "IPv6")}
    assert [one.addresses for one in found.values() if one] == [("10.0.0.1",), ("2001:db8::1",)]
    assert endpoint_of(pod("p", "10.0.0.1"), None, service(), "IPv6") is None


@pytest.mark.parametrize(
    ("spec", "types"),
    [
        ({"ipFamilies": ["IPv6", "IPv4"]}, ("IPv6", "IPv4")),
        ({"clusterIP": "fd00::1"}, ("IPv6",)),
        ({"clusterIP": "10.0.0.10"}, ("IPv4",)),
        ({"clusterIP": "None"}, ("IPv4",)),
        ({}, ("IPv4",)),
    ],
)
def test_a_service_has_the_families_that_it_says_or_that_of_its_address(
    spec: dict[str, Any], types: tuple[str, ...]
) -> None:
    assert address_types(service(**spec)) == types


def test_named_ports_are_those_of_each_pod_and_missing_ones_are_left_out() -> None:
    named = {"name": "a", "port": 80, "targetPort": "web", "appProtocol": "http"}
    found = ports_of(service(ports=[named, {"name": "b", "port": 81, "targetPort": "nowhere"}]), PORTED)
    assert [to_dict(port) for port in found] == [{"name": "a", "port": 8080, "protocol": "TCP", "appProtocol": "http"}]


PORTED = pod("p", "10.0.0.1", ports=[{"name": "web", "containerPort": 8080, "protocol": "TCP"}])


KEY = ObjectKey("default", "web")
CREATED = Time.parse("2026-01-01T00:00:00Z")
WEB = with_metadata(service(), creation_timestamp=CREATED)


def test_the_oldest_new_time_counts_and_each_only_once() -> None:
    times = TriggerTimes()
    assert times.changed(KEY, WEB, ()) == CREATED
    later, latest = (
        pod(name, "10.0.0.1", since=f"2026-01-01T00:00:0{second}Z") for name, second in (("a", 5), ("b", 9))
    )
    assert times.changed(KEY, WEB, [latest, later]) == Time.parse("2026-01-01T00:00:05Z")
    assert times.changed(KEY, WEB, [latest, later]) is None


def test_a_service_that_comes_again_has_its_time_again() -> None:
    times = TriggerTimes()
    times.changed(KEY, WEB, ())
    times.forget(KEY)
    assert times.changed(KEY, WEB, ()) == CREATED
