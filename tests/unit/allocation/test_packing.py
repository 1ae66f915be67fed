"""Devices within a node that leave large ones free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.allocation import Allocation, Cluster, Features
from cathedra.allocation.packing import packed
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import from_dict

CLASS: dict[str, Any] = {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
NODE: dict[str, Any] = {"kind": "Node", "metadata": {"name": "n"}}
PARTS = {"whole": (0, 1, 2, 3), "h0": (0, 1), "h1": (2, 3), "q0": (0,), "q1": (1,), "q2": (2,), "q3": (3,)}
FEATURES = Features(partitionable_devices=True, consumable_capacity=True)


def slice_of(name: str, **spec: Any) -> dict[str, Any]:
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 2}
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": "gpu.example.com", "nodeName": "n", "pool": pool, **spec},
    }


def partitioned(gpus: int) -> list[dict[str, Any]]:
    """GPUs with four places each, which are used as a whole, in halves or in quarters."""
    sets = [
        {"name": f"gpu-{gpu}", "counters": {f"place-{place}": {"value": "1"} for place in range(4)}}
        for gpu in range(gpus)
    ]
    devices = [
        {
            "name": f"{gpu}-{part}",
            "attributes": {"kind": {"string": part[0]}},
            "consumesCounters": [
                {"counterSet": f"gpu-{gpu}", "counters": {f"place-{place}": {"value": "1"} for place in places}}
            ],
        }
        for gpu in range(gpus)
        for part, places in PARTS.items()
    ]
    return [slice_of("counters", sharedCounters=sets), slice_of("devices", devices=devices)]


def claim(name: str, kind: str = "", count: int = 1, **more: Any) -> dict[str, Any]:
    selector = {"cel": {"expression": f'device.attributes["gpu.example.com"].kind == "{kind}"'}}
    exact = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **more}
    exact |= {"selectors": [selector]} if kind else {}
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exact}]}},
    }


def held(*devices: str, **result: Any) -> list[dict[str, Any]]:
    found = []
    for device in devices:
        one = {"request": "r", "driver": "gpu.example.com", "pool": "n", "device": device, **result}
        found.append({**claim(f"held-{device}"), "status": {"allocation": {"devices": {"results": [one]}}}})
    return found


def chosen(objects: Sequence[dict[str, Any]], wanted: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the devices that Kubernetes chooses, and those that are packed."""
    cluster = Cluster.of([CLASS, NODE, *objects], features=FEATURES)
    prepared = cluster.allocator().prepare([from_dict(ResourceClaim, wanted)])
    node = cluster.node("n")
    return names(prepared.on(node)), names(packed(prepared, node))


def names(found: object) -> list[str]:
    if not isinstance(found, Allocation):
        return []
    return [one.device for result in found.results for one in result.devices.results]


def test_a_partition_is_taken_of_a_device_that_is_in_use_already() -> None:
    assert chosen([*partitioned(3), *held("1-q0")], claim("c", "q")) == (["0-q0"], ["1-q1"])


def test_the_fullest_device_in_use_comes_first() -> None:
    assert chosen([*partitioned(3), *held("1-q0", "2-h0")], claim("c", "q"))[1] == ["2-q2"]
    # It has no room for a half, and the next one has.
    assert chosen([*partitioned(3), *held("1-q0", "2-h0", "2-q2")], claim("c", "h"))[1] == ["1-h1"]


def test_the_largest_partition_is_left() -> None:
    assert chosen([*partitioned(1), *held("0-q2")], claim("c", "q")) == (["0-q0"], ["0-q3"])


def test_an_untouched_device_is_taken_if_nothing_else_will_do() -> None:
    assert chosen([*partitioned(2), *held("0-q0")], claim("c", "w")) == (["1-whole"], ["1-whole"])


def test_shares_are_taken_of_the_device_with_least_capacity_left() -> None:
    devices = [
        {"name": f"d{number}", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi"}}}
        for number in range(3)
    ]
    slices = [slice_of("devices", devices=devices), slice_of("more")]
    share = {"shareID": "6f9c9bb4-4c3e-4a4c-8f0a-0d1c7a1f9a10"}
    holders = [
        *held("d1", **share, consumedCapacity={"memory": "20Gi"}),
        *held("d2", **share, consumedCapacity={"memory": "60Gi"}),
    ]
    ten = claim("c", capacity={"requests": {"memory": "10Gi"}})
    assert chosen([*slices, *holders], ten) == (["d0"], ["d2"])
    forty = claim("c", capacity={"requests": {"memory": "40Gi"}})
    assert chosen([*slices, *holders], forty) == (["d0"], ["d1"])


def test_nothing_is_packed_where_devices_have_no_parts() -> None:
    slices = [slice_of("devices", devices=[{"name": "d0"}, {"name": "d1"}]), slice_of("more")]
    assert chosen(slices, claim("c")) == (["d0"], [])


@pytest.mark.parametrize("broken", [claim("c", "z"), claim("c", "w", count=2)])
def test_what_does_not_fit_is_not_packed(broken: dict[str, Any]) -> None:
    assert chosen(partitioned(1), broken) == ([], [])


@settings(max_examples=80, deadline=None)
@given(
    taken=st.lists(st.tuples(st.integers(0, 1), st.sampled_from(list(PARTS))), max_size=3),
    kind=st.sampled_from("whq"),
    count=st.integers(1, 2),
)
def test_packing_changes_which_devices_are_taken_and_never_whether_they_can_be(
    taken: list[tuple[int, str]], kind: str, count: int
) -> None:
    used: set[tuple[int, int]] = set()
    holders: list[str] = []
    for gpu, part in taken:
        places = {(gpu, place) for place in PARTS[part]}
        if not places & used:
            used |= places
            holders.append(f"{gpu}-{part}")
    first, found = chosen([*partitioned(2), *held(*holders)], claim("c", kind, count))
    assert bool(first) is bool(found)
    places = [(int(name[0]), place) for name in found for place in PARTS[name[2:]]]
    assert len(found) in (0, count)
    assert len(places) == len(set(places))
    assert used.isdisjoint(places)
    begun = {gpu for gpu, _ in used}
    # Of one GPU that has room and is in use, and one that is whole, the whole one stays whole.
    if count == 1 and kind == "q" and len(begun) == 1 and len(used) < 4:
        assert {gpu for gpu, _ in places} == begun
