"""Preemption for gangs in explanations: the victims that the scheduler chooses, or its reason for none."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.insight.explanation.explain import explain
from cathedra.insight.explanation.grouppreemption import preemption_for_gang
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.state import ClusterState
from cathedra.insight.simulation.run import PlannedChanges, simulate
from tests.unit.insight.moving import clusters as small

GATES = {"GenericWorkload": True, "CompositePodGroup": True, "DRAPreemption": True}
ALL = {"disruptionMode": {"all": {}}}


def group(name: str, least: int, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": name}
    policy = {"schedulingPolicy": {"gang": {"minCount": least}}}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": policy | spec}


def composite(name: str, priority: int, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": name}
    policy = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}, "priority": priority}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": metadata,
        "spec": policy | spec,
    }


def cluster(*objects: dict[str, Any], nodes: int = 3, wanted: int = 2, priority: int = 5, **spec: Any) -> ClusterState:
    """Nodes with one GPU each that pods hold, and a gang that waits, of which each pod wants one."""
    member = {"schedulingGroup": {"podGroupName": "new"}, "priority": priority, **spec}
    waiting = [one for place in range(wanted) for one in small.pod(f"new-{place}", 1, **member)]
    places = [one for place in range(nodes) for one in small.node(f"n{place}", 1)]
    found = [small.CLASS, *places, *objects, group("new", wanted, priority=priority), *waiting]
    return read_dump(found, release="1.37", feature_gates=GATES)


def running(name: str, place: int, priority: int, of: str = "", **labels: str) -> list[dict[str, Any]]:
    member = {"schedulingGroup": {"podGroupName": of}} if of else {}
    found = small.pod(name, 1, f"n{place}", ["gpu-0"], priority=priority, **member)
    found[0]["metadata"]["labels"] = labels
    return found


def preemption(state: ClusterState) -> str:
    found = explain(state, "pod/new-0")
    assert found.verdict == "does not fit"
    return next(one.text for one in found.causes if one.kind == "preemption")


def evicted(state: ClusterState) -> list[str]:
    """The pods that the scheduler evicts in a simulation."""
    return sorted(one.pod.removeprefix("default/") for one in simulate(state, PlannedChanges(), copies=0).gone)


def test_the_least_important_pods_are_evicted_for_the_whole_gang() -> None:
    state = cluster(*running("old-0", 0, 3), *running("old-1", 1, 1), *running("old-2", 2, 2))
    text = "preemption for the whole group evicts default/old-2 (priority 2), default/old-1 (priority 1)"
    assert preemption(state) == text
    assert evicted(state) == ["old-1", "old-2"]


def old_gang(**spec: Any) -> list[dict[str, Any]]:
    pods = [one for place in range(3) for one in running(f"old-{place}", place, 1, "old")]
    return [group("old", 3, priority=1, **spec), *pods]


def test_a_group_that_is_disrupted_as_one_is_evicted_whole() -> None:
    state = cluster(*old_gang(**ALL))
    found = preemption(state)
    assert found.startswith("preemption for the whole group evicts default/old-0 (priority 1)")
    assert found.endswith("; PodGroup old as a whole (disruptionMode all)")
    assert evicted(state) == ["old-0", "old-1", "old-2"]


def test_of_a_group_that_is_disrupted_pod_by_pod_only_those_in_the_way_are_evicted() -> None:
    state = cluster(*old_gang())
    found = preemption_for_gang(next(one for one in state.pods if one.metadata.name == "new-0"), state)
    assert found is not None
    assert (len(found.victims), found.together) == (2, ())
    assert len(evicted(state)) == 2


def test_all_groups_below_a_composite_that_is_disrupted_as_one_are_evicted() -> None:
    below = {"parentCompositePodGroupName": "top", "priority": 1}
    state = cluster(
        composite("top", 1, **ALL),
        group("left", 1, **below),
        group("right", 2, **below),
        *running("left-0", 0, 1, "left"),
        *running("right-0", 1, 1, "right"),
        *running("right-1", 2, 1, "right"),
        wanted=1,
    )
    assert preemption(state).endswith("; CompositePodGroup top as a whole (disruptionMode all)")
    assert evicted(state) == ["left-0", "right-0", "right-1"]


@pytest.mark.parametrize(
    ("priority", "wanted", "spec", "why"),
    [
        (1, 2, {}, "No preemption victims found for incoming pod group."),
        (5, 4, {}, "evicting all pods of lower priority would not make the pod group fit."),
        (5, 2, {"preemptionPolicy": "Never"}, "not eligible due to preemptionPolicy=Never."),
    ],
    ids=["equal priority", "no room even then", "never"],
)
def test_the_reason_for_no_victims_is_the_schedulers(
    priority: int, wanted: int, spec: dict[str, Any], why: str
) -> None:
    state = cluster(*old_gang(), wanted=wanted, priority=priority, **spec)
    assert preemption(state) == f"preemption for the whole group evicts no pod: {why}"
    assert evicted(state) == []


def test_pods_under_a_disruption_budget_are_evicted_last() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"kept": "yes"}}, "minAvailable": 1},
        "status": {"disruptionsAllowed": 0},
    }
    low = running("low", 0, 1, kept="yes")
    state = cluster(*low, *running("a", 1, 3), *running("b", 2, 2), budget)
    assert preemption(state).endswith("evicts default/a (priority 3), default/b (priority 2)")
    crowded = cluster(*low, *running("a", 1, 3), budget, nodes=2)
    assert preemption(crowded).endswith("default/low (priority 1), against the disruption budget of 1 pod")
