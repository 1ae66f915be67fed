"""The walk through the enhancement proposal, 1.32: kinds, pools, controllers, the kubelet (statements P1 to P14)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cathedra.cluster.data.datadir import short_root
from tests.integration.conftest import Kubectl, RunningCluster
from tests.mission.questions import get, until

OPTIONS = (
    "--kubernetes-version=1.32",
    "--feature-gates=DynamicResourceAllocation=true,DRAAdminAccess=true",
    "--runtime-config=resource.k8s.io/v1beta1=true",
    "--nodes=2",
    "--gpus=4",
)
V1BETA1 = "resource.k8s.io/v1beta1"


@pytest.fixture(scope="module")
def cluster(start_cluster: Callable[..., RunningCluster]) -> RunningCluster:
    return start_cluster(*OPTIONS)


@pytest.fixture(scope="module")
def kubectl(cluster: RunningCluster) -> Kubectl:
    made = Kubectl(cluster)
    create(made, device_class("gpu", 'device.driver == "gpu.example.com"'))
    return made


def create(kubectl: Kubectl, *objects: dict[str, Any]) -> None:
    kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def device_class(name: str, expression: str) -> dict[str, Any]:
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return {"apiVersion": V1BETA1, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def claim(name: str, *requests: dict[str, Any]) -> dict[str, Any]:
    spec = {"devices": {"requests": list(requests)}}
    return {"apiVersion": V1BETA1, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def pod(name: str, claims: dict[str, str], uses: list[dict[str, str]] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod with these claims (entry → claim); its container uses all of them by default."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "busybox",
                    "command": ["sleep", "600"],
                    "resources": {"claims": uses if uses is not None else [{"name": entry} for entry in claims]},
                }
            ],
            "resourceClaims": [{"name": entry, "resourceClaimName": of} for entry, of in claims.items()],
            "terminationGracePeriodSeconds": 1,
            **spec,
        },
    }


def run(kubectl: Kubectl, *objects: dict[str, Any]) -> None:
    """Create, and wait for the pods among them."""
    create(kubectl, *objects)
    pods = [f"pod/{one['metadata']['name']}" for one in objects if one["kind"] == "Pod"]
    kubectl("wait", "--for=condition=Ready", *pods, "--timeout=120s", timeout=150)


def delete(kubectl: Kubectl, *names: str) -> None:
    kubectl("delete", *names, timeout=150)


def cdi_files(cluster: RunningCluster, node: str) -> list[Path]:
    """The documents of the node's drivers; what lies beside their folder comes and goes with pods."""
    return sorted((short_root(cluster.data.path) / "nodes" / node / "cdi").glob("*.json"))


def test_slices_say_driver_pool_and_node(kubectl: Kubectl) -> None:
    for piece in get(kubectl, "resourceslices")["items"]:
        spec = piece["spec"]
        assert spec["driver"] == "gpu.example.com"
        assert spec["pool"] == {"name": spec["nodeName"], "generation": 1, "resourceSliceCount": 1}
        assert len(spec["devices"]) == 4
        (owner,) = piece["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("Node", spec["nodeName"])


@pytest.mark.parametrize(
    ("where", "right"),
    [
        ({"nodeName": "n"}, True),
        ({"allNodes": True}, True),
        ({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}}, True),
        ({}, False),
        ({"nodeName": "n", "allNodes": True}, False),
    ],
)
def test_a_slice_is_for_one_node_for_selected_ones_or_for_all(
    kubectl: Kubectl, where: dict[str, Any], right: bool
) -> None:
    pool = {"name": "fabric", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "net.example.com", "pool": pool, "devices": [{"name": "a", "basic": {}}], **where}
    piece = {"apiVersion": V1BETA1, "kind": "ResourceSlice", "metadata": {"name": "fabric"}, "spec": spec}
    done = kubectl.run("create", "--dry-run=server", "-f", "-", stdin=json.dumps(piece))
    assert (done.returncode == 0) is right, done.stderr
    if not right:
        assert "is invalid: spec: " in done.stderr


def test_a_nodes_slices_go_with_the_node(kubectl: Kubectl) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "fails"}}
    made = json.loads(kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(node)))
    owner = {"apiVersion": "v1", "kind": "Node", "name": "fails", "uid": made["metadata"]["uid"]}
    pool = {"name": "fails", "generation": 1, "resourceSliceCount": 1}
    create(
        kubectl,
        {
            "apiVersion": V1BETA1,
            "kind": "ResourceSlice",
            "metadata": {"name": "of-the-node", "ownerReferences": [owner]},
            "spec": {"driver": "x.example.com", "pool": pool, "nodeName": "fails", "devices": []},
        },
    )
    delete(kubectl, "node/fails")
    until(
        lambda: [piece["metadata"]["name"] for piece in get(kubectl, "resourceslices")["items"]],
        lambda names: "of-the-node" not in names,
    )


def test_lists_are_atomic_for_server_side_apply(kubectl: Kubectl) -> None:
    wanted = claim("applied", {"name": "a", "deviceClassName": "gpu"}, {"name": "b", "deviceClassName": "gpu"})
    kubectl("apply", "--server-side", "--field-manager=one", "-f", "-", stdin=json.dumps(wanted))
    found = json.loads(kubectl("get", "resourceclaim", "applied", "-o", "json", "--show-managed-fields"))
    (entry,) = [entry for entry in found["metadata"]["managedFields"] if entry["manager"] == "one"]
    assert entry["fieldsV1"]["f:spec"] == {"f:devices": {"f:requests": {}}}, "one owner of the whole list"
    delete(kubectl, "resourceclaim/applied")


def test_a_claim_gets_its_finalizer_with_its_allocation(kubectl: Kubectl) -> None:
    create(kubectl, claim("protected", {"name": "r", "deviceClassName": "gpu"}))
    assert "finalizers" not in get(kubectl, "resourceclaim", "protected")["metadata"]
    run(kubectl, pod("p", {"x": "protected"}))
    found = get(kubectl, "resourceclaim", "protected")
    assert found["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    kubectl("delete", "resourceclaim", "protected", "--wait=false")
    assert get(kubectl, "resourceclaim", "protected")["metadata"]["deletionTimestamp"], "kept while in use"
    delete(kubectl, "pod/p")
    kubectl("wait", "--for=delete", "resourceclaim/protected", "--timeout=120s", timeout=150)


def test_requests_have_one_device_unless_they_say_how_many(kubectl: Kubectl) -> None:
    create(kubectl, claim("defaults", {"name": "r", "deviceClassName": "gpu"}))
    (request,) = get(kubectl, "resourceclaim", "defaults")["spec"]["devices"]["requests"]
    assert (request["allocationMode"], request["count"]) == ("ExactCount", 1)
    delete(kubectl, "resourceclaim/defaults")
    one_of_each = claim(
        "several", {"name": "one", "deviceClassName": "gpu"}, {"name": "two", "deviceClassName": "gpu", "count": 2}
    )
    run(kubectl, one_of_each, pod("p", {"x": "several"}))
    results = get(kubectl, "resourceclaim", "several")["status"]["allocation"]["devices"]["results"]
    assert [result["request"] for result in results] == ["one", "two", "two"]
    delete(kubectl, "pod/p", "resourceclaim/several")


def test_a_claim_without_requests_needs_nothing(kubectl: Kubectl) -> None:
    run(kubectl, claim("nothing"), pod("p", {"x": "nothing"}))
    assert get(kubectl, "resourceclaim", "nothing")["status"]["allocation"]["devices"].get("results") is None
    delete(kubectl, "pod/p", "resourceclaim/nothing")


def test_all_devices_are_to_be_had_only_while_none_is_taken(kubectl: Kubectl) -> None:
    everything = {"name": "r", "deviceClassName": "gpu", "allocationMode": "All"}
    watched = everything | {"adminAccess": True}
    here = {"nodeSelector": {"kubernetes.io/hostname": "node-0"}}
    run(kubectl, claim("one", {"name": "r", "deviceClassName": "gpu"}), pod("first", {"x": "one"}, **here))
    create(kubectl, claim("all", everything), pod("second", {"x": "all"}, **here))
    until(
        lambda: get(kubectl, "events", "--field-selector", "involvedObject.name=second")["items"],
        lambda events: any("cannot allocate all claims" in event["message"] for event in events),
    )
    run(kubectl, claim("watched", watched), pod("third", {"x": "watched"}, **here))
    assert len(get(kubectl, "resourceclaim", "watched")["status"]["allocation"]["devices"]["results"]) == 4
    delete(kubectl, "pod/first")
    kubectl("wait", "--for=condition=Ready", "pod/second", "--timeout=120s", timeout=150)
    delete(kubectl, "pod/second", "pod/third", "resourceclaim/one", "resourceclaim/all", "resourceclaim/watched")


def test_devices_fulfil_the_selectors_of_class_and_request(kubectl: Kubectl) -> None:
    index = 'device.attributes["gpu.example.com"].index'
    create(kubectl, device_class("upper", f'device.driver == "gpu.example.com" && {index} >= 2'))
    request = {"name": "r", "deviceClassName": "upper", "selectors": [{"cel": {"expression": f"{index} < 3"}}]}
    run(kubectl, claim("third", request), pod("p", {"x": "third"}))
    (result,) = get(kubectl, "resourceclaim", "third")["status"]["allocation"]["devices"]["results"]
    assert result["device"] == "gpu-2"
    delete(kubectl, "pod/p", "resourceclaim/third", "deviceclass/upper")


def test_status_names_the_consumers_and_is_emptied_after_the_last(kubectl: Kubectl) -> None:
    run(kubectl, claim("used", {"name": "r", "deviceClassName": "gpu"}), pod("p", {"x": "used"}))
    (consumer,) = get(kubectl, "resourceclaim", "used")["status"]["reservedFor"]
    assert (consumer["resource"], consumer["name"]) == ("pods", "p")
    delete(kubectl, "pod/p")
    until(lambda: get(kubectl, "resourceclaim", "used").get("status"), lambda status: not status)
    delete(kubectl, "resourceclaim/used")


def test_claims_carry_the_metadata_of_their_template(kubectl: Kubectl) -> None:
    template = {
        "apiVersion": V1BETA1,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t"},
        "spec": {
            "metadata": {"labels": {"team": "a"}, "annotations": {"why": "b"}},
            "spec": claim("", {"name": "r", "deviceClassName": "gpu"})["spec"],
        },
    }
    waiting = pod("p", {}, uses=[], schedulingGates=[{"name": "example.com/hold"}])
    waiting["spec"]["resourceClaims"] = [{"name": "x", "resourceClaimTemplateName": "t"}]
    create(kubectl, template, waiting)
    (made,) = until(lambda: get(kubectl, "resourceclaims", "-l", "team=a")["items"], bool)
    assert made["metadata"]["annotations"]["why"] == "b"
    delete(kubectl, "pod/p", "resourceclaimtemplate/t")


def test_a_claim_is_prepared_before_its_first_pod_and_unprepared_after_its_last(
    cluster: RunningCluster, kubectl: Kubectl
) -> None:
    here = {"nodeSelector": {"kubernetes.io/hostname": "node-1"}}
    before = cdi_files(cluster, "node-1")
    run(kubectl, claim("shared", {"name": "r", "deviceClassName": "gpu"}), pod("a", {"x": "shared"}, **here))
    prepared = cdi_files(cluster, "node-1")
    assert len(prepared) > len(before), "the driver wrote a CDI document"
    assert "cdiVersion" in json.loads(prepared[-1].read_text())
    run(kubectl, pod("b", {"x": "shared"}, **here))
    delete(kubectl, "pod/a")
    assert cdi_files(cluster, "node-1") == prepared, "another pod uses it"
    delete(kubectl, "pod/b")
    # The pod is removed only after its claims were released.
    assert cdi_files(cluster, "node-1") == before
    delete(kubectl, "resourceclaim/shared")


def test_a_container_sees_the_devices_of_the_requests_that_it_names(kubectl: Kubectl) -> None:
    both = claim("both", {"name": "one", "deviceClassName": "gpu"}, {"name": "two", "deviceClassName": "gpu"})
    run(kubectl, both, pod("p", {"x": "both"}, uses=[{"name": "x", "request": "two"}]))
    results = get(kubectl, "resourceclaim", "both")["status"]["allocation"]["devices"]["results"]
    of_two = next(result["device"] for result in results if result["request"] == "two")
    seen = dict(line.partition("=")[::2] for line in kubectl("exec", "p", "--", "env").splitlines())
    devices = {value for name, value in seen.items() if name.removeprefix("GPU_DEVICE_").isdigit()}
    assert devices == {of_two}
    delete(kubectl, "pod/p", "resourceclaim/both")
