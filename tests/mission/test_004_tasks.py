"""Three tasks of 1.34 to 1.36: set up, allocate devices to workloads, read device metadata (statements T1 to T14)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Kubectl, RunningCluster
from tests.mission.questions import event_messages, get, until

MANIFESTS = Path(__file__).parent / "manifests"
"""The documents' manifests, as they are there."""
OLDER = "--runtime-config=resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true"


@pytest.fixture(scope="module")
def kubectl(start_cluster: Callable[..., RunningCluster]) -> Kubectl:
    """Two nodes of 1.34 with the devices of the document."""
    options = ("--driver-name=driver.example.com", "--gpu-memory=64Gi", "--gpus=2", "--nodes=2")
    return Kubectl(start_cluster("--kubernetes-version=1.34", *options, OLDER))


@pytest.fixture(scope="module")
def newest(start_cluster: Callable[..., RunningCluster]) -> Kubectl:
    """A cluster of 1.36, whose driver writes device metadata."""
    cluster = Kubectl(start_cluster("--kubernetes-version=1.36", "--gpus=2", "--nodes=1"))
    gpus = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu.example.com"},
        "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
    }
    cluster("create", "-f", "-", stdin=json.dumps(gpus))
    return cluster


def test_the_server_is_not_older_than_134(kubectl: Kubectl) -> None:
    version = json.loads(kubectl("version", "-o", "json"))["serverVersion"]
    assert (version["major"], version["minor"]) == ("1", "34")


def test_older_versions_are_served_where_they_are_switched_on(kubectl: Kubectl, newest: Kubectl) -> None:
    assert {"resource.k8s.io/v1", "resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2"} <= set(
        kubectl("api-versions").split()
    )
    assert [name for name in newest("api-versions").split() if name.startswith("resource.k8s.io/")] == [
        "resource.k8s.io/v1"
    ]


def test_listing_classes_shows_whether_the_api_is_on(
    kubectl: Kubectl, start_cluster: Callable[..., RunningCluster]
) -> None:
    assert "No resources found" in kubectl.run("get", "deviceclasses").stderr
    off = Kubectl(start_cluster("--kubernetes-version=1.34", "--nodes=1", "--runtime-config=resource.k8s.io/v1=false"))
    done = off.run("get", "deviceclasses")
    assert done.stderr == 'error: the server doesn\'t have a resource type "deviceclasses"\n'


def test_claims_vanish_from_pods_where_the_gate_is_off(start_cluster: Callable[..., RunningCluster]) -> None:
    off = Kubectl(
        start_cluster("--kubernetes-version=1.34", "--nodes=1", "--feature-gates=DynamicResourceAllocation=false")
    )
    spec = {
        "containers": [{"name": "c", "image": "busybox", "command": ["sleep", "600"]}],
        "resourceClaims": [{"name": "x", "resourceClaimName": "none"}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    off("create", "-f", "-", stdin=json.dumps(pod))
    assert "resourceClaims" not in get(off, "pod", "p")["spec"]
    off("wait", "--for=condition=Ready", "pod/p", "--timeout=120s")


def test_a_driver_shows_itself_by_its_slices(kubectl: Kubectl) -> None:
    head, *rows = kubectl("get", "resourceslices").splitlines()
    assert head.split() == ["NAME", "NODE", "DRIVER", "POOL", "AGE"]
    assert sorted(row.split()[1:4] for row in rows) == [
        ["node-0", "driver.example.com", "node-0"],
        ["node-1", "driver.example.com", "node-1"],
    ]


def test_a_slice_shows_what_expressions_can_select(kubectl: Kubectl) -> None:
    name = kubectl("get", "resourceslices", "-o", "name").split()[0]
    shown = kubectl("get", name, "-o", "yaml")
    assert shown.startswith("apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\n")
    first = get(kubectl, name)["spec"]["devices"][0]
    assert (first["name"], first["attributes"]["type"], first["capacity"]["memory"]) == (
        "gpu-0",
        {"string": "gpu"},
        {"value": "64Gi"},
    )


def test_a_class_is_created_listed_and_deleted(kubectl: Kubectl) -> None:
    file = str(MANIFESTS / "deviceclass.yaml")
    assert kubectl("apply", "-f", file) == "deviceclass.resource.k8s.io/example-device-class created\n"
    head, row = kubectl("get", "deviceclasses").splitlines()
    assert (head.split(), row.split()[0]) == (["NAME", "AGE"], "example-device-class")
    assert kubectl("delete", "-f", file) == 'deviceclass.resource.k8s.io "example-device-class" deleted\n'


@pytest.fixture
def claimed(kubectl: Kubectl) -> Any:
    """Class, template and claim of the document."""
    files = [str(MANIFESTS / name) for name in ("deviceclass.yaml", "resourceclaimtemplate.yaml", "resourceclaim.yaml")]
    for file in files:
        kubectl("apply", "-f", file)
    yield
    for file in reversed(files):
        kubectl("delete", "-f", file, timeout=150)


def test_template_and_claim_are_created_and_wait(kubectl: Kubectl, claimed: None) -> None:
    template = get(kubectl, "resourceclaimtemplate", "example-resource-claim-template")
    assert template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    assert kubectl("get", "resourceclaims").splitlines()[1].split()[:2] == ["example-resource-claim", "pending"]


def test_the_job_as_it_is_printed_waits_and_says_why(kubectl: Kubectl, claimed: None) -> None:
    """Its two claims want one GPU and all GPUs of a node: together that is one too many, here as in Kubernetes."""
    kubectl("apply", "-f", str(MANIFESTS / "dra-example-job.yaml"))
    pods = until(lambda: get(kubectl, "pods", "-l", "job-name=example-dra-job")["items"], lambda pods: len(pods) == 2)
    name = pods[0]["metadata"]["name"]
    until(
        lambda: event_messages(kubectl, name),
        lambda messages: any("cannot allocate all claims" in message for message in messages),
    )
    assert "cannot allocate all claims" in kubectl("describe", "pod", name)
    assert "example-dra-job" in kubectl("describe", "job", "example-dra-job")
    kubectl("delete", "-f", str(MANIFESTS / "dra-example-job.yaml"), timeout=150)
    until(lambda: get(kubectl, "pods")["items"], lambda pods: not pods)


def test_the_job_runs_where_the_shared_claim_leaves_devices(kubectl: Kubectl, claimed: None) -> None:
    kubectl("delete", "-f", str(MANIFESTS / "resourceclaim.yaml"))
    text = (MANIFESTS / "resourceclaim.yaml").read_text()
    kubectl("apply", "-f", "-", stdin=text.replace("allocationMode: All", "allocationMode: ExactCount"))
    text = (MANIFESTS / "dra-example-job.yaml").read_text().replace("parallelism: 2", "parallelism: 1")
    kubectl("apply", "-f", "-", stdin=text)
    (pod,) = until(lambda: get(kubectl, "pods", "-l", "job-name=example-dra-job")["items"], bool)
    name = pod["metadata"]["name"]
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=120s", timeout=150)
    seen = {
        container: {
            line
            for line in kubectl("exec", name, "-c", container, "--", "env").splitlines()
            if line.startswith("GPU_DEVICE_")
        }
        for container in ("container0", "container1", "container2")
    }
    assert seen["container1"] == seen["container2"], "one claim, shared"
    assert not seen["container0"] & seen["container1"]
    kubectl("delete", "job/example-dra-job", "--cascade=foreground", "--wait=false")
    kubectl("delete", "pod", name, "--grace-period=1", timeout=150)


def test_a_pod_whose_claim_is_missing_stays_pending(kubectl: Kubectl) -> None:
    spec = {
        "containers": [{"name": "c", "image": "busybox", "command": ["sleep", "600"]}],
        "resourceClaims": [{"name": "x", "resourceClaimName": "comes-later"}],
        "terminationGracePeriodSeconds": 1,
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "early"}, "spec": spec}
    kubectl("create", "-f", "-", stdin=json.dumps(pod))
    assert get(kubectl, "pod", "early")["status"]["phase"] == "Pending"
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "comes-later"},
        "spec": {"devices": {}},
    }
    kubectl("create", "-f", "-", stdin=json.dumps(claim))
    kubectl("wait", "--for=condition=Ready", "pod/early", "--timeout=120s", timeout=150)
    kubectl("delete", "pod/early", "resourceclaim/comes-later", timeout=150)


def test_an_entry_names_a_claim_or_a_template(kubectl: Kubectl) -> None:
    spec = {"containers": [{"name": "c", "image": "busybox"}], "resourceClaims": [{"name": "x"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "neither"}, "spec": spec}
    done = kubectl.run("create", "-f", "-", stdin=json.dumps(pod))
    assert done.returncode == 1
    assert "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`" in done.stderr


@pytest.mark.parametrize(
    ("manifest", "pod", "path"),
    [
        ("dra-device-metadata-pod.yaml", "gpu-metadata-reader", "resourceclaims/gpu-claim/gpu"),
        (
            "dra-device-metadata-template-pod.yaml",
            "gpu-metadata-template-reader",
            "resourceclaimtemplates/my-gpu/gpu",
        ),
    ],
)
def test_a_pod_reads_the_metadata_of_its_device(newest: Kubectl, manifest: str, pod: str, path: str) -> None:
    newest("apply", "-f", str(MANIFESTS / manifest))
    newest("wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=120s", timeout=150)
    file = f"/var/run/kubernetes.io/dra-device-attributes/{path}/gpu.example.com-metadata.json"
    logs = until(lambda: newest("logs", pod).splitlines(), lambda lines: len(lines) > 3)
    assert logs[0].startswith("=== DRA device metadata")
    assert logs[1] == file
    shown = newest("exec", pod, "--", "cat", file)
    first, _ = json.JSONDecoder().raw_decode(shown)
    assert (first["kind"], first["apiVersion"]) == ("DeviceMetadata", "metadata.resource.k8s.io/v1alpha1")
    assert first.get("podClaimName", "my-gpu") == "my-gpu"
    assert ("podClaimName" in first) == ("template" in pod)
    attributes = first["requests"][0]["devices"][0]["attributes"]
    assert {name.rpartition("/")[2] for name in attributes} >= {"model", "driverVersion", "uuid"}
    newest("delete", "--grace-period=1", "-f", str(MANIFESTS / manifest), timeout=150)
