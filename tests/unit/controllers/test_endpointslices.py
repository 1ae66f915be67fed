"""Slices follow services and the pods behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Node, ObjectReference, Pod, PodCondition
from cathedra.api.core.discovery_v1 import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import Time, replace, to_dict
from cathedra.client.objects import ObjectKey, with_metadata
from cathedra.client.resources import ENDPOINTSLICES, PODS, SERVICES
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.endpointslices import (
    LONGEST,
    MANAGED_BY,
    SERVICE_NAME,
    Changes,
    EndpointSliceController,
    TriggerTimes,
    address_types,
    distribute,
    endpoint_of,
    ports_of,
)
from cathedra.controllers.garbagecollector import GarbageCollector
from tests.running import run_with
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


@run_with(lambda test: play(EndpointSliceController, test))
async def test_slices_follow_readiness_labels_and_the_end_of_pods(world: World) -> None:
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


@run_with(lambda test: play(EndpointSliceController, test))
async def test_services_without_selector_and_those_with_another_name_get_no_slices(world: World) -> None:
    await world.create(SERVICES, service("by-hand", selector={}))
    await world.create(SERVICES, service("elsewhere", type="ExternalName", externalName="example.com"))
    await world.quiet()
    assert await world.names(ENDPOINTSLICES) == []


@run_with(lambda test: play(EndpointSliceController, test))
async def test_what_others_do_to_a_slice_is_put_right(world: World) -> None:
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


@run_with(lambda test: play(EndpointSliceController, test))
async def test_each_family_of_a_service_has_slices_of_its_own(world: World) -> None:
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


@run_with(lambda test: play(EndpointSliceController, test))
async def test_a_pod_whose_node_is_not_there_is_left_out_and_told(world: World) -> None:
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


def collector(context: ControllerContext) -> GarbageCollector:
    return GarbageCollector(msgspec.structs.replace(context, served=(ENDPOINTSLICES, SERVICES)))


@run_with(lambda test: play((EndpointSliceController, collector), test))
async def test_slices_go_with_their_service(world: World) -> None:
    await world.create(SERVICES, service())
    await world.quiet()
    await world.of(SERVICES).delete("web")
    await world.clock.sleep(10)
    assert await world.names(ENDPOINTSLICES) == []


@run_with(lambda test: play(EndpointSliceController, test))
async def test_a_heartbeat_of_a_pod_is_no_reason_to_look(world: World) -> None:
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


# Endpoints are spread over slices with few changes.

PORTS = (EndpointPort(name="http", port=8080, protocol="TCP"),)
OTHERS = (EndpointPort(name="http", port=9090, protocol="TCP"),)


def endpoint(number: int, *, ready: bool = True) -> Endpoint:
    pod = ObjectReference(kind="Pod", namespace="default", name=f"p{number}", uid=f"uid-p{number}")
    address = f"10.0.{number // 256}.{number % 256}"
    return Endpoint(addresses=(address,), conditions=EndpointConditions(ready=ready), target_ref=pod)


def endpoints(*numbers: int) -> list[Endpoint]:
    return [endpoint(number) for number in numbers]


def after(changes: Changes, existing: Sequence[EndpointSlice]) -> list[EndpointSlice]:
    """The slices once everything is written; new ones get names."""
    gone = {one.metadata.name for one in changes.deleted}
    kept = {one.metadata.name: one for one in existing if one.metadata.name not in gone}
    kept |= {one.metadata.name: one for one in changes.updated}
    for number, one in enumerate(changes.created):
        name = f"web-{len(existing)}{number}"
        kept[name] = with_metadata(one, name=name)
    return list(kept.values())


def settle(wanted: dict[tuple[EndpointPort, ...], list[Endpoint]], *rounds: EndpointSlice) -> list[EndpointSlice]:
    existing = list(rounds)
    return after(distribute(service(), "IPv4", wanted, existing), existing)


def numbers(slices: Sequence[EndpointSlice]) -> list[int]:
    return sorted(len(one.endpoints) for one in slices)


def test_a_new_slice_belongs_to_its_service_and_carries_its_labels() -> None:
    labelled = service(labels={"team": "a", MANAGED_BY: "me"}, clusterIP="10.0.0.10")
    (made,) = distribute(labelled, "IPv4", {PORTS: endpoints(1)}, ()).created
    assert made.metadata.generate_name == "web-"
    assert made.metadata.labels == {
        "team": "a",
        SERVICE_NAME: "web",
        MANAGED_BY: "endpointslice-controller.k8s.io",
    }
    (owner,) = made.metadata.owner_references
    assert (owner.kind, owner.name, owner.controller, owner.block_owner_deletion) == ("Service", "web", True, True)
    assert (made.address_type, made.ports) == ("IPv4", PORTS)


def test_a_service_without_an_address_is_marked_as_headless() -> None:
    (made,) = distribute(service(clusterIP="None"), "IPv4", {PORTS: endpoints(1)}, ()).created
    assert made.metadata.labels["service.kubernetes.io/headless"] == ""


def test_a_service_without_pods_has_an_empty_slice_that_is_not_written_again() -> None:
    slices = settle({})
    assert [(one.endpoints, one.ports) for one in slices] == [((), ())]
    assert distribute(service(), "IPv4", {}, slices) == Changes([], [], [])


def test_the_empty_slice_becomes_that_of_the_first_endpoint() -> None:
    (empty,) = settle({})
    changes = distribute(service(), "IPv4", {PORTS: endpoints(1)}, [empty])
    assert (changes.created, changes.deleted) == ([], [])
    (updated,) = changes.updated
    assert (updated.metadata.name, updated.ports, len(updated.endpoints)) == (empty.metadata.name, PORTS, 1)


def test_a_slice_takes_a_hundred_endpoints() -> None:
    slices = settle({PORTS: endpoints(*range(250))})
    assert numbers(slices) == [50, 100, 100]
    assert distribute(service(), "IPv4", {PORTS: endpoints(*range(250))}, slices) == Changes([], [], [])


def test_what_is_new_fills_a_slice_that_changes_anyway() -> None:
    first, second = settle({PORTS: endpoints(*range(150))})
    assert (len(first.endpoints), len(second.endpoints)) == (100, 50)
    wanted = [endpoint(0, ready=False), *endpoints(*range(2, 151))]
    changes = distribute(service(), "IPv4", {PORTS: wanted}, [first, second])
    assert [one.metadata.name for one in changes.updated] == [first.metadata.name]
    assert numbers(after(changes, [first, second])) == [50, 100]


def test_what_is_new_goes_where_the_least_room_is_left() -> None:
    fuller, emptier = (
        with_metadata(one, name=name)
        for one, name in zip(
            [*settle({PORTS: endpoints(*range(90))}), *settle({PORTS: endpoints(*range(200, 210))})],
            ("fuller", "emptier"),
            strict=True,
        )
    )
    wanted = endpoints(*range(90), *range(200, 210), 300)
    changes = distribute(service(), "IPv4", {PORTS: wanted}, [emptier, fuller])
    assert [one.metadata.name for one in changes.updated] == ["fuller"]


def test_pods_with_other_ports_are_in_a_slice_of_their_own() -> None:
    slices = settle({PORTS: endpoints(1, 2), OTHERS: endpoints(3)})
    assert {one.ports: len(one.endpoints) for one in slices} == {PORTS: 2, OTHERS: 1}


def test_a_slice_that_loses_its_last_endpoint_goes_unless_it_is_the_last() -> None:
    slices = settle({PORTS: endpoints(1), OTHERS: endpoints(3)})
    changes = distribute(service(), "IPv4", {PORTS: endpoints(1)}, slices)
    assert [one.ports for one in changes.deleted] == [OTHERS]
    left = after(changes, slices)
    assert [(one.ports, one.endpoints) for one in after(distribute(service(), "IPv4", {}, left), left)] == [((), ())]


def test_slices_follow_the_labels_of_their_service() -> None:
    slices = settle({PORTS: endpoints(1)})
    changes = distribute(service(labels={"new": "label"}), "IPv4", {PORTS: endpoints(1)}, slices)
    assert [one.metadata.labels["new"] for one in changes.updated] == ["label"]


def test_slices_of_an_earlier_service_of_that_name_are_deleted_and_not_used() -> None:
    (old,) = settle({PORTS: endpoints(1)})
    owner = replace(old.metadata.owner_references[0], uid="another")
    old = with_metadata(old, owner_references=(owner,))
    changes = distribute(service(), "IPv4", {PORTS: endpoints(1)}, [old])
    assert (changes.deleted, len(changes.created)) == ([old], 1)


@given(st.lists(st.sets(st.integers(0, 260), max_size=260), min_size=1, max_size=4))
def test_every_endpoint_is_in_one_slice_and_none_is_too_long(history: list[set[int]]) -> None:
    slices: list[EndpointSlice] = []
    for present in history:
        wanted = {PORTS: endpoints(*sorted(present))} if present else {}
        slices = after(distribute(service(), "IPv4", wanted, slices), slices)
        slices = [with_metadata(one, name=f"web-{number}") for number, one in enumerate(slices)]
        found = [one.addresses for piece in slices for one in piece.endpoints]
        assert sorted(found) == sorted(one.addresses for one in endpoints(*present))
        assert all(len(piece.endpoints) <= LONGEST for piece in slices)
        assert slices
