"""Builders: objects that servers and clients accept, and errors where they would not."""

from __future__ import annotations

from typing import Any

import kr8s
import kubernetes
import pytest

from cathedra.claims import (
    Cluster,
    InvalidInput,
    first_available,
    fits,
    how_many,
    pod_spec_with,
    request,
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
