"""The NoExecute taints of devices."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.resource import DeviceTaint, DeviceTaintRule, DeviceToleration, ResourceClaim, ResourceSlice
from cathedra.api.struct import Time, from_dict
from cathedra.controllers.devicetaints.taints import (
    DeviceTaints,
    EvictionTime,
    Tainted,
    by_device,
    claim_eviction_time,
    due_time,
    earliest,
    rule_selects,
    tainted_devices,
)


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, False),
        ({}, True),
        ({"driver": "gpu"}, True),
        ({"driver": "gpu", "pool": "n1", "device": "d0"}, True),
        ({"driver": "nic"}, False),
        ({"driver": "gpu", "pool": "n2"}, False),
        ({"driver": "gpu", "pool": "n1", "device": "d1"}, False),
    ],
)
def test_a_rule_is_about_what_matches_all_that_it_names(selector: dict[str, str] | None, selected: bool) -> None:
    spec: dict[str, Any] = {"taint": {"key": "k", "effect": "NoExecute"}}
    if selector is not None:
        spec["deviceSelector"] = selector
    assert rule_selects(from_dict(DeviceTaintRule, {"spec": spec}), "gpu", "n1", "d0") is selected


def test_only_tainted_devices_and_their_no_execute_taints_are_kept() -> None:
    devices = [
        {"name": "clean"},
        {"name": "soft", "taints": [{"key": "k", "effect": "NoSchedule"}]},
        {"name": "hard", "taints": [{"key": "k", "effect": "NoSchedule"}, {"key": "l", "effect": "NoExecute"}]},
    ]
    found = tainted_devices(from_dict(ResourceSlice, {"spec": {"devices": devices}}))
    assert {name: [taint.key for taint in taints] for name, taints in found.items()} == {"hard": ["l"]}


def test_a_claim_is_found_by_each_of_its_devices() -> None:
    results = [{"driver": "gpu", "pool": "n1", "device": device} for device in ("d0", "d1")]
    claim = from_dict(ResourceClaim, {"status": {"allocation": {"devices": {"results": results}}}})
    assert list(by_device(claim)) == ["gpu/n1/d0", "gpu/n1/d1"]
    assert list(by_device(ResourceClaim())) == []


TAINT = DeviceTaint(key="k", effect="NoExecute", time_added=Time(100))


def toleration(seconds: int | None = None, key: str = "k") -> DeviceToleration:
    return DeviceToleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=seconds)


@pytest.mark.parametrize(
    ("tolerations", "due"),
    [
        ([], 100.0),
        ([toleration(key="other")], 100.0),
        ([toleration()], None),
        ([toleration(30)], 130.0),
        ([toleration(30), toleration(10)], 110.0),
        ([toleration(30), toleration()], None),
        ([toleration(-30)], 100.0),
    ],
)
def test_tolerations_put_the_time_off(tolerations: list[DeviceToleration], due: float | None) -> None:
    assert due_time(TAINT, tolerations) == due


def test_the_earliest_of_several_claims_counts_and_every_reason_is_told_once() -> None:
    one, other = Tainted("", "", TAINT), Tainted("rule", "u", TAINT)
    assert earliest([EvictionTime(9.0, (one,)), EvictionTime(5.0, (other, one))]) == EvictionTime(5.0, (one, other))
    assert earliest([]) is None


def test_a_claim_without_tainted_devices_stays() -> None:
    taints = DeviceTaints(None, None)
    taints.enter(from_dict(ResourceSlice, {"metadata": {"name": "s"}, "spec": {"devices": [{"name": "d"}]}}))
    result: dict[str, Any] = {"driver": "d", "pool": "p", "device": "d"}
    claim = from_dict(ResourceClaim, {"status": {"allocation": {"devices": {"results": [result]}}}})
    assert claim_eviction_time(claim, taints) is None
    assert claim_eviction_time(ResourceClaim(), taints) is None


@pytest.mark.parametrize(("every_effect", "due"), [(True, None), (False, 100.0)])
def test_up_to_1_36_a_toleration_must_name_the_effect(every_effect: bool, due: float | None) -> None:
    anything = DeviceToleration(operator="Exists")
    assert due_time(TAINT, [anything], every_effect=every_effect) == due
