"""Pods that pass all filters and are not bound, and what is not examined."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.insight.explanation import gangs
from cathedra.insight.explanation.explain import explain
from cathedra.insight.explanation.report import Explanation
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.state import ClusterState
from cathedra.insight.simulation.run import PlannedChanges, simulate
from tests.unit.cli.dra.dumps import gpu_cluster, pod_with
from tests.unit.insight.moving import clusters as small

GATES = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
CONTAINERS = [{"name": "main", "image": "main"}]


def cluster(*objects: dict[str, Any], **more: Any) -> ClusterState:
    return read_dump([*gpu_cluster(nodes=1, gpus=1), *objects], **more)


def plain_pod(name: str = "user", status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": name}
    status = {"phase": "Pending", **(status or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": CONTAINERS, **spec},
        "status": status,
    }


def refused(message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"conditions": [condition]}


def notes(found: Explanation) -> list[str]:
    return [note.text for note in found.notes if note.problem == "not examined"]


def shared_claim(consumers: int) -> dict[str, Any]:
    result = {"request": "gpus", "driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}
    reserved = [{"resource": "pods", "name": f"p-{number}", "uid": f"p-{number}"} for number in range(consumers)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "shared", "namespace": "default"},
        "spec": pod_with(1)[0]["spec"]["spec"],
        "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved},
    }


def test_a_claim_with_all_its_consumers_takes_no_further_pod() -> None:
    user = plain_pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}])
    assert explain(cluster(shared_claim(255), user), "pod/user").fits
    found = explain(cluster(shared_claim(256), user), "pod/user")
    assert found.verdict == "does not fit"
    assert found.causes[0].kind == "consumers"
    text = "status.reservedFor: Too many: 257: must have at most 256 items"
    assert found.summary == f"claim default/shared cannot be reserved for the pod: {text}"


def gang(status: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "pair", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    spec = {
        "schedulingGroup": {"podGroupName": "pair"},
        "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "gpus"}],
    }
    return [pod_with(1)[0], group, plain_pod("a", status, **spec), plain_pod("b", status, **spec)]


def test_the_refusal_of_a_gang_is_that_of_its_pods() -> None:
    found = explain(cluster(*gang(refused("the gang does not fit")), feature_gates=GATES), "pod/a")
    assert found.verdict == "does not fit"
    assert found.summary.endswith("is bound with its gang only (PodGroup pair): the gang does not fit")


def test_a_gang_that_was_not_tried_yet_is_tried_as_a_whole() -> None:
    found = explain(cluster(*gang(), feature_gates=GATES), "pod/a")
    assert found.verdict == "does not fit"
    assert found.summary.endswith("(PodGroup pair): 1 of 2 pods fit together, b finds no node")
    assert notes(found) == []


def test_a_gang_of_too_many_pods_is_judged_by_one_and_the_answer_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gangs, "_MOST", 1)
    found = explain(cluster(*gang(), feature_gates=GATES), "pod/a")
    assert notes(found) == [
        "the pod is judged alone; whether 2 pods of its gang fit together is computed by kubectl dra simulate"
    ]


def test_a_simulated_gang_that_does_not_fit_stays_pending_with_the_schedulers_reason() -> None:
    state = cluster(feature_gates={**GATES, "DRAWorkloadResourceClaims": True})
    found = simulate(state, PlannedChanges(apply=gang()), copies=0)
    assert [one.pod for one in found.placed] == []
    assert {name for group in found.pending for name in group.pods} == {"default/a", "default/b"}
    assert not any(group.why.startswith("fits") for group in found.pending)
    assert not found.fits


def test_a_pod_whose_claims_a_controller_refuses_to_make_stays_pending_with_its_reason() -> None:
    gates = {"GenericWorkload": True}
    (group,) = simulate(cluster(feature_gates=gates), PlannedChanges(apply=gang()), copies=0).pending
    assert "DRAWorkloadResourceClaims feature is disabled but Pod is in PodGroup pair" in group.why


def test_the_schedulers_own_condition_stands_beside_a_pod_that_fits() -> None:
    found = explain(cluster(plain_pod(status=refused("0/1 nodes are available: no"))), "pod/user")
    assert found.fits
    (text,) = notes(found)
    assert text.startswith(
        "the cluster's scheduler reported PodScheduled=False, Unschedulable: 0/1 nodes are available: no"
    )


VOLUME = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}


def test_volumes_that_are_not_known_are_not_examined() -> None:
    text = "persistent volumes are not examined, because there are no claims in objects: default/data"
    state = cluster(plain_pod(volumes=[VOLUME]))
    assert notes(explain(state, "pod/user")) == [text]
    found = simulate(cluster(), PlannedChanges(apply=plain_pod(volumes=[VOLUME])), copies=0)
    assert [note.text for note in found.notes if note.problem == "not examined"] == [text]


def test_a_pod_whose_volume_claim_does_not_exist_does_not_fit() -> None:
    other = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "other", "namespace": "default"}}
    state = cluster(other, plain_pod(volumes=[VOLUME]))
    missing = 'persistentvolumeclaim "data" not found'
    found = explain(state, "pod/user")
    assert (found.verdict, found.summary) == ("does not fit", f"does not fit on node-0: {missing}")
    assert found.causes[0].kind == "volumes"
    (group,) = simulate(state).pending
    assert group.why == f"does not fit on node-0: {missing}"


def test_a_further_node_helps_a_pod_whose_volumes_reach_it() -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data",
            "namespace": "default",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {"volumeName": "data"},
    }
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "data"}}
    template, pod = pod_with(1)
    user = {**pod, "spec": {**pod["spec"], "volumes": [VOLUME]}}
    state = read_dump([*gpu_cluster(nodes=1, gpus=1, taken=1), claim, volume, template, user])
    changes = explain(state, "pod/train").changes
    assert any(one.text.startswith("add a node like node-0") for one in changes)


def preempting(**spec: Any) -> Explanation:
    """The answer for a pod with a priority, in a cluster whose only device belongs to a pod of priority 1."""
    holder, claim = small.pod("old", 1, "a", ["gpu-0"], priority=1)
    waiting, wanted = small.pod("new", 1, **spec)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"kept": "yes"}}},
    }
    holder["metadata"]["labels"] = {"kept": "yes"}
    objects = [small.CLASS, *small.node("a", 1), holder, claim, waiting, wanted, budget]
    return explain(read_dump(objects, release="1.37", feature_gates={"DRAPreemption": True}), "pod/new")


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"priority": 5},
            "preemption evicts default/old (priority 1) and nominates a, against the disruption budget of 1 pod",
        ),
        (
            {"priority": 1},
            "preemption evicts no pod: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        ),
        (
            {"priority": 5, "preemptionPolicy": "Never"},
            "preemption evicts no pod: not eligible due to preemptionPolicy=Never.",
        ),
    ],
)
def test_an_explanation_has_the_victims_of_preemption_or_the_reason_for_none(spec: dict[str, Any], text: str) -> None:
    assert [one.text for one in preempting(**spec).causes if one.kind == "preemption"] == [text]


def test_a_quota_on_held_devices_is_named_if_the_scheduler_has_refused_the_pod_over_it() -> None:
    name = "gpu.deviceclass.scheduling.cathedra.dev/memory"
    text = f"exceeded quota: gpus, requested: {name}=40Gi, used: {name}=80Gi, limited: {name}=100Gi"
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    condition["message"] = f"0/1 nodes are available: 1 {text}. preemption: none."
    waiting = {**plain_pod(), "status": {"phase": "Pending", "conditions": [condition]}}
    found = explain(cluster(waiting), "pod/user")
    assert [(cause.kind, cause.text) for cause in found.causes] == [("quota", text)]


def test_preemption_is_not_mentioned_where_no_eviction_could_help() -> None:
    state = read_dump(
        [*small.node("a", 1), *small.pod("new", 1, priority=5)],
        release="1.37",
        feature_gates={"DRAPreemption": True},
    )
    assert [one.kind for one in explain(state, "pod/new").causes] == ["missing class"]
