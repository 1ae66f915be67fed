"""Pods that may be moved, and the reasons why others stay."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import ResourceClaim
from cathedra.insight.moving.movable import ORPHAN, Movables, lifted, movables
from cathedra.insight.reading.dumps import read_dump
from tests.unit.insight.moving.clusters import CLASS, node, pod, state_of

DAEMON = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}]
NODE = node("a", 4)


def running(**metadata: Any) -> list[dict[str, Any]]:
    found = pod("old", 1, "a", ["gpu-0"])
    found[0]["metadata"].update(metadata)
    return found


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (running(ownerReferences=DAEMON), "a pod of a DaemonSet comes back to its node"),
        (running(annotations={"kubernetes.io/config.mirror": "x"}), "a static pod cannot be evicted"),
        (running(deletionTimestamp="2026-01-01T00:00:00Z"), "the pod is being deleted already"),
        (pod("old", 1, "a", ["gpu-0"], priority=1), "its priority is higher"),
        (
            running(annotations={"karpenter.sh/do-not-disrupt": "true"}),
            "its annotation karpenter.sh/do-not-disrupt forbids evictions",
        ),
    ],
)
def test_pods_that_stay_are_named_with_the_reason(parts: list[dict[str, Any]], why: str) -> None:
    found = movables(state_of(NODE, parts), 0, [])
    assert found.units == ()
    assert [(one.pods, one.why) for one in found.staying] == [(("default/old",), why)]


def budget(allowed: int) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "x"}}},
            "status": {"disruptionsAllowed": allowed},
        }
    ]


def labelled(name: str, device: str) -> list[dict[str, Any]]:
    found = pod(name, 1, "a", [device])
    found[0]["metadata"]["labels"] = {"app": "x"}
    return found


def test_a_budget_without_evictions_left_keeps_its_pods() -> None:
    found = movables(state_of(NODE, labelled("one", "gpu-0"), budget(0)), 0, [])
    assert [one.why for one in found.staying] == ["PodDisruptionBudget default/b allows no eviction"]


def test_a_budget_allows_as_many_evictions_as_its_status_says() -> None:
    found = movables(state_of(NODE, labelled("one", "gpu-0"), labelled("two", "gpu-1"), budget(1)), 0, [])
    assert all(found.allows([unit]) for unit in found.units)
    assert not found.allows(found.units)


def test_pods_that_share_a_claim_move_together() -> None:
    first, claim = pod("one", 1, "a", ["gpu-0"])
    second, _ = pod("two", 1, "a", ["gpu-0"])
    second["spec"]["resourceClaims"][0]["resourceClaimName"] = "one"
    claim["status"]["reservedFor"].append({"resource": "pods", "name": "two", "uid": "uid-two"})
    (unit,) = movables(state_of(NODE, [first, second, claim]), 0, []).units
    assert sorted(one.metadata.name for one in unit.pods) == ["one", "two"]
    assert unit.size == 1


def test_a_claim_without_a_consumer_is_a_unit_of_its_own() -> None:
    _, claim = pod("old", 1, "a", ["gpu-0"])
    claim["status"]["reservedFor"] = []
    (unit,) = movables(state_of(NODE, [claim]), 0, []).units
    assert unit.is_orphan
    assert unit.pods[0].metadata.annotations[ORPHAN] == "old"


def test_lifted_pods_have_neither_node_nor_devices() -> None:
    known = movables(state_of(NODE, pod("old", 1, "a", ["gpu-0"])), 0, [])
    state = lifted(known.units, known.state)
    after, claim = state.get(Pod, "old", "default"), state.get(ResourceClaim, "old", "default")
    assert after is not None
    assert claim is not None
    assert after.spec.node_name == ""
    assert claim.status.allocation is None
    assert claim.status.reserved_for == ()


ALL: dict[str, Any] = {"disruptionMode": {"all": {}}}


def gang_of_two(mode: dict[str, Any], parent: dict[str, Any] | None = None) -> Movables:
    """The units of two groups, each a gang with a running pod; the mode is that of the groups, or of their parent."""
    gates = {"GenericWorkload": True, "CompositePodGroup": True}
    objects: list[dict[str, Any]] = [*NODE]
    if parent is not None:
        policy = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
        metadata = {"name": "top", "namespace": "default", "uid": "top"}
        objects.append(
            {
                "apiVersion": "scheduling.k8s.io/v1alpha3",
                "kind": "CompositePodGroup",
                "metadata": metadata,
                "spec": policy | parent,
            }
        )
    for number in range(2):
        metadata = {"name": f"g{number}", "namespace": "default", "uid": f"g{number}"}
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, **mode}
        spec |= {"parentCompositePodGroupName": "top"} if parent is not None else {}
        objects.append(
            {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}
        )
        for place in range(2):
            member = {"schedulingGroup": {"podGroupName": f"g{number}"}}
            objects += pod(f"p{number}{place}", 1, "a", [f"gpu-{2 * number + place}"], **member)
    return movables(read_dump([CLASS, *objects], release="1.37", feature_gates=gates), 0, [])


@pytest.mark.parametrize(
    ("mode", "parent", "sizes"),
    [
        ({}, None, [1, 1, 1, 1]),
        (ALL, None, [2, 2]),
        ({}, {}, [1, 1, 1, 1]),
        ({}, ALL, [4]),
        (ALL, {}, [2, 2]),
    ],
    ids=["single", "all", "composite single", "composite all", "groups all"],
)
def test_pods_of_a_gang_move_as_their_disruption_mode_says(
    mode: dict[str, Any], parent: dict[str, Any] | None, sizes: list[int]
) -> None:
    found = gang_of_two(mode, parent)
    assert sorted(len(unit.pods) for unit in found.units) == sizes
    # None of a gang is left without a node alone.
    assert sorted(len(unit.pods) for unit in found.wholes) == ([2, 2] if parent is None else [4])
