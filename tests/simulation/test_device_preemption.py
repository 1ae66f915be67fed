"""Preemption for devices in a whole cluster: scheduler, controllers, nodes and the example driver (KEP-5690)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cathedra.testing.cluster import DRACluster
from cathedra.testing.options import ClusterOptions

CLASS = "gpu.example.com"


def priority(name: str, value: int) -> dict[str, Any]:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def device_class() -> dict[str, Any]:
    selector = {"cel": {"expression": f'device.driver == "{CLASS}"'}}
    metadata = {"name": CLASS}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": metadata,
        "spec": {"selectors": [selector]},
    }


def template(count: int) -> dict[str, Any]:
    requests = [{"name": "gpus", "exactly": {"deviceClassName": CLASS, "count": count}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": f"gpus-{count}"},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }


def pod(name: str, count: int, priority_class: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "priorityClassName": priority_class,
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "main", "image": "pause", "resources": {"claims": [{"name": "gpus"}]}}],
            "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": f"gpus-{count}"}],
        },
    }


def test_a_pod_gets_the_devices_of_those_it_evicts_and_no_other_pod_takes_them_or_is_evicted(tmp_path: Path) -> None:
    options = ClusterOptions(nodes=2, gpus=2, kubernetes_version="1.37", feature_gates={"DRAPreemption": True})
    with DRACluster(options, tmp_path) as cluster:
        cluster.apply([device_class(), priority("low", 1), priority("high", 100), template(1), template(2)])
        olds = [f"old-{number}" for number in range(4)]
        for name in olds:
            cluster.apply(pod(name, 1, "low"))
            cluster.wait_for(f"pod/{name}", "phase=Running")
        cluster.apply(pod("big", 2, "high"))
        # On a slow machine it may run before a nomination is seen.
        cluster.wait_for("pod/big", lambda one: one.status.nominated_node_name or one.status.phase == "Running")
        # Pods of low priority wait for the same devices, and are woken by each one that becomes free.
        cluster.apply(pod("thief", 1, "low"))
        big = cluster.wait_for("pod/big", "phase=Running")
        left = {one.metadata.name for one in cluster.list("pods") if one.metadata.name in olds}
        assert len(left) == 2
        assert all(cluster.get(f"pod/{name}").spec.node_name != big.spec.node_name for name in left)
        assert cluster.get("pod/thief").spec.node_name == ""
        reasons = [one.reason for one in cluster.list("events") if one.involved_object.name in olds]
        assert reasons.count("Preempted") == 2
