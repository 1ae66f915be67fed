"""A cluster that is started from a dump: its nodes, and what its users had created."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.core_v1 import Pod
from cathedra.insight.clusterimport import imported_groups, imported_objects
from cathedra.insight.reading.dumps import read_dump
from tests.unit.cli.dra.dumps import gpu_cluster, pod_with


def test_nodes_keep_their_names_labels_taints_and_devices() -> None:
    objects = gpu_cluster(nodes=1)
    node = next(one for one in objects if one["kind"] == "Node")
    node["metadata"]["labels"] = {"zone": "a", "kubernetes.io/hostname": "node-0"}
    taints = [{"key": "team", "effect": "NoSchedule"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]
    node["spec"] = {"taints": taints}
    node["status"]["capacity"] = {"cpu": "8"}
    bare: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "plain.example.com"}}
    first, second = imported_groups(read_dump([*objects, bare]))
    assert (first.node_names, dict(first.labels), dict(first.capacity)) == (("node-0",), {"zone": "a"}, {"cpu": "8"})
    assert [taint.key for taint in first.taints] == ["team"]
    assert first.profile is not None
    assert first.profile.drivers == ("gpu.example.com",)
    assert (second.node_names, second.profile) == (("plain.example.com",), None)


def test_objects_of_users_are_created_again_without_status_and_those_of_controllers_are_not() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    template, pod = pod_with(1)
    pod["spec"]["nodeName"] = "node-0"
    owned = {**pod, "metadata": {**pod["metadata"], "name": "owned", "uid": "owned", "ownerReferences": [owner]}}
    found = imported_objects(read_dump([*gpu_cluster(taken=1), template, pod, owned]))
    kinds = [ref.kind for ref, _ in found]
    assert kinds == ["Namespace", "Namespace", "DeviceClass", "ResourceClaimTemplate", "ResourceClaim", "Pod"]
    (made,) = (one for _, one in found if isinstance(one, Pod))
    assert (made.metadata.name, made.metadata.uid, made.spec.node_name, made.status.phase) == ("train", "", "", "")
