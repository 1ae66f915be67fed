"""Questions: claims, templates, pods and workloads, and what is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cathedra.allocation import Cluster, InvalidInput, NodeError, allocate, fits, how_many
from cathedra.allocation.claimsets import ClaimSet, read_claim_set
from cathedra.api.core import core_v1, resource_v1beta1
from cathedra.api.resource import AllocationResult, ResourceClaim, ResourceClaimTemplate
from cathedra.api.struct import from_dict
from tests.unit.allocation.manifests import CLAIM, CLUSTER, EXACTLY, SPEC, TEMPLATE

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
    "claim_set",
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
def test_every_form_of_a_claim_for_one_device_fits_where_devices_are(claim_set: Any) -> None:
    assert fits(claim_set, CLUSTER) == ["n1"]
    assert how_many(claim_set, CLUSTER)["n1"] >= 2


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
    ("claim_set", "why"),
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
        ({"kind": "DeviceClass", "metadata": {"name": "gpu"}}, "DeviceClass gpu requests no devices"),
        ({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s"}}, "Service s requests no devices"),
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
def test_what_is_no_question_is_refused_with_a_reason(claim_set: Any, why: str) -> None:
    for ask in (fits, how_many):
        with pytest.raises(InvalidInput, match=why):
            ask(claim_set, CLUSTER)


# --- the claim_set itself


def claim_set(*given: Any, cluster: Any = ()) -> ClaimSet:
    known = Cluster.of(list(cluster)) if cluster else Cluster()
    return read_claim_set(list(given), known.claims, known.templates)


def named(found: ClaimSet) -> list[str]:
    return [claim.metadata.name for claim in found.claims]


def test_what_a_pod_uses_is_not_asked_for_twice() -> None:
    assert named(claim_set(CLAIM, TEMPLATE)) == ["c", "t"]
    assert named(claim_set(CLAIM, TEMPLATE, pod(OF_TEMPLATE, OF_CLAIM))) == ["p-e0", "c"]


def test_claims_that_a_pod_names_are_shared_by_its_copies_and_those_of_templates_are_not() -> None:
    found = claim_set(CLAIM, TEMPLATE, pod(OF_TEMPLATE, OF_CLAIM))
    assert found.shared == {("default", "c")}
    result = from_dict(AllocationResult, {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": []}]}})
    after = found.after([AllocationResult(), result])
    assert (named(after), after.shared, after.places) == (["p-e0"], frozenset(), (result.node_selector,))
    assert after.after([AllocationResult()]) is after


def test_two_pods_ask_for_the_claim_that_both_name_once() -> None:
    other = {**pod(OF_CLAIM), "metadata": {"name": "q", "namespace": "default"}}
    assert named(claim_set(CLAIM, pod(OF_CLAIM), other)) == ["c"]


def test_the_input_goes_before_the_cluster() -> None:
    bigger = asked({"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}})
    found = claim_set(bigger, pod(OF_CLAIM), cluster=[CLAIM])
    (request,) = found.claims[0].spec.devices.requests or ()
    assert request.exactly is not None
    assert request.exactly.count == 2


def test_claims_get_the_defaults_of_the_api_server() -> None:
    (request,) = claim_set(CLAIM).claims[0].spec.devices.requests or ()
    assert request.exactly is not None
    assert (request.exactly.allocation_mode, request.exactly.count) == ("ExactCount", 1)


def test_a_claim_that_is_allocated_already_binds_the_pod_to_its_nodes() -> None:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]
    allocation = {"nodeSelector": {"nodeSelectorTerms": terms}}
    found = claim_set(pod(OF_CLAIM), cluster=[{**CLAIM, "status": {"allocation": allocation}}])
    assert found.claims == ()
    nodes = [from_dict(core_v1.Node, {"metadata": {"name": name}}) for name in ("n1", "n2")]
    assert [found.reaches(node) for node in nodes] == [False, True]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController"])
def test_a_workload_is_its_pod_template(kind: str) -> None:
    workload = {"kind": kind, "metadata": {"name": "w"}, "spec": {"template": {"spec": pod(OF_TEMPLATE)["spec"]}}}
    assert named(claim_set(TEMPLATE, workload)) == ["w-e0"]
    with pytest.raises(InvalidInput, match=f"{kind} w: it has no pod template"):
        claim_set({"kind": kind, "metadata": {"name": "w"}, "spec": {}})


def cluster(**extended: str) -> Cluster:
    """A node of eight CPUs and four devices, whose class may have an extended resource."""
    node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8", "memory": "32Gi"}}}
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{number}"} for number in range(4)],
    }
    pieces = [
        {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": extended},
        {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec},
    ]
    return Cluster.of([node, *pieces])


def pod_requesting(*, claims: bool = False, **resources: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "x", "resources": resources}]}
    if claims:
        spec["resourceClaims"] = [{"name": "d", "resourceClaimName": "c"}]
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}


NAMED = {
    "kind": "ResourceClaim",
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
}


@pytest.mark.parametrize("field", ["requests", "limits"])
@pytest.mark.parametrize(("cpus", "nodes"), [("8", ["n1"]), ("8000", [])])
def test_a_pod_needs_room_for_its_other_requests_too(field: str, cpus: str, nodes: list[str]) -> None:
    pod = pod_requesting(claims=True, **{field: {"cpu": cpus}})
    assert fits([NAMED, pod], cluster()) == nodes
    if not nodes:
        with pytest.raises(NodeError, match="Insufficient cpu"):
            allocate("n1", [NAMED, pod], cluster())


def test_copies_end_where_the_room_of_the_node_does() -> None:
    template = {**NAMED, "kind": "ResourceClaimTemplate", "spec": {"spec": NAMED["spec"]}}
    pod = pod_requesting(requests={"cpu": "3"})
    pod["spec"]["resourceClaims"] = [{"name": "d", "resourceClaimTemplateName": "c"}]
    assert how_many([template, pod], cluster()) == {"n1": 2}


@pytest.mark.parametrize(("amount", "nodes"), [("4", ["n1"]), ("5", [])])
@pytest.mark.parametrize("name", ["example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"])
def test_extended_resources_of_a_class_are_devices(name: str, amount: str, nodes: list[str]) -> None:
    pod = pod_requesting(limits={name: amount})
    assert fits(pod, cluster(extendedResourceName="example.com/gpu")) == nodes


def test_kinds_that_have_nothing_to_do_with_devices_are_left_out() -> None:
    namespace = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "team"}}
    assert fits([namespace, NAMED], cluster()) == ["n1"]
    with pytest.raises(InvalidInput, match="Namespace team requests no devices"):
        fits(namespace, cluster())


def test_a_refusal_is_false() -> None:
    assert allocate("n1", NAMED, cluster())
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 5}}]
    many = {**NAMED, "spec": {"devices": {"requests": requests}}}
    assert not allocate("n1", many, cluster())
