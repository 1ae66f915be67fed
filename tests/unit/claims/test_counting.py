"""Counts of devices that claims request and hold."""

from __future__ import annotations

from typing import Any

import kubernetes
import pytest

from cathedra.claims import (
    AllocatedDevice,
    InvalidInput,
    allocated,
    allocated_devices,
    first_available,
    in_version,
    request,
    requested,
    resource_claim,
    resource_claim_template,
)

CLAIM = resource_claim(
    "c",
    request("gpus", "gpu", 2),
    first_available("net", request("fast", "rdma", 1), request("slow", "nic", 4)),
    namespace="team",
)


def result(name: str, device: str, **fields: Any) -> dict[str, Any]:
    return {"request": name, "driver": "d.example.com", "pool": "n1", "device": device, **fields}


HELD: dict[str, Any] = {
    **CLAIM,
    "status": {
        "allocation": {
            "devices": {
                "results": [
                    result("gpus", "gpu-0"),
                    result("gpus", "gpu-1"),
                    result("net/slow", "nic-0"),
                    result("watch", "gpu-7", adminAccess=True),
                ]
            }
        }
    },
}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_requested_devices_are_counted_by_class_as_by_quota(version: str) -> None:
    assert requested(in_version(CLAIM, version)) == {"gpu": 2, "rdma": 1, "nic": 4}


def test_several_claims_and_templates_are_summed() -> None:
    template = resource_claim_template("t", request("r", "gpu", "All"))
    assert requested([template, {"kind": "ResourceClaimList", "items": [CLAIM]}])["gpu"] == 34


def test_a_claim_without_defaults_requests_one_device() -> None:
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    assert requested({"kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": spec}) == {"gpu": 1}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_allocated_devices_are_counted_without_those_of_admin_access(version: str) -> None:
    held = in_version(HELD, version)
    assert allocated(held) == {"gpu": 2, "nic": 1}
    assert allocated_devices(held)[2:] == [
        AllocatedDevice("d.example.com", "n1", "nic-0", "net/slow", "nic", admin_access=False),
        AllocatedDevice("d.example.com", "n1", "gpu-7", "watch", "", admin_access=True),
    ]


def test_claims_that_are_not_allocated_hold_nothing() -> None:
    assert allocated([CLAIM, resource_claim_template("t", request("r", "gpu"))]) == {}


def test_fields_of_newer_servers_do_not_disturb_the_count() -> None:
    assert allocated({**HELD, "status": {**HELD["status"], "newer": 1}}) == {"gpu": 2, "nic": 1}


def test_lists_of_the_official_client_are_counted() -> None:
    models = kubernetes.client
    results = [models.V1DeviceRequestAllocationResult(**result("gpus", f"gpu-{number}")) for number in range(3)]
    exactly = models.V1ExactDeviceRequest(device_class_name="gpu", count=3)
    asked = models.V1DeviceClaim(requests=[models.V1DeviceRequest(name="gpus", exactly=exactly)])
    allocation = models.V1AllocationResult(devices=models.V1DeviceAllocationResult(results=results))
    claim = models.ResourceV1ResourceClaim(
        metadata=models.V1ObjectMeta(name="c"),
        spec=models.V1ResourceClaimSpec(devices=asked),
        status=models.V1ResourceClaimStatus(allocation=allocation),
    )
    listed = models.V1ResourceClaimList(items=[claim])
    assert (requested(listed), allocated(listed)) == ({"gpu": 3}, {"gpu": 3})


def test_other_objects_are_refused() -> None:
    with pytest.raises(InvalidInput, match="expected claims and templates only"):
        requested({"kind": "Pod", "metadata": {"name": "p"}, "spec": {}})
