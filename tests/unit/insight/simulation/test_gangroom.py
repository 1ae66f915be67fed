"""Room for further gangs, counted with the allocator alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.allocation import Cluster
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import ResourceClaim, ResourceSlice
from cathedra.api.struct import from_dict
from cathedra.insight.simulation.gangroom import MOST_COPIES, GangMember, GangRooms, further_gangs
from cathedra.insight.simulation.report import CopyRoom
from tests.insight.building import Object, claim, device, device_class, held, node, request, slice_of

IS_A100 = 'device.attributes["gpu.example.com"].model == "a100"'
IS_H100 = 'device.attributes["gpu.example.com"].model == "h100"'
CPUS = {"cpu": 4000, "pods": 110}


def group(**annotations: str) -> PodGroup:
    notes = {f"scheduling.cathedra.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return from_dict(PodGroup, {"metadata": {"name": "g", "annotations": notes}})


def in_racks() -> PodGroup:
    return from_dict(PodGroup, {"spec": {"schedulingConstraints": {"topology": [{"key": "rack"}]}}})


def machine(name: str, gpus: int, model: str = "a100", domain: str = "x", rack: str = "") -> list[Object]:
    devices = [device(f"gpu-{number}", model=model, domain=domain) for number in range(gpus)]
    return [node(name, labels={"rack": rack} if rack else {}), slice_of(*devices, node=name)]


def member(*requests: Object, cpu: int = 0, nodes: Sequence[str] = "abc") -> GangMember:
    own = (from_dict(ResourceClaim, claim("own", *requests)),) if requests else ()
    return GangMember(own, {"pods": 1, **({"cpu": cpu} if cpu else {})}, frozenset(nodes))


def exactly_one(cls: str) -> Object:
    return {"name": cls, "deviceClassName": cls, "allocationMode": "ExactCount", "count": 1}


def counted(
    objects: Sequence[Object],
    members: Sequence[GangMember],
    gang: PodGroup | None = None,
    free: Mapping[str, int] = CPUS,
) -> GangRooms:
    cluster = Cluster.of([device_class(), *objects])
    slices = [from_dict(ResourceSlice, one) for one in objects if one["kind"] == "ResourceSlice"]
    return further_gangs(gang or group(), members, cluster, lambda name: free, slices)


def test_copies_take_what_the_next_ones_would_need() -> None:
    objects = [*machine("a", 3), *machine("b", 4)]
    found = counted(objects, [member(request(count=2)), member(request(count=1))])
    assert found == GangRooms((CopyRoom(("gpu",), "", 2),), complete=True)


def test_held_devices_do_not_count() -> None:
    objects = [*machine("a", 3), held("taken", "gpu-0", "gpu-1", pool="a")]
    assert counted(objects, [member(request())]).rooms == (CopyRoom(("gpu",), "", 1),)


def test_resources_of_nodes_bound_the_copies() -> None:
    objects = [*machine("a", 8), *machine("b", 8)]
    assert counted(objects, [member(request(), cpu=3000)]).rooms == (CopyRoom(("gpu",), "", 2),)
    free = {"cpu": 4000, "pods": 3}
    assert counted(objects, [member(request()), member()], free=free).rooms == (CopyRoom(("gpu",), "", 3),)


def test_copies_are_counted_by_the_classes_of_chosen_alternatives_and_by_domain() -> None:
    objects = [
        device_class("a100", IS_A100),
        device_class("h100", IS_H100),
        *machine("a", 2, "a100", rack="one"),
        *machine("b", 2, "h100", rack="two"),
        *machine("c", 1, "h100", rack="two"),
    ]
    either: Object = {"name": "gpu", "firstAvailable": [exactly_one("h100"), exactly_one("a100")]}
    found = counted(objects, [member(either)] * 2, in_racks())
    assert found.rooms == (CopyRoom(("a100",), "one", 1), CopyRoom(("h100",), "two", 1))
    assert counted(objects, [member(either)]).rooms == (CopyRoom(("a100",), "", 2), CopyRoom(("h100",), "", 3))


def test_domains_by_attribute_are_counted_within_nodes() -> None:
    mixed = [device("gpu-0", domain="x"), device("gpu-1", domain="y"), device("gpu-2", domain="y")]
    objects = [node("a"), slice_of(*mixed, node="a"), *machine("b", 1, domain="x")]
    gang = group(same_device_attribute="gpu.example.com/domain")
    found = counted(objects, [member(request())] * 2, gang)
    assert found.rooms == (CopyRoom(("gpu",), "x", 1), CopyRoom(("gpu",), "y", 1))


def test_a_gang_that_requests_all_devices_of_nodes_has_no_room_where_they_have_several_values() -> None:
    mixed = [device("gpu-0", domain="x"), device("gpu-1", domain="y")]
    objects = [node("a"), slice_of(*mixed, node="a"), *machine("b", 2, domain="x")]
    gang = group(same_device_attribute="gpu.example.com/domain")
    found = counted(objects, [member(request(allocationMode="All"))], gang)
    assert found.rooms == (CopyRoom(("gpu",), "x", 1),)


def test_a_bound_of_copies_is_reported() -> None:
    free = {"pods": 1000}
    found = counted(machine("a", 1), [member()], free=free)
    assert found == GangRooms((CopyRoom((), "", MOST_COPIES),), complete=False)


def test_a_class_that_does_not_exist_leaves_no_room() -> None:
    assert counted(machine("a", 1), [member(request(cls="absent"))]) == GangRooms((), complete=True)


@settings(max_examples=60, deadline=None)
@given(
    gpus=st.lists(st.integers(0, 6), min_size=1, max_size=3),
    size=st.integers(1, 3),
    count=st.integers(1, 3),
    racks=st.lists(st.sampled_from(["one", "two"]), min_size=3, max_size=3),
)
def test_of_a_gang_of_equal_pods_all_copies_are_found(gpus: list[int], size: int, count: int, racks: list[str]) -> None:
    objects: list[Any] = []
    pods: dict[str, int] = {}
    for name, number, rack in zip("abc", gpus, racks, strict=False):
        objects += machine(name, number, rack=rack)
        pods[rack] = pods.get(rack, 0) + number // count
    found = counted(objects, [member(request(count=count))] * size, in_racks())
    expected = {rack: number // size for rack, number in pods.items() if number // size}
    assert {one.domain: one.copies for one in found.rooms} == expected
