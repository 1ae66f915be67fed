"""Builders: objects that servers and clients accept, and errors where they would not."""

from __future__ import annotations

from typing import Any

import kr8s
import kubernetes
import pytest

from cathedra.claims import (
    AllocatedDevice,
    Cluster,
    InvalidInput,
    allocated,
    allocated_devices,
    first_available,
    fits,
    how_many,
    in_version,
    pod_spec_with,
    preferred_version,
    request,
    requested,
    resource_claim,
    resource_claim_template,
    resource_slice,
)

CLASS = {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
SPEC: dict[str, Any] = {"containers": [{"name": "main", "image": "i"}, {"name": "log", "image": "i"}]}


def cluster() -> Cluster:
    devices = {f"gpu-{number}": {"numa": number // 2} for number in range(4)}
    node = {"kind": "Node", "metadata": {"name": "n1"}}
    return Cluster.of([node, CLASS, resource_slice("gpu.example.com", "n1", devices)])


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_claims_of_each_version_are_allocated_alike(version: str) -> None:
    claim = resource_claim(
        "c",
        request("a", "gpu", selectors=['device.driver == "gpu.example.com"']),
        request("b", "gpu"),
        match_attributes=["gpu.example.com/numa"],
        version=version,
    )
    assert fits(claim, cluster()) == ["n1"]
    assert how_many(claim, cluster()) == {"n1": 2}


def test_a_request_for_all_devices_takes_all() -> None:
    assert how_many(resource_claim_template("t", request("r", "gpu", "All")), cluster()) == {"n1": 1}


def test_alternatives_are_tried_in_their_order() -> None:
    claim = resource_claim("c", first_available("r", request("many", "gpu", 9), request("few", "gpu", 2)))
    (found,) = claim["spec"]["devices"]["requests"]
    assert [one["name"] for one in found["firstAvailable"]] == ["many", "few"]
    assert how_many(claim, cluster()) == {"n1": 2}


def test_capacity_tolerations_and_configuration_are_kept() -> None:
    toleration = {"key": "k", "operator": "Exists", "effect": "NoSchedule"}
    config = {"requests": ["r"], "opaque": {"driver": "gpu.example.com", "parameters": {"mode": "fast"}}}
    claim = resource_claim(
        "c", request("r", "gpu", capacity={"memory": "10Gi"}, tolerations=[toleration]), config=[config]
    )
    devices = claim["spec"]["devices"]
    assert devices["requests"][0]["exactly"]["capacity"] == {"requests": {"memory": "10Gi"}}
    assert devices["requests"][0]["exactly"]["tolerations"] == [toleration]
    assert devices["config"] == [config]


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ((request("r", ""),), "spec.devices.requests[0].exactly.deviceClassName: Required value"),
        ((request("R", "gpu"),), "spec.devices.requests[0].name: Invalid value"),
        ((request("r", "gpu", -1),), "spec.devices.requests[0].exactly.count: Invalid value"),
        ((request("r", "gpu"), request("r", "gpu")), "spec.devices.requests[1]: Duplicate value"),
    ],
)
def test_a_spec_that_the_server_would_refuse_is_refused_with_its_message(
    requests: tuple[dict[str, Any], ...], message: str
) -> None:
    for build in (resource_claim, resource_claim_template):
        with pytest.raises(InvalidInput) as refused:
            build("c", *requests)
        assert message in str(refused.value)


def test_alternatives_of_alternatives_are_refused() -> None:
    with pytest.raises(InvalidInput, match="alternative 'inner' has no field exactly"):
        first_available("outer", first_available("inner", request("r", "gpu")))


def test_the_official_client_sends_a_claim_unchanged() -> None:
    claim = resource_claim("c", request("r", "gpu", 2), namespace="team")
    assert kubernetes.client.ApiClient().sanitize_for_serialization(claim) == claim


def test_kr8s_takes_a_claim_and_its_objects_are_read() -> None:
    claim = resource_claim("c", request("r", "gpu", 2), namespace="team")
    kind = kr8s.objects.new_class("ResourceClaim", claim["apiVersion"])
    assert how_many(kind(claim, api=object()), cluster()) == {"n1": 2}


def test_a_pod_uses_claims_and_templates_in_all_its_containers() -> None:
    claim = resource_claim("shared.claim", request("r", "gpu"))
    template = resource_claim_template("own", request("r", "gpu"))
    spec = pod_spec_with(SPEC, claim, template)
    assert spec["resourceClaims"] == [
        {"name": "shared-claim", "resourceClaimName": "shared.claim"},
        {"name": "own", "resourceClaimTemplateName": "own"},
    ]
    assert [one["resources"]["claims"] for one in spec["containers"]] == [
        [{"name": "shared-claim"}, {"name": "own"}]
    ] * 2
    assert pod_spec_with(spec, claim, template) == spec
    assert "resourceClaims" not in SPEC


def test_a_pod_uses_claims_in_the_containers_that_are_named() -> None:
    spec = pod_spec_with(SPEC, resource_claim("c", request("r", "gpu")), containers=["main"])
    assert [one["name"] for one in spec["containers"] if "resources" in one] == ["main"]


def test_other_fields_of_a_containers_resources_are_kept() -> None:
    spec = {"containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}, "claims": [{"name": "old"}]}}]}
    (container,) = pod_spec_with(spec, resource_claim("c", request("r", "gpu")))["containers"]
    assert container["resources"] == {"limits": {"cpu": "1"}, "claims": [{"name": "old"}, {"name": "c"}]}


def test_what_a_pod_cannot_use_is_refused() -> None:
    claim = resource_claim("c", request("r", "gpu"))
    with pytest.raises(InvalidInput, match="not DeviceClass gpu"):
        pod_spec_with(SPEC, CLASS)
    with pytest.raises(InvalidInput, match="no container 'other'; it has log, main"):
        pod_spec_with(SPEC, claim, containers=["other"])
    with pytest.raises(InvalidInput, match="another entry 'c' already"):
        pod_spec_with({**SPEC, "resourceClaims": [{"name": "c", "resourceClaimName": "d"}]}, claim)


# Versions: chosen by discovery, and converted without loss.

CLAIM = resource_claim("c", request("gpus", "gpu", 2), namespace="team")


@pytest.mark.parametrize(
    ("served", "version"),
    [
        (["v1", "apps/v1", "resource.k8s.io/v1beta1", "resource.k8s.io/v1"], "v1"),
        (["resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2"], "v1beta2"),
        (["v1", "resource.k8s.io/v1beta1", "resource.k8s.io/v1alpha3"], "v1beta1"),
        (["v1", "apps/v1", "resource.k8s.io/v1alpha2"], None),
    ],
)
def test_the_newest_version_that_is_served_is_chosen(served: list[str], version: str | None) -> None:
    assert preferred_version(served) == version


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_conversion_to_a_version_and_back_changes_nothing(version: str) -> None:
    published = resource_slice("gpu.example.com", "n1", {"gpu-0": {"model": "a100", "numa": 1, "ecc": True}})
    for one in (CLAIM, published):
        converted = in_version(one, version)
        assert converted["apiVersion"] == f"resource.k8s.io/{version}"
        assert in_version(converted, "v1") == one


def test_requests_are_flat_in_v1beta1() -> None:
    (found,) = in_version(CLAIM, "v1beta1")["spec"]["devices"]["requests"]
    assert found == {"name": "gpus", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}


def test_an_object_of_the_official_client_is_converted() -> None:
    model = kubernetes.client.V1beta1ResourceClaim(
        metadata=kubernetes.client.V1ObjectMeta(name="c", namespace="team"),
        spec=kubernetes.client.V1beta1ResourceClaimSpec(
            devices=kubernetes.client.V1beta1DeviceClaim(
                requests=[
                    kubernetes.client.V1beta1DeviceRequest(
                        name="gpus", device_class_name="gpu", allocation_mode="ExactCount", count=2
                    )
                ]
            )
        ),
    )
    assert in_version(model, "v1") == CLAIM


@pytest.mark.parametrize(
    ("given", "version", "message"),
    [
        (CLAIM, "v2", "version 'v2' of resource.k8s.io is not known; known are v1, v1beta2, v1beta1"),
        ([CLAIM, CLAIM], "v1", "expected one object, got 2"),
        ({"kind": "Node", "metadata": {"name": "n"}}, "v1", "expected an object of ResourceClaim"),
        ({**CLAIM, "spec": {"devicez": {}}}, "v1beta1", 'unknown field "spec.devicez"'),
    ],
)
def test_what_cannot_be_converted_is_refused(given: object, version: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        in_version(given, version)
    assert message in str(refused.value)


# Counts of devices that claims request and hold.

CLAIM_COUNTING = resource_claim(
    "c",
    request("gpus", "gpu", 2),
    first_available("net", request("fast", "rdma", 1), request("slow", "nic", 4)),
    namespace="team",
)


def result(name: str, device: str, **fields: Any) -> dict[str, Any]:
    return {"request": name, "driver": "d.example.com", "pool": "n1", "device": device, **fields}


HELD: dict[str, Any] = {
    **CLAIM_COUNTING,
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
    assert requested(in_version(CLAIM_COUNTING, version)) == {"gpu": 2, "rdma": 1, "nic": 4}


def test_several_claims_and_templates_are_summed() -> None:
    template = resource_claim_template("t", request("r", "gpu", "All"))
    assert requested([template, {"kind": "ResourceClaimList", "items": [CLAIM_COUNTING]}])["gpu"] == 34


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
    assert allocated([CLAIM_COUNTING, resource_claim_template("t", request("r", "gpu"))]) == {}


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
