"""The state of each device: its holder, or the obstacle for claims."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from cathedra.api.struct import from_dict, replace
from cathedra.cluster.views.overview import DeviceRow, device_rows
from cathedra.cluster.views.waiting import Surroundings
from cathedra.releases import FeatureGates

DRIVER = "gpu.example.com"
TAINT = {"key": "broken", "effect": "NoSchedule"}
COUNTERS = [{"name": "gpu", "counters": {"slices": {"value": "4"}}}]


def piece(
    *devices: dict[str, Any], pool: str = "n1", generation: int = 1, count: int = 1, **spec: Any
) -> ResourceSlice:
    """A slice of a pool on node n1."""
    of_pool = {"name": pool, "generation": generation, "resourceSliceCount": count}
    body = {"driver": DRIVER, "nodeName": "n1", "pool": of_pool, "devices": list(devices), **spec}
    return from_dict(ResourceSlice, {"metadata": {"name": "s"}, "spec": body})


def holder(device: str, **result: Any) -> ResourceClaim:
    """The claim team/c, which holds a device."""
    results = [{"request": "r", "driver": DRIVER, "pool": "n1", "device": device, **result}]
    return from_dict(
        ResourceClaim,
        {"metadata": {"name": "c", "namespace": "team"}, "status": {"allocation": {"devices": {"results": results}}}},
    )


def rule(effect: str = "NoExecute", **selector: str) -> DeviceTaintRule:
    spec = {"deviceSelector": selector, "taint": {"key": "hot", "value": "yes", "effect": effect}}
    return from_dict(DeviceTaintRule, {"metadata": {"name": "r"}, "spec": spec})


def rows(*slices: ResourceSlice, claims: tuple[ResourceClaim, ...] = (), **more: Any) -> dict[str, DeviceRow]:
    defaults = {"rules": (), "gates": FeatureGates.for_release(), **more}
    around = Surroundings(nodes=(), slices=slices, classes=(), claims=claims, templates=(), warnings=(), **defaults)
    return {row.name: row for row in device_rows(around)}


def partition(name: str, amount: str) -> dict[str, Any]:
    uses = [{"counterSet": "gpu", "counters": {"slices": {"value": amount}}}]
    return {"name": name, "consumesCounters": uses}


def test_a_device_is_free_until_a_claim_holds_it() -> None:
    found = rows(piece({"name": "a"}, {"name": "b"}), claims=(holder("a"),))
    assert {name: (row.state, row.claims) for name, row in found.items()} == {
        "a": ("allocated", ("team/c",)),
        "b": ("free", ()),
    }


def test_admin_access_leaves_a_device_free() -> None:
    assert rows(piece({"name": "a"}), claims=(holder("a", adminAccess=True),))["a"].state == "free"


def test_a_device_of_which_claims_hold_shares_is_shared() -> None:
    device = {"name": "a", "allowMultipleAllocations": True}
    assert rows(piece(device), claims=(holder("a", shareID="x"), holder("a", shareID="y")))["a"].state == "shared"


def test_a_device_that_lacks_counters_is_blocked() -> None:
    pool = piece(partition("a", "3"), partition("b", "2"), partition("c", "1"), sharedCounters=COUNTERS)
    found = rows(pool, claims=(holder("a"),))
    assert {name: row.state for name, row in found.items()} == {"a": "allocated", "b": "blocked", "c": "free"}


def test_amounts_that_requests_took_of_counters_are_gone() -> None:
    uses = [{"counterSet": "gpu", "counters": {"slices": {"valueFrom": {"capacityName": "slices"}}}}]
    drawing = [{"name": name, "allowMultipleAllocations": True, "consumesCounters": uses} for name in "ab"]
    pool = piece(*drawing, partition("c", "2"), sharedCounters=COUNTERS)
    for amount, others in (("2", ("free", "free")), ("3", ("free", "blocked")), ("4", ("blocked", "blocked"))):
        taken = [{"counterSet": "gpu", "counters": {"slices": amount}}]
        found = rows(pool, claims=(holder("a", shareID="x", consumedCounters=taken),))
        assert (found["a"].state, found["b"].state, found["c"].state) == ("shared", *others)


@pytest.mark.parametrize(
    ("device", "rules", "state", "taints"),
    [
        ({"taints": [TAINT]}, (), "tainted", ("broken:NoSchedule",)),
        ({}, (rule(device="a"),), "tainted", ("hot=yes:NoExecute",)),
        ({}, (rule(driver=DRIVER, pool="n1"),), "tainted", ("hot=yes:NoExecute",)),
        ({"taints": [TAINT]}, (rule(),), "tainted", ("broken:NoSchedule", "hot=yes:NoExecute")),
        ({}, (rule(device="b"),), "free", ()),
        ({}, (rule("None"),), "free", ()),
        ({"taints": [{"key": "note", "effect": "None"}]}, (), "free", ()),
    ],
)
def test_a_device_is_tainted_by_itself_or_by_a_rule(
    device: dict[str, Any], rules: tuple[DeviceTaintRule, ...], state: str, taints: tuple[str, ...]
) -> None:
    row = rows(piece({"name": "a", **device}), rules=rules)["a"]
    assert (row.state, row.taints) == (state, taints)


@pytest.mark.parametrize(("release", "state"), [("1.37", "tainted"), ("1.38", "free")])
def test_a_rule_without_a_selector_taints_no_device_from_138_on(release: str, state: str) -> None:
    """kubernetes/kubernetes#141648."""
    bare = replace(rule(), spec=replace(rule().spec, device_selector=None))
    found = rows(piece({"name": "a"}), rules=(bare,), gates=FeatureGates.for_release(release))
    assert found["a"].state == state


def test_devices_of_older_generations_are_gone() -> None:
    assert rows(piece({"name": "old"}, generation=1), piece({"name": "new"}, generation=2)).keys() == {"new"}


def test_devices_of_a_pool_that_is_being_updated_are_not_free() -> None:
    found = rows(piece({"name": "a"}, count=2), piece({"name": "b"}, pool="whole"))
    assert {name: row.state for name, row in found.items()} == {"a": "unusable", "b": "free"}


def test_taints_keep_nobody_away_where_the_cluster_does_not_heed_them() -> None:
    gates = FeatureGates.for_release("1.34")
    row = rows(piece({"name": "a", "taints": [TAINT]}), rules=(rule(device="a"),), gates=gates)["a"]
    assert (row.state, row.taints) == ("free", ())
