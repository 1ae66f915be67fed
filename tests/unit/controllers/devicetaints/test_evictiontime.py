"""When pods have to leave their devices."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.resource import DeviceTaint, DeviceToleration, ResourceClaim, ResourceSlice
from cathedra.api.struct import Time, from_dict
from cathedra.controllers.devicetaints.evictiontime import EvictionTime, claim_eviction_time, due_time, earliest
from cathedra.controllers.devicetaints.taints import DeviceTaints, Tainted

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
