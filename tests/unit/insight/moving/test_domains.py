"""Gangs whose pods need nodes of one rack or one NVLink domain: such are their places, and such are their moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest

from cathedra.insight.moving.plan import plan_moves
from cathedra.insight.moving.report import MovePlan
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.state import ClusterState
from tests.unit.insight.moving.clusters import CLASS, node, pod

GATES = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
RACKS = {"a": "r1", "b": "r1", "c": "r2", "d": "r2"}
MEMBER: dict[str, Any] = {"schedulingGroup": {"podGroupName": "g"}}

LABEL = {"scheduling.cathedra.dev/same-node-label": "rack"}
ATTRIBUTE = {"scheduling.cathedra.dev/same-device-attribute": "gpu.example.com/rack"}
TOPOLOGY = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
CONSTRAINTS = [({}, TOPOLOGY), (LABEL, {}), (ATTRIBUTE, {})]
each_constraint = pytest.mark.parametrize(("notes", "spec"), CONSTRAINTS, ids=["topology", "label", "attribute"])


def cluster(
    parts: list[list[dict[str, Any]]],
    notes: Mapping[str, str],
    spec: Mapping[str, Any],
    racks: Mapping[str, str] = RACKS,
) -> ClusterState:
    """Nodes with one GPU in racks, a gang of two, and pods."""
    return with_devices({name: [rack] for name, rack in racks.items()}, parts, notes, spec)


def with_devices(
    racks: Mapping[str, Sequence[str]],
    parts: list[list[dict[str, Any]]],
    notes: Mapping[str, str] = ATTRIBUTE,
    spec: Mapping[str, Any] = MappingProxyType({}),
) -> ClusterState:
    """Nodes with a GPU for each rack that is listed, a gang of two, and pods."""
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default", "uid": "g", "annotations": dict(notes)},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, **spec},
    }
    objects = [CLASS, group, *(one for part in parts for one in part)]
    for name, values in racks.items():
        made = node(name, len(values), rack=values[0], place=name)
        for device, value in zip(made[1]["spec"]["devices"], values, strict=True):
            device["attributes"] = {"rack": {"string": value}}
        objects += made
    return read_dump(objects, release="1.37", feature_gates=GATES)


def places(plan: MovePlan) -> list[str]:
    return sorted(one.node for one in plan.placed)


@each_constraint
def test_room_is_made_in_one_rack_for_a_gang_that_waits(notes: Mapping[str, str], spec: Mapping[str, Any]) -> None:
    # b and c are free, in two racks: the pod on a has to go to c.
    stays = pod("stays", 1, "d", ["gpu-0"], priority=10)
    parts = [pod("x", 1, **MEMBER), pod("y", 1, **MEMBER), pod("old", 1, "a", ["gpu-0"]), stays]
    plan = plan_moves(cluster(parts, notes, spec), ["pod/x"])
    assert [(one.pod, one.to) for one in plan.moves] == [("default/old", "c")]
    assert places(plan) == ["a", "b"]
    # b has room already, and the pod that is moved must not take it.
    assert [one.subject for one in plan.steps] == ["b", "a", "default/old", "b", "a"]
    assert plan.proved, plan.proof


def test_a_gang_uses_devices_with_one_value_on_nodes_that_have_several() -> None:
    """Only devices of r2 are on two nodes, and another pod holds one of them."""
    stays = pod("stays", 1, "a", ["gpu-0"], priority=10)
    parts = [pod("x", 1, **MEMBER), pod("y", 1, **MEMBER), pod("old", 1, "a", ["gpu-1"]), stays]
    plan = plan_moves(with_devices({"a": ["r1", "r2"], "b": ["r2"], "c": ["r3"]}, parts), ["pod/x"])
    assert [(one.pod, one.to) for one in plan.moves] == [("default/old", "c")]
    assert places(plan) == ["a", "b"]
    assert plan.proved, plan.proof


def test_the_devices_of_a_running_pod_choose_those_of_the_rest_of_its_gang() -> None:
    running = pod("x", 1, "a", ["gpu-0"], **MEMBER)
    waiting = [pod("y", 1, **MEMBER), pod("old", 1, "b", ["gpu-1"])]
    plan = plan_moves(with_devices({"a": ["r1", "r2"], "b": ["r2", "r1"]}, [running, *waiting]), ["pod/y"])
    assert [one.pod for one in plan.moves] == ["default/old"]
    assert places(plan) == ["b"]
    assert plan.proved, plan.proof


def test_without_a_constraint_the_gang_needs_no_move() -> None:
    stays = pod("stays", 1, "d", ["gpu-0"], priority=10)
    parts = [pod("x", 1, **MEMBER), pod("y", 1, **MEMBER), pod("old", 1, "a", ["gpu-0"]), stays]
    plan = plan_moves(cluster(parts, {}, {}), ["pod/x"])
    assert (plan.verdict, places(plan)) == ("fits", ["b", "c"])


def gang_in_the_way() -> list[list[dict[str, Any]]]:
    """A gang on the nodes of the first rack, and a pod that needs one of them."""
    members = [pod("x", 1, "a", ["gpu-0"], **MEMBER), pod("y", 1, "b", ["gpu-0"], **MEMBER)]
    return [*members, pod("new", 1, nodeSelector={"place": "a"})]


@each_constraint
def test_a_gang_moves_to_another_rack_as_a_whole(notes: Mapping[str, str], spec: Mapping[str, Any]) -> None:
    plan = plan_moves(cluster(gang_in_the_way(), notes, spec), ["pod/new"])
    assert sorted((one.pod, one.to in ("c", "d")) for one in plan.moves) == [("default/x", True), ("default/y", True)]
    # None of its pods may come back before the other has gone.
    assert [one.waits for one in plan.steps if one.action == "recreate"] == [False, True]
    assert plan.proved


@each_constraint
def test_a_gang_does_not_move_if_no_rack_has_room_for_all_of_it(
    notes: Mapping[str, str], spec: Mapping[str, Any]
) -> None:
    racks = {**RACKS, "d": "r3"}
    assert plan_moves(cluster(gang_in_the_way(), notes, spec, racks), ["pod/new"]).verdict == "no moves found"
    assert plan_moves(cluster(gang_in_the_way(), {}, {}, racks), ["pod/new"]).verdict == "fits after moves"


def test_of_a_gang_no_single_pod_is_left_without_a_node() -> None:
    members = [pod("x", 1, "a", ["gpu-0"], **MEMBER), pod("y", 1, "b", ["gpu-0"], **MEMBER)]
    state = cluster([*members, pod("new", 1, priority=5)], {}, {}, {"a": "r1", "b": "r1"})
    plan = plan_moves(state, ["pod/new"])
    assert sorted((one.pod, one.to) for one in plan.moves) == [("default/x", ""), ("default/y", "")]


def test_room_is_made_for_all_groups_of_a_hierarchy() -> None:
    """Of two gangs below a CompositePodGroup each pod wants a node; a pod in the way has another one."""
    top = {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": {"name": "top", "namespace": "default", "uid": "top"},
        "spec": {"schedulingPolicy": {"gang": {"minGroupCount": 2}}},
    }
    objects: list[dict[str, Any]] = [CLASS, top]
    for name in ("left", "right"):
        spec = {"schedulingPolicy": {"gang": {"minCount": 1}}, "parentCompositePodGroupName": "top"}
        metadata = {"name": name, "namespace": "default", "uid": name}
        objects.append(
            {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}
        )
        objects += pod(f"{name}-0", 2, schedulingGroup={"podGroupName": name})
    for name in ("a", "b", "c"):
        objects += node(name, 2)
    for name in ("a", "b"):
        objects += pod(f"old-{name}", 1, name, ["gpu-0"])
    state = read_dump(objects, release="1.37", feature_gates={"GenericWorkload": True, "CompositePodGroup": True})
    plan = plan_moves(state, ["pod/left-0"])
    assert sorted(one.pod for one in plan.placed) == ["default/left-0", "default/right-0"]
    assert len(plan.claims) == 1
    assert plan.proved, plan.proof
