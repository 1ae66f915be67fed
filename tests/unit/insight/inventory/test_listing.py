"""Devices as rows: what holds each, what is left of shared ones, what blocks others, and totals."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.allocation import InvalidInput
from cathedra.insight.inventory.listing import devices
from cathedra.insight.inventory.report import DeviceEntry, devices_text
from cathedra.insight.reading.dumps import read_dump
from tests.unit.cli.dra.dumps import gpu_cluster


def piece(name: str, given: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A slice of driver d, for node n."""
    spec = {"driver": "d", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {**spec, "devices": given, **more},
    }


def held(name: str, device: str, **result: Any) -> dict[str, Any]:
    """A claim that has a device of the pool."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "team", "uid": name},
        "status": {
            "allocation": {
                "devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": device, **result}]}
            }
        },
    }


def rows(*objects: Any) -> dict[str, DeviceEntry]:
    return {row.device: row for row in devices(read_dump(list(objects))).devices}


def test_a_device_is_held_by_its_claim_and_the_pods_that_use_it() -> None:
    found = devices(read_dump(gpu_cluster(nodes=1, gpus=2, taken=1)))
    first, second = found.devices
    assert (first.state, first.holders[0].claim, first.holders[0].pods) == ("held", "other/held-0", ("user-0",))
    assert (second.state, second.holders, second.classes) == ("free", (), ("gpu",))
    assert (found.total.devices, found.total.held, found.total.free) == (2, 1, 1)
    assert [(one.name, one.held) for one in found.namespaces] == [("other", 1)]


def test_a_shared_device_tells_what_is_left_of_its_capacity() -> None:
    device = {"name": "a", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi"}}}
    share = {"shareID": "6e7ac1f5-c2a5-44f7-9b1d-cf2ca8cba8c6", "consumedCapacity": {"memory": "30Gi"}}
    row = rows(piece("s", [device]), held("c", "a", **share))["a"]
    assert (row.state, row.left, row.used) == ("shared", {"memory": "50Gi"}, 0.375)
    assert [one.share for one in row.holders] == [0.375]
    assert row.holders[0].consumed == {"memory": "30Gi"}


def test_a_shared_device_without_room_is_held() -> None:
    device = {"name": "a", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi"}}}
    share = {"shareID": "6e7ac1f5-c2a5-44f7-9b1d-cf2ca8cba8c6", "consumedCapacity": {"memory": "80Gi"}}
    assert rows(piece("s", [device]), held("c", "a", **share))["a"].state == "held"


def test_devices_that_share_counters_with_a_held_one_are_blocked() -> None:
    def partition(name: str, slots: int) -> dict[str, Any]:
        counters = {"slots": {"value": str(slots)}}
        return {"name": name, "consumesCounters": [{"counterSet": "gpu", "counters": counters}]}

    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    counters = piece("c", [], sharedCounters=[{"name": "gpu", "counters": {"slots": {"value": "7"}}}], pool=pool)
    pieces = (counters, piece("s", [partition("whole", 7), partition("half", 3), partition("other", 4)], pool=pool))
    found = rows(*pieces, held("c", "half"))
    assert [found[name].state for name in ("whole", "half", "other")] == ["blocked", "held", "free"]
    assert found["whole"].counters == {"gpu/slots": "7 of 4 left"}


def test_what_requests_take_of_counters_is_not_left() -> None:
    """KEP-5941: the amounts stand in the results of the claims."""

    def interface(name: str) -> dict[str, Any]:
        taken = {"bandwidth": {"valueFrom": {"capacityName": "bandwidth"}}}
        return {"name": name, "consumesCounters": [{"counterSet": "pf", "counters": taken}]}

    def fixed(name: str, amount: str) -> dict[str, Any]:
        return {"name": name, "consumesCounters": [{"counterSet": "pf", "counters": {"bandwidth": {"value": amount}}}]}

    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    counters = piece("c", [], sharedCounters=[{"name": "pf", "counters": {"bandwidth": {"value": "10"}}}], pool=pool)
    devices = piece("s", [interface("vf-0"), interface("vf-1"), fixed("most", "7"), fixed("some", "4")], pool=pool)
    taken = [{"counterSet": "pf", "counters": {"bandwidth": "6"}}]
    found = rows(counters, devices, held("x", "vf-0", consumedCounters=taken))
    assert {name: row.state for name, row in found.items()} == {
        "vf-0": "held",
        "vf-1": "free",
        "most": "blocked",
        "some": "free",
    }


def test_admin_access_takes_nothing_away() -> None:
    row = rows(piece("s", [{"name": "a"}]), held("c", "a", adminAccess=True))["a"]
    assert (row.state, row.holders[0].admin_access) == ("free", True)


def test_a_tainted_device_is_not_free_unless_the_taint_only_informs() -> None:
    hard = {"name": "a", "taints": [{"key": "broken", "effect": "NoExecute"}]}
    soft = {"name": "b", "taints": [{"key": "old", "effect": "None"}]}
    found = rows(piece("s", [hard, soft]))
    assert [found[name].state for name in "ab"] == ["tainted", "free"]
    assert found["a"].taints == ("broken:NoExecute",)


def test_the_taint_of_a_rule_counts() -> None:
    rule = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"pool": "p"}, "taint": {"key": "k", "effect": "NoSchedule"}},
    }
    assert rows(piece("s", [{"name": "a"}]), rule)["a"].state == "tainted"


def test_devices_of_an_incomplete_pool_are_unusable_and_the_pool_is_named() -> None:
    found = devices(
        read_dump(piece("s", [{"name": "a"}], pool={"name": "p", "generation": 2, "resourceSliceCount": 3}))
    )
    assert [row.state for row in found.devices] == ["unusable"]
    assert found.pools[0].startswith("pool d/p is incomplete: generation 2 has 1 of 3 slices")


def test_a_device_that_left_its_slice_while_it_was_held_is_told() -> None:
    found = devices(read_dump([piece("s", [{"name": "a"}]), held("c", "b")]))
    assert [(row.device, row.state) for row in found.devices] == [("a", "free"), ("b", "gone")]
    assert (found.total.devices, found.total.held) == (1, 1)


def test_slices_of_an_old_generation_are_left_out() -> None:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    old = piece("old", [{"name": "x"}], pool=pool)
    new = piece("new", [{"name": "a"}], pool={**pool, "generation": 2})
    assert list(rows(old, new)) == ["a"]


def test_health_is_what_pods_report() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team"},
        "status": {
            "containerStatuses": [
                {
                    "name": "c",
                    "allocatedResourcesStatus": [
                        {"name": "claim:c/r", "resources": [{"resourceID": "d/p/a", "health": "Unhealthy"}]}
                    ],
                }
            ]
        },
    }
    assert rows(piece("s", [{"name": "a"}]), pod)["a"].health == "Unhealthy"


def test_devices_for_all_nodes_belong_to_every_node() -> None:
    shared = piece("s", [{"name": "a"}], allNodes=True)
    del shared["spec"]["nodeName"]
    state = read_dump([shared, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n7"}}])
    (row,) = devices(state, node="n7").devices
    assert (row.node, row.device) == ("", "a")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"device_class": "no"}, "there is no device class 'no' in objects; there are gpu"),
        ({"node": "no"}, "there is no node 'no' in objects; there are node-0, node-1"),
        ({"driver": "no"}, "there is no driver 'no' in objects; there are gpu.example.com"),
    ],
)
def test_what_does_not_exist_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        devices(read_dump(gpu_cluster()), **asked)


@pytest.mark.parametrize("width", [80, 160])
def test_tables_keep_to_the_width(width: int) -> None:
    text = devices_text(devices(read_dump(gpu_cluster(nodes=3, taken=4))), width)
    assert max(map(len, text.splitlines())) <= width
    assert "other/held-0 (user-0)" in text


def test_the_answer_is_plain_data_with_a_version() -> None:
    answer = devices(read_dump(gpu_cluster(taken=1))).to_dict()
    assert (answer["apiVersion"], answer["kind"]) == ("cathedra.dev/v1", "DeviceList")
    assert answer["devices"][0]["holders"][0]["claim"] == "other/held-0"


def test_partitions_are_grouped_by_the_device_that_they_share() -> None:
    def partition(gpu: int, name: str, slots: int) -> dict[str, Any]:
        uses = [{"counterSet": f"set-{gpu}", "counters": {"slots": {"value": str(slots)}}}]
        return {"name": f"gpu-{gpu}{name}", "consumesCounters": uses}

    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    sets = [{"name": f"set-{gpu}", "counters": {"slots": {"value": "7"}}} for gpu in range(2)]
    given = [partition(gpu, *kind) for gpu in range(2) for kind in (("", 7), ("-half", 3), ("-other", 4))]
    state = read_dump(
        [piece("c", [], sharedCounters=sets, pool=pool), piece("s", given, pool=pool), held("a", "gpu-0-half")]
    )
    found = devices(state)
    first, second = found.groups
    assert (first.name, first.state, first.held, first.free, first.blocked) == ("gpu-0", "in part", 1, 1, 1)
    assert (first.claims, second.state, second.devices) == (("team/a",), "free", 3)
    (whole,) = (row for row in found.devices if row.device == "gpu-0")
    assert whole.blocked_by == ("team/a",)
    lines = devices_text(found, 100).splitlines()
    assert sum("gpu-" in line for line in lines) == 2
    assert "2 partitionable devices: 1 free, 1 in part" in lines
    assert "with partitions 6 devices: 4 free, 1 held, 1 blocked" in lines
    assert "  blocked by: team/a" in devices_text(found, 100, wide=True).splitlines()


def test_the_wide_form_keeps_to_the_width() -> None:
    assert max(map(len, devices_text(devices(read_dump(gpu_cluster())), 80, wide=True).splitlines())) <= 80


def test_partitions_have_their_place_and_share_in_the_whole_device() -> None:
    def needs(**counters: str) -> dict[str, Any]:
        return {"consumesCounters": [{"counterSet": "gpu", "counters": {k: {"value": v} for k, v in counters.items()}}]}

    slices = {f"slice-{number}": {"value": "1"} for number in range(4)}
    whole = {"name": "whole", **needs(**dict.fromkeys(slices, "1"))}
    part = {"name": "part", **needs(**{"slice-2": "1"})}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    counters = piece("c", [], sharedCounters=[{"name": "gpu", "counters": slices}], pool=pool)
    found = rows(counters, piece("s", [whole, part], pool=pool), held("c", "part"))
    assert (found["part"].at, found["part"].size, found["part"].used) == (0.5, 0.25, 1.0)
    assert (found["whole"].at, found["whole"].size, found["whole"].lane) == (0.0, 1.0, 1)
