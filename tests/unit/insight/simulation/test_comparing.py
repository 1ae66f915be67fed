"""Differences by UID, claims and devices; and what the question is about."""

from __future__ import annotations

from typing import Any

from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.state import ClusterState
from cathedra.insight.simulation.report import simulation_text
from cathedra.insight.simulation.run import PlannedChanges, simulate
from tests.unit.cli.dra.dumps import gpu_cluster, pod_with

SET = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "web", "namespace": "default", "uid": "set"},
    "spec": {
        "replicas": 1,
        "serviceName": "web",
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [{"name": "main", "image": "main"}],
                "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "gpus"}],
            },
        },
    },
}


def owned(kind: str, name: str, uid: str) -> list[dict[str, Any]]:
    version = "apps/v1" if kind == "StatefulSet" else "v1"
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}]


def running_set(gpus: int) -> ClusterState:
    """A StatefulSet of one pod, which holds gpu-0 of the only node."""
    template = pod_with(1)[0]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-0",
            "namespace": "default",
            "uid": "pod",
            "labels": {"app": "web"},
            "ownerReferences": owned("StatefulSet", "web", "set"),
        },
        "spec": {"nodeName": "node-0", **SET["spec"]["template"]["spec"]},
        "status": {
            "phase": "Running",
            "resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "web-0-gpus"}],
        },
    }
    result = {"request": "gpus", "driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": "web-0-gpus",
            "namespace": "default",
            "uid": "claim",
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpus"},
            "ownerReferences": owned("Pod", "web-0", "pod"),
        },
        "spec": template["spec"]["spec"],
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": "web-0", "uid": "pod"}],
        },
    }
    return read_dump([*gpu_cluster(nodes=1, gpus=gpus), template, SET, pod, claim])


def test_an_evicted_pod_that_comes_back_is_shown_with_its_devices_before_and_after() -> None:
    """Name and node are the same; UID and devices are not."""
    found = simulate(running_set(gpus=2), PlannedChanges(taint=["gpu.example.com/node-0/gpu-0=broken:NoExecute"]))
    (placed,) = found.placed
    assert (placed.pod, placed.node, placed.before) == ("default/web-0", "node-0", "node-0")
    assert list(placed.devices.values()) == [("gpu.example.com/node-0/gpu-1",)]
    assert list(placed.devices_before.values()) == [("gpu.example.com/node-0/gpu-0",)]
    assert found.gone == ()
    assert found.fits
    assert "~ default/web-0 → node-0 (gpu-1), before on node-0 (gpu-0)" in simulation_text(found, 120)


def test_an_evicted_pod_that_finds_no_other_device_is_gone_and_waits() -> None:
    found = simulate(running_set(gpus=1), PlannedChanges(taint=["gpu.example.com/node-0/gpu-0=broken:NoExecute"]))
    assert [one.pod for one in found.gone] == ["default/web-0"]
    assert [(group.pods, group.before) for group in found.pending] == [(("default/web-0",), False)]
    assert not found.fits


def test_a_pod_that_waited_before_is_shown_and_is_not_part_of_the_question() -> None:
    template, waiting = pod_with(9)
    other = {**pod_with(1)[0], "metadata": {"name": "one", "namespace": "default"}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    asked = {**waiting, "metadata": {"name": "new", "namespace": "default"}}
    asked["spec"] = {**waiting["spec"], "resourceClaims": claims, "containers": [{"name": "main", "image": "main"}]}
    state = read_dump([*gpu_cluster(), template, waiting])
    found = simulate(state, PlannedChanges(apply=[other, asked]), copies=0)
    assert [one.pod for one in found.placed] == ["default/new"]
    assert [(group.pods, group.before) for group in found.pending] == [(("default/train",), True)]
    assert found.fits
    assert "? default/train (waited before): " in simulation_text(found, 200)


def test_a_pod_that_waited_before_is_part_of_the_question_that_names_it() -> None:
    template, waiting = pod_with(9)
    state = read_dump([*gpu_cluster(), template, waiting])
    assert not simulate(state, PlannedChanges(apply=[waiting]), copies=0).fits
    assert not simulate(state).fits, "without any change the question is about all pods"
