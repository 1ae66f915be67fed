"""Additions of a simulation: nodes like existing ones, and nodes of profiles."""

from __future__ import annotations

import pytest

from cathedra.allocation import InvalidInput
from cathedra.api.core.core_v1 import Node
from cathedra.api.resource import DeviceClass, DeviceTaint, DeviceTaintRule, ResourceSlice
from cathedra.api.struct import replace
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.state import ClusterState
from cathedra.insight.simulation.plan import added_nodes, parse_scaling, tainted, untainted
from cathedra.insight.simulation.run import PlannedChanges, simulate
from tests.unit.cli.dra.dumps import gpu_cluster

CONTAINER = {"name": "c", "image": "i"}


def cluster() -> ClusterState:
    return read_dump(gpu_cluster())


def test_nodes_of_a_profile_come_with_slices_and_the_classes_that_are_missing() -> None:
    added = list(added_nodes(["2=gb200-4"], cluster()))
    assert [one.metadata.name for one in added if isinstance(one, Node)] == ["gb200-4-1", "gb200-4-2"]
    slices = [one for one in added if isinstance(one, ResourceSlice)]
    assert {(one.spec.driver, one.spec.node_name) for one in slices} == {
        (driver, node)
        for driver in ("gpu.nvidia.com", "compute-domain.nvidia.com")
        for node in ("gb200-4-1", "gb200-4-2")
    }
    assert all(one.spec.pool.resource_slice_count == 1 for one in slices)
    classes = [one.metadata.name for one in added if isinstance(one, DeviceClass)]
    assert "gpu.nvidia.com" in classes
    again = cluster().including(added)
    assert [one for one in added_nodes(["1=gb200-4"], again) if isinstance(one, DeviceClass)] == []
    assert [one.metadata.name for one in added_nodes(["1=gb200-4"], again) if isinstance(one, Node)] == ["gb200-4-3"]


def test_nodes_of_one_kind_that_are_asked_for_twice_have_different_names() -> None:
    added = added_nodes(["1=node-0", "1=node-0", "1=h100-8", "1=h100-8"], cluster())
    assert [one.metadata.name for one in added if isinstance(one, Node)] == [
        "node-0-new-1",
        "node-0-new-2",
        "h100-8-1",
        "h100-8-2",
    ]


def test_a_node_of_the_clusters_comes_before_a_profile_of_its_name() -> None:
    state = read_dump([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "h100-8"}}])
    (node,) = added_nodes(["1=h100-8"], state)
    assert isinstance(node, Node)
    assert node.metadata.name == "h100-8-new-1"


@pytest.mark.parametrize("word", ["h100-8", "0=h100-8", "x=h100-8"])
def test_a_word_of_another_form_is_refused(word: str) -> None:
    with pytest.raises(InvalidInput, match="is not of the form N=NODE or N=PROFILE"):
        list(added_nodes([word], cluster()))


@pytest.mark.parametrize("number", ["50001", "9" * 5000])
def test_more_nodes_than_there_is_room_for_are_refused(number: str) -> None:
    with pytest.raises(InvalidInput, match="limited to 50000 nodes"):
        list(added_nodes([f"{number}=node-0"], cluster()))


@pytest.mark.parametrize("number", ["150001", "2147483647", "9" * 5000])
def test_more_pods_than_there_is_room_for_are_refused(number: str) -> None:
    web = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "default"}}
    state = read_dump([web])
    with pytest.raises(InvalidInput, match="limited to 150000 pods"):
        list(parse_scaling([f"replicaset/web={number}"], "default", state))


def test_a_manifest_of_more_pods_than_there_is_room_for_is_refused() -> None:
    spec = {"parallelism": 2**31 - 1, "template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"}, "spec": spec}
    with pytest.raises(InvalidInput, match="Job j has 2147483647 pods: a simulation is limited to 150000"):
        simulate(cluster(), PlannedChanges(apply=[job]))


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("gpu.example.com/node-0/gpu-9=a:NoExecute", "pool node-0 of gpu.example.com has no device 'gpu-9'"),
        ("gpu.example.com/node-9=a:NoExecute", "gpu.example.com has no pool 'node-9'; there are node-0, node-1"),
        (
            "no.example.com/node-0=a:NoExecute",
            "no driver 'no.example.com' publishes devices",
        ),
        ("node-9=a:NoSchedule", "there is no node 'node-9'"),
    ],
)
def test_a_device_pool_or_node_that_does_not_exist_is_refused(word: str, text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        list(tainted([word], cluster()))


def test_a_pool_with_slashes_in_its_name_is_tainted() -> None:
    (piece,) = [one for one in cluster().all(ResourceSlice) if one.spec.node_name == "node-0"]
    spec = replace(piece.spec, pool=replace(piece.spec.pool, name="rack/node-0"))
    state = cluster().including([replace(piece, spec=spec)])
    rules = tainted(["gpu.example.com/rack/node-0=a:None", "gpu.example.com/rack/node-0/gpu-1=a:None"], state)
    found = [one.spec.device_selector for one in rules if isinstance(one, DeviceTaintRule)]
    assert [(one.pool, one.device) for one in found if one is not None] == [
        ("rack/node-0", None),
        ("rack/node-0", "gpu-1"),
    ]


def test_devices_cannot_be_tainted_in_a_cluster_without_device_taints() -> None:
    state = read_dump(gpu_cluster(), release="1.34")
    with pytest.raises(InvalidInput, match=r"the gate DRADeviceTaints of 1\.34 is off"):
        list(tainted(["gpu.example.com/node-0=a:NoExecute"], state))


def test_a_taint_of_a_node_is_dropped_by_key_value_and_effect() -> None:
    state = cluster().including(tainted(["node-0=a=b:NoSchedule", "node-1=a:NoExecute"], cluster()))
    for word in ("node-0=a-", "node-0=a:NoSchedule-", "node-0=a=b-", "node-0=a=b:NoSchedule-"):
        (found,) = untainted([word], state).replaced
        assert isinstance(found, Node)
        assert found.spec.taints == ()
    with pytest.raises(InvalidInput, match="node-0 has no such taint"):
        untainted(["node-0=a=c-"], state)


def test_the_taints_of_a_device_are_those_of_its_slice_and_of_rules_for_it_alone() -> None:
    first = cluster()
    (piece, *_) = first.all(ResourceSlice)
    devices = tuple(
        replace(one, taints=(DeviceTaint(key="broken", effect="NoSchedule"),)) for one in piece.spec.devices or ()
    )
    state = first.including([replace(piece, spec=replace(piece.spec, devices=devices))])
    state = state.including(tainted(["gpu.example.com/node-0/gpu-0=broken:NoExecute"], state))
    found = untainted(["gpu.example.com/node-0/gpu-0=broken-"], state)
    (changed,) = found.replaced
    assert isinstance(changed, ResourceSlice)
    assert [len(one.taints) for one in changed.spec.devices or ()] == [0, 1]
    assert [one.metadata.name for one in found.deleted] == ["simulated-0"]
    both = untainted([f"gpu.example.com/node-0/gpu-{number}=broken:NoSchedule-" for number in range(2)], state)
    (changed,) = both.replaced
    assert isinstance(changed, ResourceSlice)
    assert [len(one.taints) for one in changed.spec.devices or ()] == [0, 0]
    assert both.deleted == ()


def test_a_pod_is_placed_after_a_taint_is_dropped() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [CONTAINER]}}
    nodes = ["node-0=a:NoSchedule", "node-1=a:NoSchedule"]
    state = read_dump([*gpu_cluster(), pod])
    state = state.including(tainted(nodes, state))
    assert simulate(state).placed == ()
    found = simulate(state, PlannedChanges(taint=["node-1=a:NoSchedule-"]))
    assert [one.node for one in found.placed] == ["node-1"]
