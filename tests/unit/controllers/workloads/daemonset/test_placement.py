"""Where the pods of a daemon set belong."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.apps_v1 import DaemonSet
from cathedra.api.core.core_v1 import Node
from cathedra.api.struct import from_dict
from cathedra.controllers.workloads.daemonset.placement import daemon_pod, may_stay, should_run, target_node


def daemon_set(**spec: Any) -> DaemonSet:
    annotations = {"deprecated.daemonset.template.generation": "3"}
    metadata = {"name": "d", "namespace": "default", "uid": "u", "annotations": annotations}
    return from_dict(DaemonSet, {"metadata": metadata, "spec": {"template": {"spec": {"containers": [], **spec}}}})


def node(*taints: tuple[str, str], **labels: str) -> Node:
    shown = [{"key": key, "effect": effect} for key, effect in taints]
    return from_dict(Node, {"metadata": {"name": "n", "labels": labels}, "spec": {"taints": shown}})


@pytest.mark.parametrize(
    ("obj", "on", "expected"),
    [
        (daemon_set(), node(), (True, True)),
        (daemon_set(nodeName="n"), node(), (True, True)),
        (daemon_set(nodeName="m"), node(), (False, False)),
        (daemon_set(nodeSelector={"a": "b"}), node(), (False, False)),
        (daemon_set(nodeSelector={"a": "b"}), node(a="b"), (True, True)),
        (daemon_set(), node(("own", "NoSchedule")), (False, True)),
        (daemon_set(), node(("own", "NoExecute")), (False, False)),
        (daemon_set(), node(("own", "PreferNoSchedule")), (True, True)),
        (daemon_set(), node(("node.kubernetes.io/unschedulable", "NoSchedule")), (True, True)),
        (daemon_set(), node(("node.kubernetes.io/network-unavailable", "NoSchedule")), (False, True)),
        (daemon_set(hostNetwork=True), node(("node.kubernetes.io/network-unavailable", "NoSchedule")), (True, True)),
        (daemon_set(tolerations=[{"operator": "Exists"}]), node(("own", "NoExecute")), (True, True)),
    ],
)
def test_nodes_that_are_to_have_a_pod_and_those_that_may_keep_one(
    obj: DaemonSet, on: Node, expected: tuple[bool, bool]
) -> None:
    assert (should_run(obj, on), may_stay(obj, on)) == expected


def test_a_pod_is_pinned_to_its_node_and_says_its_version() -> None:
    made = daemon_pod(daemon_set(), "n", "abc")
    assert target_node(made) == "n"
    assert made.metadata.labels == {"controller-revision-hash": "abc", "pod-template-generation": "3"}
    assert target_node(from_dict(type(made), {"spec": {"nodeName": "m"}})) == "m"
    assert target_node(from_dict(type(made), {})) == ""
