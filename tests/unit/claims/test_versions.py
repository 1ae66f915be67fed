"""Versions: chosen by discovery, and converted without loss."""

from __future__ import annotations

import kubernetes
import pytest

from cathedra.claims import InvalidInput, in_version, preferred_version, request, resource_claim, resource_slice

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
