"""The NoExecute taints of devices."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from cathedra.api.struct import from_dict
from cathedra.controllers.devicetaints.taints import by_device, rule_selects, tainted_devices


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
