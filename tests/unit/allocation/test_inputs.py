"""What the library takes for a question, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from cathedra.allocation import Cluster, InvalidInput, NodeError, Refusal, allocate, fits, how_many
from cathedra.api.core import core_v1, resource_v1beta1
from cathedra.api.resource import ResourceClaim, ResourceClaimTemplate
from cathedra.api.struct import from_dict

CLUSTER = """
kind: List
items:
- {kind: Node, metadata: {name: n1}}
- {kind: Node, metadata: {name: n2}}
- {kind: DeviceClass, apiVersion: resource.k8s.io/v1, metadata: {name: gpu}, spec: {}}
- kind: ResourceSlice
  apiVersion: resource.k8s.io/v1beta1
  metadata: {name: s1}
  spec:
    driver: gpu.example.com
    nodeName: n1
    pool: {name: n1, generation: 1, resourceSliceCount: 1}
    devices:
    - {name: gpu-0, basic: {attributes: {model: {string: a100}}}}
    - {name: gpu-1, basic: {attributes: {model: {string: a100}}}}
"""
SELECTOR = {"cel": {"expression": 'device.attributes["gpu.example.com"].model == "a100"'}}
EXACTLY = {"deviceClassName": "gpu", "selectors": [SELECTOR]}
SPEC: dict[str, Any] = {"devices": {"requests": [{"name": "r", "exactly": EXACTLY}]}}
CLAIM: dict[str, Any] = {
    "kind": "ResourceClaim",
    "apiVersion": "resource.k8s.io/v1",
    "metadata": {"name": "c", "namespace": "default"},
    "spec": SPEC,
}
TEMPLATE: dict[str, Any] = {
    "kind": "ResourceClaimTemplate",
    "apiVersion": "resource.k8s.io/v1",
    "metadata": {"name": "t", "namespace": "default"},
    "spec": {"spec": SPEC},
}
FLAT: dict[str, Any] = {
    **CLAIM,
    "apiVersion": "resource.k8s.io/v1beta1",
    "spec": {"devices": {"requests": [{"name": "r", **EXACTLY}]}},
}


def pod(*entries: dict[str, str]) -> dict[str, Any]:
    """A pod with claims."""
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [], "resourceClaims": [{"name": f"e{i}", **one} for i, one in enumerate(entries)]},
    }


OF_TEMPLATE = {"resourceClaimTemplateName": "t"}
OF_CLAIM = {"resourceClaimName": "c"}


def asked(spec: dict[str, Any]) -> dict[str, Any]:
    """A claim with that one request."""
    return {**CLAIM, "spec": {"devices": {"requests": [spec]}}}


@pytest.mark.parametrize(
    "question",
    [
        CLAIM,
        FLAT,
        {"metadata": {"name": "c"}, "spec": SPEC},
        {**CLAIM, "apiVersion": "resource.k8s.io/v1beta2"},
        TEMPLATE,
        from_dict(ResourceClaim, CLAIM),
        from_dict(ResourceClaimTemplate, TEMPLATE),
        from_dict(resource_v1beta1.ResourceClaim, FLAT),
        [TEMPLATE, pod(OF_TEMPLATE)],
        [TEMPLATE, from_dict(core_v1.Pod, pod(OF_TEMPLATE))],
        [CLAIM, pod(OF_CLAIM)],
        {"kind": "ResourceClaimList", "apiVersion": "resource.k8s.io/v1beta1", "items": [FLAT]},
    ],
    ids=str,
)
def test_every_form_of_a_claim_for_one_device_fits_where_devices_are(question: Any) -> None:
    assert fits(question, CLUSTER) == ["n1"]
    assert how_many(question, CLUSTER)["n1"] >= 2


def test_files_and_directories_are_read(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    claim = tmp_path / "claims"
    claim.mkdir()
    (claim / "claim.json").write_bytes(msgspec.json.encode(CLAIM))
    (claim / "README.md").write_text("not a manifest")
    assert fits(claim, tmp_path / "cluster.yaml") == ["n1"]
    assert fits(claim / "claim.json", tmp_path / "cluster.yaml") == ["n1"]


def test_objects_of_the_official_client_are_understood() -> None:
    client = pytest.importorskip("kubernetes.client", reason="the official client is a development tool")
    exactly = client.V1ExactDeviceRequest(
        device_class_name="gpu",
        selectors=[client.V1DeviceSelector(cel=client.V1CELDeviceSelector(expression=SELECTOR["cel"]["expression"]))],
    )
    devices = client.V1DeviceClaim(requests=[client.V1DeviceRequest(name="r", exactly=exactly)])
    claim = client.ResourceV1ResourceClaim(
        metadata=client.V1ObjectMeta(name="c"), spec=client.V1ResourceClaimSpec(devices=devices)
    )
    assert fits(claim, CLUSTER) == ["n1"]
    assert fits(client.V1ResourceClaimList(items=[claim, claim]), CLUSTER) == ["n1"]
    entry = client.V1PodResourceClaim(name="e", resource_claim_name="c")
    wanting = client.V1Pod(
        metadata=client.V1ObjectMeta(name="p"), spec=client.V1PodSpec(containers=[], resource_claims=[entry])
    )
    assert fits([claim, wanting], CLUSTER) == ["n1"]


def test_a_workload_asks_for_what_its_pods_ask_for() -> None:
    template = {"spec": pod(OF_TEMPLATE, OF_TEMPLATE)["spec"]}
    job = {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "j"}, "spec": {"template": template}}
    assert how_many([TEMPLATE, job], CLUSTER) == {"n1": 1}


def test_a_pod_uses_claims_and_templates_of_the_cluster() -> None:
    cluster = Cluster.of(CLUSTER)
    cluster.add([CLAIM, TEMPLATE])
    assert fits(pod(OF_CLAIM), cluster) == ["n1"]
    assert fits(pod(OF_CLAIM, OF_TEMPLATE), cluster) == ["n1"]
    assert fits(pod(OF_CLAIM, OF_TEMPLATE, OF_TEMPLATE), cluster) == []
    cluster.remove(TEMPLATE)
    with pytest.raises(InvalidInput, match="template 't' is neither in the input nor in the cluster"):
        fits(pod(OF_TEMPLATE), cluster)


def test_copies_of_a_pod_share_the_claim_it_names() -> None:
    assert how_many([CLAIM, TEMPLATE, pod(OF_CLAIM, OF_TEMPLATE)], CLUSTER) == {"n1": 1}
    assert how_many([CLAIM, pod(OF_CLAIM)], CLUSTER) == {"n1": 256}
    assert how_many([CLAIM, pod(OF_CLAIM)], CLUSTER, limit=3) == {"n1": 3}


def test_a_pod_follows_the_claim_that_is_allocated_already() -> None:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]
    results = [{"request": "r", "driver": "other.example.com", "pool": "x", "device": "d"}]
    allocation = {"nodeSelector": {"nodeSelectorTerms": terms}, "devices": {"results": results}}
    cluster = Cluster.of([CLUSTER, {**CLAIM, "status": {"allocation": allocation}}])
    assert fits(pod(OF_CLAIM), cluster) == ["n2"]
    with pytest.raises(NodeError, match="resourceclaim not available on the node"):
        allocate("n1", pod(OF_CLAIM), cluster)


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ("", "it holds no object"),
        ("---\n# nothing\n", "it holds no object"),
        ([], "there is no claim in the input"),
        ("claim.yaml", r"if it names a file, pass pathlib.Path\('claim.yaml'\)"),
        (Path("no-such-file.yaml"), "no-such-file.yaml: No such file or directory"),
        ("{", "text: yaml: "),
        (None, "a NoneType is no Kubernetes object"),
        (7, "a int is no Kubernetes object"),
        ([7], r"\[0\]: a int is no Kubernetes object"),
        (SPEC, "a spec needs its claim around it"),
        ({}, "an object without a kind"),
        (pod(), "Pod default/p has no spec.resourceClaims: there is nothing to allocate"),
        (pod(OF_CLAIM), "claim 'c' is neither in the input nor in the cluster"),
        ({"kind": "DeviceClass", "metadata": {"name": "gpu"}}, "DeviceClass gpu asks for no devices"),
        ({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s"}}, "Service s asks for no devices"),
        (
            {**CLAIM, "apiVersion": "resource.k8s.io/v9"},
            "resource.k8s.io/v9 is no version of it; known are v1",
        ),
        ({**CLAIM, "spec": {"devices": {"requsts": []}}}, 'unknown field "spec.devices.requsts"'),
        (asked({"name": "r"}), r"spec.devices.requests\[0\]"),
        (asked({"name": "r", "exactly": {"deviceClassName": "gpu", "count": -1}}), r"exactly.count: Invalid value"),
        (asked({"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "Some"}}), "Unsupported value"),
    ],
)
def test_what_is_no_question_is_refused_with_a_reason(question: Any, why: str) -> None:
    for ask in (fits, how_many):
        with pytest.raises(InvalidInput, match=why):
            ask(question, CLUSTER)


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        ("", "it holds no object"),
        ("cluster.yaml", "pass pathlib.Path"),
        ([{"metadata": {"name": "x"}}], "an object without a kind"),
        (
            {"kind": "ResourceSlice", "apiVersion": "resource.k8s.io/v0", "metadata": {"name": "s"}},
            "is no version of it",
        ),
    ],
)
def test_what_is_no_cluster_is_refused_with_a_reason(cluster: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        Cluster.of(cluster)


def test_a_node_that_is_not_there_is_named() -> None:
    with pytest.raises(InvalidInput, match="node 'n3' is not in the cluster; it has n1, n2"):
        allocate("n3", CLAIM, CLUSTER)


def test_a_refusal_can_be_written_as_json() -> None:
    answer = allocate("n1", [CLAIM, CLAIM, CLAIM], CLUSTER)
    assert isinstance(answer, Refusal)
    said = answer.to_dict()
    assert (said["kind"], said["node"], said["stopped"]) == ("Refusal", "n1", False)
    assert said["requests"][0]["inReach"] == 2
    assert said["requests"][0]["obstacle"] == answer.reasons[0].obstacle
