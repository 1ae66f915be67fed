"""The map of a cluster has what the page needs: devices, nodes with labels, and what can be explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.insight import devices, read_dump
from cathedra.insight.inventory import clustermap
from cathedra.insight.inventory.clustermap import cluster_map
from tests.unit.cli.dra.dumps import gpu_cluster, pod_with

ROOT = Path(__file__).parents[4]


def test_it_has_the_devices_of_the_list() -> None:
    state = read_dump([*gpu_cluster(taken=2), *pod_with(1)])
    assert cluster_map(state).devices == devices(state).devices


def test_nodes_have_labels_and_taints() -> None:
    nodes = {one.name: one for one in cluster_map(read_dump(ROOT / "examples/insight/cluster.yaml")).nodes}
    assert nodes["node-2"].labels["zone"] == "b"
    assert nodes["node-2"].taints == ("reserved=research:NoSchedule",)
    assert nodes["node-2"].ready, "a dump may have no conditions"


def test_subjects_are_claims_pods_and_the_workloads_that_use_devices() -> None:
    found = cluster_map(read_dump(ROOT / "examples/insight/cluster.yaml")).subjects
    assert {(one.kind, one.name, one.waits) for one in found if one.namespace == "team-a"} == {("pod", "train", True)}
    assert ("claim", "idle", False) in {(one.kind, one.name, one.waits) for one in found}


def test_subjects_beyond_the_limit_are_noted_and_those_that_wait_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustermap, "MOST_SUBJECTS", 1)
    found = cluster_map(read_dump([*gpu_cluster(taken=2), *pod_with(1)]))
    assert [one.waits for one in found.subjects] == [True]
    assert "beyond 1" in found.notes[-1].text
