"""The walk of the DRA tutorials with the real kubectl, unchanged, on the manifests of ``examples/``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.conftest import EXAMPLES, Kubectl, RunningCluster

TUTORIAL = EXAMPLES / "tutorial"


@pytest.fixture(scope="module")
def tutorial(start_cluster: Callable[..., RunningCluster]) -> Kubectl:
    """A cluster whose devices are those of the tutorial."""
    return Kubectl(start_cluster("--driver-name=driver.example.com", "--gpu-memory=64Gi", "--nodes=1", "--gpus=8"))


@pytest.fixture(scope="module")
def plain(start_cluster: Callable[..., RunningCluster]) -> Kubectl:
    """A cluster as it comes up."""
    return Kubectl(start_cluster("--nodes=1", "--gpus=4"))


def get(kubectl: Kubectl, *words: str) -> Any:
    """``kubectl get … -o json``."""
    return json.loads(kubectl("get", *words, "-o", "json"))


def event_messages(kubectl: Kubectl, name: str) -> list[str]:
    """Messages of the events about one object."""
    events = get(kubectl, "events", "--field-selector", f"involvedObject.name={name}")
    return [event["message"] for event in events["items"]]


@pytest.fixture
def applied(plain: Kubectl) -> Iterator[Callable[[str], None]]:
    """Applies a file of the examples and deletes it afterwards."""
    files: list[str] = []

    def apply(path: str) -> None:
        files.append(path)
        plain("apply", "-f", str(EXAMPLES / path))

    yield apply
    for path in reversed(files):
        plain("delete", "--ignore-not-found", "-f", str(EXAMPLES / path))


def test_the_tutorial_from_an_empty_cluster_to_an_empty_cluster(tutorial: Kubectl) -> None:
    assert "No resources found" in tutorial.run("get", "deviceclasses").stderr
    slices = tutorial("get", "resourceslices").splitlines()
    assert slices[0].split() == ["NAME", "NODE", "DRIVER", "POOL", "AGE"]
    assert slices[1].split()[1:4] == ["node-0", "driver.example.com", "node-0"]
    document = tutorial("get", "resourceslice", slices[1].split()[0], "-o", "yaml")
    assert "kind: ResourceSlice" in document
    assert "string: gpu" in document

    files = [
        TUTORIAL / name for name in ("deviceclass.yaml", "resourceclaimtemplate.yaml", "resourceclaim.yaml", "job.yaml")
    ]
    for file in files[:3]:
        tutorial("apply", "-f", str(file))
    claims = tutorial("get", "resourceclaims").splitlines()
    assert claims[0].split() == ["NAME", "STATE", "AGE"]
    assert claims[1].split()[:2] == ["example-resource-claim", "pending"]

    watching = tutorial.start("get", "jobs", "--watch")
    try:
        tutorial("apply", "-f", str(files[3]))
        tutorial("wait", "--for=condition=complete", "job/example-job", "--timeout=120s", timeout=150)
    finally:
        watching.terminate()
    seen, _ = watching.communicate(timeout=150)
    assert "example-job" in seen
    assert "10/10" in seen

    pods = get(tutorial, "pods", "-l", "batch.kubernetes.io/job-name=example-job")["items"]
    assert len(pods) == 10
    assert {pod["status"]["phase"] for pod in pods} == {"Succeeded"}
    name = pods[0]["metadata"]["name"]
    own = tutorial("logs", name, "-c", "container0")
    shared = tutorial("logs", name, "-c", "container1")
    assert own.count("_RESOURCE_CLAIM=") == 1
    assert shared.count("_RESOURCE_CLAIM=") == 2
    assert tutorial("logs", name, "-c", "container2").splitlines() == [
        line for line in shared.splitlines() if line.startswith("GPU_DEVICE_")
    ]
    assert '"kind": "DeviceMetadata"' in own
    described = tutorial("describe", "pod", name)
    assert "separate-gpu-claim" in described
    assert "Scheduled" in described
    assert "example-resource-claim" in tutorial("describe", "resourceclaim", "example-resource-claim")

    for file in reversed(files):
        tutorial("delete", "-f", str(file), timeout=150)
    assert get(tutorial, "pods")["items"] == []
    assert get(tutorial, "resourceclaims")["items"] == []
    assert "No resources found" in tutorial.run("get", "deviceclasses").stderr


@pytest.mark.parametrize(
    ("manifest", "pod", "path"),
    [
        ("pod-with-claim.yaml", "gpu-metadata-reader", "resourceclaims/gpu-claim/gpu"),
        ("pod-with-template.yaml", "gpu-metadata-template-reader", "resourceclaimtemplates/my-gpu/gpu"),
    ],
)
def test_a_container_reads_the_metadata_of_its_device(
    plain: Kubectl, applied: Callable[[str], None], manifest: str, pod: str, path: str
) -> None:
    applied("device-metadata/deviceclass.yaml")
    applied(f"device-metadata/{manifest}")
    plain("wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=120s")
    file = f"/var/run/kubernetes.io/dra-device-attributes/{path}/gpu.example.com-metadata.json"
    shown = plain("exec", pod, "--", "sh", "-c", f'cat "${{CATHEDRA_MOUNTS:-}}"{file}')
    first, _ = json.JSONDecoder().raw_decode(shown)
    device = first["requests"][0]["devices"][0]
    assert device["driver"] == "gpu.example.com"
    uuids = [value["string"] for name, value in device["attributes"].items() if name.endswith("uuid")]
    assert uuids[0].startswith("gpu-")
    assert plain("logs", pod).strip() == shown.strip()


def test_exec_hands_on_input_output_and_exit_code(plain: Kubectl, applied: Callable[[str], None]) -> None:
    applied("device-metadata/deviceclass.yaml")
    applied("device-metadata/pod-with-claim.yaml")
    plain("wait", "--for=condition=Ready", "pod/gpu-metadata-reader", "--timeout=120s")
    assert plain("exec", "-i", "gpu-metadata-reader", "--", "cat", stdin="through the wire\n") == "through the wire\n"
    failed = plain.run("exec", "gpu-metadata-reader", "--", "sh", "-c", "echo wrong >&2; exit 7")
    assert failed.returncode == 7
    assert "wrong" in failed.stderr


def test_two_pods_share_one_claim(plain: Kubectl, applied: Callable[[str], None]) -> None:
    applied("shared-claim/deviceclass.yaml")
    applied("shared-claim/resourceclaim.yaml")
    applied("shared-claim/pods.yaml")
    plain("wait", "--for=condition=Ready", "pod/sharing-a", "pod/sharing-b", "--timeout=120s")
    claim = get(plain, "resourceclaim", "shared-gpu")
    assert sorted(consumer["name"] for consumer in claim["status"]["reservedFor"]) == ["sharing-a", "sharing-b"]
    assert "allocated,reserved" in plain("get", "resourceclaim", "shared-gpu")
    assert plain("logs", "sharing-a") == plain("logs", "sharing-b")


@pytest.mark.parametrize(
    ("manifest", "pod", "why"),
    [
        ("unsatisfiable-claim.yaml", "unsatisfiable-claim", "0/1 nodes are available: 1 cannot allocate all claims."),
        (
            "bypasses-the-scheduler.yaml",
            "bypasses-the-scheduler",
            "is not allowed to use ResourceClaim never-allocated",
        ),
    ],
)
def test_a_pod_that_cannot_run_stays_pending_and_says_why(
    plain: Kubectl, applied: Callable[[str], None], manifest: str, pod: str, why: str
) -> None:
    applied("pending-pods/deviceclass.yaml")
    applied(f"pending-pods/{manifest}")
    deadline = time.monotonic() + 120
    while not any(why in message for message in event_messages(plain, pod)):
        assert time.monotonic() < deadline, event_messages(plain, pod)
        time.sleep(0.2)
    assert get(plain, "pod", pod)["status"]["phase"] == "Pending"
    assert why in plain("describe", "pod", pod)
