"""Quotas on what claims hold: names, amounts, and the first limit that is exceeded."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import ResourceQuota
from cathedra.api.quantity import Quantity
from cathedra.api.resource import Device, ResourceClaim
from cathedra.api.struct import from_dict
from cathedra.kinds.resource.claims.devicequota import amount, exceeded, held_amounts, held_limits, least_devices, total

GPU = "gpu.deviceclass.scheduling.cathedra.dev"
DEVICE = from_dict(
    Device, {"name": "gpu-0", "capacity": {"memory": {"value": "40Gi"}, "other.example/x": {"value": "1"}}}
)


def claim(*requests: dict[str, Any], results: list[dict[str, Any]]) -> ResourceClaim:
    where = {"driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}
    allocation = {"devices": {"results": [{"request": "a", **where, **one} for one in results]}}
    return from_dict(
        ResourceClaim,
        {
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {"devices": {"requests": list(requests)}},
            "status": {"allocation": allocation},
        },
    )


def exactly(name: str = "a", **more: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **more}}


def held(one: ResourceClaim) -> dict[str, str]:
    assert one.status.allocation is not None
    found = held_amounts(one, one.status.allocation, lambda result: DEVICE)
    return {name: str(amount(nanos, Quantity("1Gi" if "memory" in name else "1"))) for name, nanos in found.items()}


def test_of_a_dedicated_device_the_whole_capacity_counts() -> None:
    one = claim(exactly(), results=[{}, {}])
    assert held(one) == {f"{GPU}/devices": "2", f"{GPU}/memory": "80Gi", f"{GPU}/other.example.x": "2"}


def test_of_a_shared_device_the_consumed_capacity_counts() -> None:
    share = {"shareID": "6f9619ff-8b86-4d01-b42d-00cf4fc964ff", "consumedCapacity": {"gpu.example.com/memory": "4Gi"}}
    assert held(claim(exactly(), results=[share])) == {f"{GPU}/devices": "1", f"{GPU}/memory": "4Gi"}


def test_admin_access_counts_nothing() -> None:
    assert held(claim(exactly(adminAccess=True), results=[{"adminAccess": True}])) == {}


def test_alternatives_count_by_the_class_that_was_chosen() -> None:
    request = {
        "name": "a",
        "firstAvailable": [{"name": "x", "deviceClassName": "big"}, {"name": "y", "deviceClassName": "gpu"}],
    }
    one = claim(request, results=[{"request": "a/y"}])
    assert f"{GPU}/devices" in held(one)
    assert least_devices(one) == {}


def test_the_first_limit_by_name_is_reported() -> None:
    def quota(name: str, devices: str) -> ResourceQuota:
        spec = {"hard": {f"{GPU}/devices": devices, "pods": "1"}}
        return from_dict(ResourceQuota, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})

    quotas = [quota("b", "1"), quota("a", "2"), quota("c", "9")]
    assert set(held_limits(quotas[0])) == {f"{GPU}/devices"}
    asked = least_devices(claim(exactly(count=2), results=[]))
    found = exceeded(quotas, total((asked,)), asked)
    assert found is not None
    assert (found.quota, str(found.requested), str(found.used), str(found.hard)) == ("a", "2", "2", "2")
    # What nothing is requested of is not exceeded, however much is held.
    assert exceeded(quotas, asked, {}) is None


@pytest.mark.parametrize(("like", "text"), [("3", "2"), ("3Gi", "2")])
def test_amounts_have_the_suffixes_of_the_limit(like: str, text: str) -> None:
    assert str(amount(2 * 10**9, Quantity(like))) == text
