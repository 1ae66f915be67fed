"""Scheduler, controller manager and node agent beside an API server that writes JSON as Go does.

Each part finds what anyone who may create a pod, a kubelet without CSI drivers or an administrator leaves in a cluster:
lists and maps that are written as null, in one object of every kind; fields of a newer release; frames that end
anywhere. It must do its work beside them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cathedra.releases import NEWEST
from tests.goapiserver import GoAPIServer, go_api_server
from tests.goapiserver.objects import Refused, served_resources
from tests.integration.test_parts_alone import Parts

CONTAINER = {"name": "c", "image": "host", "command": ["sleep", "3600"], "imagePullPolicy": "IfNotPresent"}
ODD_POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "odd", "namespace": "default"},
    "spec": {
        "schedulerName": "default-scheduler",
        "volumes": [{"name": "v", "projected": {}}],
        "containers": [CONTAINER],
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
    },
}
TEMPLATED = {"metadata": {"labels": {"app": "odd"}}, "spec": ODD_POD["spec"]}
SELECTING = {"selector": {"matchLabels": {"app": "odd"}}, "template": TEMPLATED}
JOB = {"template": {"spec": {**ODD_POD["spec"], "restartPolicy": "Never"}}}
WORKLOADS: dict[str, dict[str, Any]] = {
    "Deployment": {**SELECTING, "replicas": 1},
    "ReplicaSet": {**SELECTING, "replicas": 1},
    "DaemonSet": SELECTING,
    "StatefulSet": {**SELECTING, "replicas": 1},
    "ReplicationController": {**SELECTING, "selector": {"app": "odd"}, "replicas": 1},
    "Job": JOB,
    "CronJob": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": JOB}},
}
"""The specs of kinds whose objects make pods; without a selector they would never stop to."""
UNMADE = ("Node", "Namespace", "Pod", "ResourceSlice", "CustomResourceDefinition", "APIService", "CSINode")
"""Kinds of which there is no object without a spec: it would be another cluster."""
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}},
    "status": {
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
    },
}
DEVICES = "resource.k8s.io/v1"
CLASS = {"apiVersion": DEVICES, "kind": "DeviceClass", "metadata": {"name": "gpu"}}
SLICE = {
    "apiVersion": DEVICES,
    "kind": "ResourceSlice",
    "metadata": {"name": "n1-gpus"},
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}],
    },
}
TEMPLATE = {
    "apiVersion": DEVICES,
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "gpu", "namespace": "default"},
    "spec": {
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": "gpu",
                        "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
                    }
                ]
            }
        }
    },
}
CLAIM = {
    "apiVersion": DEVICES,
    "kind": "ResourceClaim",
    "metadata": {"name": "gpu", "namespace": "default"},
    "spec": TEMPLATE["spec"]["spec"],  # type: ignore[index]
}


def pod_with(name: str, claim: dict[str, str]) -> dict[str, Any]:
    """A pod that needs a claim."""
    claims = {"resourceClaims": [{"name": "gpu", **claim}]}
    return {**ODD_POD, "metadata": {"name": name, "namespace": "default"}, "spec": {**ODD_POD["spec"], **claims}}


def odd_objects() -> Iterator[dict[str, Any]]:
    """An object of every kind of which nothing is set, and those that real clusters have."""
    for resource in served_resources(NEWEST).values():
        gvk = resource.gvk
        if gvk.kind not in UNMADE:
            metadata = {"name": "odd", **({"namespace": "default"} if resource.namespaced else {})}
            spec = {"spec": WORKLOADS[gvk.kind]} if gvk.kind in WORKLOADS else {}
            yield {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata, **spec}
    yield {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n1"}}
    yield ODD_POD


@pytest.fixture
def server() -> Iterator[GoAPIServer]:
    with go_api_server(tls=True) as running:
        for value in odd_objects():
            running.put(value)
        yield running


@pytest.fixture
def parts(server: GoAPIServer) -> Iterator[Parts]:
    with tempfile.TemporaryDirectory(prefix="go-") as name, ExitStack() as stack:
        yield Parts(Path(name), stack)


def kubeconfig(server: GoAPIServer, parts: Parts) -> str:
    return f"--kubeconfig={server.kubeconfig(parts.folder / 'kubeconfig')}"


def until(parts: Parts, part: str, condition: Callable[[], object], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert parts.is_running(part), parts.log(part)
        assert time.monotonic() < deadline, parts.log(part)
        time.sleep(0.05)


def node_of(server: GoAPIServer, pod: str) -> str:
    return str(server.get("v1", "Pod", pod, "default")["spec"].get("nodeName", ""))


def test_the_odd_objects_are_written_with_null(server: GoAPIServer) -> None:
    assert server.get("v1", "Pod", "odd", "default")["spec"]["volumes"][0]["projected"]["sources"] is None
    assert server.get("storage.k8s.io/v1", "CSINode", "n1")["spec"]["drivers"] is None
    assert server.get("discovery.k8s.io/v1", "EndpointSlice", "odd", "default")["endpoints"] is None
    assert server.get("v1", "LimitRange", "odd", "default")["spec"]["limits"] is None


def test_the_scheduler_places_pods_beside_nulls(server: GoAPIServer, parts: Parts) -> None:
    server.put(NODE, CLASS, SLICE, CLAIM, pod_with("user", {"resourceClaimName": "gpu"}))
    parts.start("scheduler", kubeconfig(server, parts))
    until(parts, "scheduler", lambda: node_of(server, "user") and node_of(server, "odd"))
    claim = server.get(DEVICES, "ResourceClaim", "gpu", "default")
    assert claim["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
    server.put({**ODD_POD, "metadata": {"name": "later", "namespace": "default"}})
    until(parts, "scheduler", lambda: node_of(server, "later"))
    assert "Traceback" not in parts.log("scheduler")
    assert parts.stop("scheduler") == 0


def test_the_controllers_do_their_work_beside_nulls(server: GoAPIServer, parts: Parts) -> None:
    server.put(NODE, CLASS, TEMPLATE, pod_with("user", {"resourceClaimTemplateName": "gpu"}))
    parts.start("controller-manager", kubeconfig(server, parts))

    def claims() -> list[str]:
        return [one["metadata"]["name"] for one in server.find(DEVICES, "ResourceClaim")]

    until(parts, "controller-manager", lambda: any(name.startswith("user-gpu-") for name in claims()))
    server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fresh"}, "status": {"phase": "Active"}})

    def has_account() -> bool:
        try:
            return bool(server.get("v1", "ServiceAccount", "default", "fresh"))
        except Refused:
            return False

    until(parts, "controller-manager", has_account)
    kinds = {"ReplicaSet", "DaemonSet", "StatefulSet", "ReplicationController", "Job"}

    def makers() -> set[str]:
        owners = [one["metadata"].get("ownerReferences") or () for one in server.find("v1", "Pod")]
        return {owner["kind"] for references in owners for owner in references}

    until(parts, "controller-manager", lambda: makers() >= kinds)
    assert "Traceback" not in parts.log("controller-manager")
    assert parts.stop("controller-manager") == 0


def test_a_node_runs_pods_beside_nulls(server: GoAPIServer, parts: Parts) -> None:
    for name in ("odd", "other"):
        metadata = {"name": name, "namespace": "default"}
        server.put({**ODD_POD, "metadata": metadata, "spec": {**ODD_POD["spec"], "nodeName": "n1"}})
    root = f"--root-dir={parts.folder / 'n'}"
    parts.start("node", kubeconfig(server, parts), "--node-name=n1", root, "--runtime=process")

    def phases() -> list[str]:
        return [server.get("v1", "Pod", name, "default")["status"].get("phase", "") for name in ("odd", "other")]

    until(parts, "node", lambda: phases() == ["Running", "Running"])
    ready = {one["type"]: one["status"] for one in server.get("v1", "Node", "n1")["status"]["conditions"]}
    assert ready["Ready"] == "True"
    assert "Traceback" not in parts.log("node")
    assert parts.stop("node") == 0
