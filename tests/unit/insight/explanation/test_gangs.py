"""Pods of a gang are explained with their siblings, and what helps one must help all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cathedra.insight import simulate
from cathedra.insight.explanation.afterfilters import NOT_TRIED
from cathedra.insight.explanation.explain import explain
from cathedra.insight.explanation.report import Explanation
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.state import ClusterState
from cathedra.releases import FeatureGates
from tests.insight.building import claim, device, device_class, held, slice_of

OPEN = {"GenericWorkload": True, "CompositePodGroup": True, "TopologyAwareWorkloadScheduling": True}


def state_of(*objects: dict[str, Any], gates: dict[str, bool] = OPEN) -> ClusterState:
    return replace(read_dump(list(objects)), gates=FeatureGates.for_release("1.37", gates))


def node(name: str, cpu: int, **labels: str) -> dict[str, Any]:
    status = {"allocatable": {"cpu": str(cpu), "memory": "32Gi", "pods": "110"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def pod(name: str, group: str = "g", cpu: int = 1, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": str(cpu)}}}
    body = {"containers": [container], "schedulingGroup": {"podGroupName": group}, **spec}
    metadata = {"name": name, "namespace": "default", "uid": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def group(name: str, least: int, parent: str = "", topology: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": least}}}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def composite(name: str, least: int) -> dict[str, Any]:
    reference = {"workloadName": "w", "templateName": "t"}
    spec = {"schedulingPolicy": {"gang": {"minGroupCount": least}}, "workloadRef": reference}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup", "metadata": metadata, "spec": spec}


def asked(*objects: dict[str, Any], gates: dict[str, bool] = OPEN) -> Explanation:
    return explain(state_of(*objects, gates=gates), "pod/a")


def test_a_gang_that_fits_as_a_whole_fits() -> None:
    assert asked(node("n", 2), group("g", 2), pod("a"), pod("b")).fits


def test_pods_that_run_already_count() -> None:
    assert asked(node("n", 2), group("g", 2), pod("a"), pod("b", nodeName="n")).fits


@pytest.mark.parametrize(
    ("objects", "summary"),
    [
        (
            [node("n", 1), group("g", 2), pod("a"), pod("b")],
            "is bound with its gang only (PodGroup g): 1 of 2 pods fit together, b finds no node",
        ),
        (
            [node("n", 1, rack="x"), node("m", 1, rack="y"), group("g", 2, topology="rack"), pod("a"), pod("b")],
            "is bound with its gang only (PodGroup g): 1 of 2 pods fit together, b finds no node",
        ),
        (
            [node("n", 1), composite("root", 2), group("g", 1, "root"), group("h", 1, "root"), pod("a"), pod("b", "h")],
            "the pod fits alone, and is bound with its gang only (PodGroup g): its own group would fit, but not enough "
            "groups of CompositePodGroup root",
        ),
        (
            [node("n", 4), group("g", 3), pod("a"), pod("b")],
            "waiting for minCount pods from a gang to appear in scheduling queue",
        ),
        ([node("n", 4), pod("a")], 'waiting for pods\'s pod group "g" to appear in scheduling queue'),
        (
            [node("n", 4), group("g", 1, "root"), pod("a")],
            'waiting for composite pod group "root" tree to meet quorum',
        ),
    ],
)
def test_a_gang_that_does_not_fit_says_why(objects: list[dict[str, Any]], summary: str) -> None:
    found = asked(*objects)
    assert found.verdict == "does not fit"
    assert found.summary.endswith(summary)
    assert not simulate(state_of(*objects), copies=0).placed


def test_with_the_gate_off_the_pod_is_scheduled_alone() -> None:
    found = asked(node("n", 1), group("g", 2), pod("a"), pod("b"), gates={})
    assert found.fits
    assert any("the gate GenericWorkload is off" in note.text for note in found.notes)


def test_what_helps_one_pod_and_not_its_siblings_is_not_proposed() -> None:
    """Two pods with a node selector of their own: without it both fit on the node that is there."""
    selector = {"nodeSelector": {"zone": "x"}}
    found = asked(node("n", 1), group("g", 2), pod("a", **selector), pod("b", **selector))
    # Without its node selector the pod fits alone, and its sibling still does not.
    assert found.verdict == "does not fit"
    assert found.changes == ()


@pytest.mark.parametrize(("cpu", "summary"), [(3, "fits on n; "), (2, "fits alone, and is bound with its gang only")])
def test_the_new_pod_of_a_workload_comes_with_the_others_of_its_gang(cpu: int, summary: str) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {**pod("x")["spec"], "restartPolicy": "Never"}}
    spec = {"parallelism": 3, "completions": 3, "template": template}
    metadata = {"name": "j", "namespace": "default", "uid": "j"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    found = explain(state_of(node("n", cpu), group("g", 3), job), "job/j")
    assert found.summary.startswith(f"a new pod {summary}")


def test_after_each_proposed_change_the_gang_runs() -> None:
    selector = {"nodeSelector": {"zone": "x"}}
    objects = (node("n", 2), group("g", 2), pod("a", **selector), pod("b"))
    found = asked(*objects)
    assert [change.kind for change in found.changes] == ["drop node selector"]
    state = state_of(*objects)
    for change in found.changes:
        after = state.without(change.removed).including(change.set)
        assert {one.pod for one in simulate(after, copies=0).placed} == {"default/a", "default/b"}


def test_the_claims_of_manifests_belong_to_their_pods_in_the_gang_too() -> None:
    examples = Path(__file__).parents[4] / "examples" / "insight"
    gates = FeatureGates.for_release("1.37", {"GenericWorkload": True, "DRAWorkloadResourceClaims": True})
    state = replace(read_dump(examples / "cluster.yaml"), gates=gates)
    answer = str(explain(state, manifests=[examples / "gang.yaml"]))
    assert "2 of 3 pods fit together" in " ".join(answer.split())
    assert "owner" not in answer


@pytest.mark.parametrize(("nodes", "is_tried"), [(100, True), (400, False)])
def test_in_a_followed_cluster_only_gangs_are_tried_that_take_no_seconds(nodes: int, is_tried: bool) -> None:
    """Changes of the cluster wait for the answer there (`cathedra.advisor.model`)."""
    pods = [pod(f"p{number}", cpu=1) for number in range(3)]
    state = state_of(group("g", 3), *pods, *(node(f"n{number}", 4) for number in range(nodes)))
    assert NOT_TRIED not in {(note.resource, note.problem) for note in explain(state, "pod/p0").notes}
    followed = explain(state.allocating_from(state.cluster), "pod/p0")
    notes = {(note.resource, note.problem) for note in followed.notes}
    assert followed.fits
    assert (NOT_TRIED in notes) is not is_tried


def annotated(one: dict[str, Any], **notes: str) -> dict[str, Any]:
    named = {f"scheduling.cathedra.dev/{name.replace('_', '-')}": value for name, value in notes.items()}
    return {**one, "metadata": {**one["metadata"], "annotations": named}}


def test_annotations_of_joint_placement_are_constraints() -> None:
    apart = [node("n", 1, rack="x"), node("m", 1, rack="y"), pod("a"), pod("b")]
    assert asked(*apart, group("g", 2)).fits
    found = asked(*apart, annotated(group("g", 2), same_node_label="rack"))
    assert "1 of 2 pods fit together, b finds no node" in found.causes[0].text


@pytest.mark.parametrize(("domains", "fits"), [("xy", False), ("yxy", True)])
def test_devices_of_one_domain_are_chosen_within_a_node(domains: str, fits: bool) -> None:
    devices = [device(f"gpu-{number}", domain=domain) for number, domain in enumerate(domains)]
    users = [pod(name, resourceClaims=[{"name": "c", "resourceClaimName": name}]) for name in "ab"]
    gang = annotated(group("g", 2), same_device_attribute="gpu.example.com/domain")
    objects = [node("n1", 4), slice_of(*devices), device_class(), claim("a"), claim("b"), gang, *users]
    assert asked(*objects).fits is fits


@pytest.mark.parametrize(("domains", "fits"), [("xy", False), ("xx", True)])
def test_the_devices_of_pods_that_run_choose_the_domain(domains: str, fits: bool) -> None:
    devices = [device(f"gpu-{number}", domain=domain) for number, domain in enumerate(domains)]
    users = [pod(name, resourceClaims=[{"name": "c", "resourceClaimName": name}]) for name in "ab"]
    users[1]["spec"]["nodeName"] = "n1"
    gang = annotated(group("g", 2), same_device_attribute="gpu.example.com/domain")
    taken = held("b", "gpu-0", namespace="default", node="n1", by="b")
    objects = [node("n1", 4), slice_of(*devices), device_class(), claim("a"), taken, gang, *users]
    assert asked(*objects).fits is fits


@pytest.mark.parametrize(("labels", "fits"), [("xy", False), ("xx", True)])
def test_the_node_of_a_pod_that_runs_chooses_the_domain(labels: str, fits: bool) -> None:
    nodes = [node(name, 1, rack=rack) for name, rack in zip("nm", labels, strict=True)]
    gang = annotated(group("g", 2), same_node_label="rack")
    assert asked(*nodes, pod("a"), pod("b", nodeName="n"), gang).fits is fits


def test_the_refusal_of_a_joint_search_is_shown_with_its_bound() -> None:
    said = "JointPlacement: 1 of 2 pods fit together, b finds no node; the search ended after 200 trials"
    condition = {
        "type": "PodGroupInitiallyScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": f"minCount (2) cannot be satisfied: 1 scheduled, 0 remaining, {said}, preemption: none",
    }
    waiting = {**group("g", 2), "status": {"conditions": [condition]}}
    found = asked(node("n", 1), waiting, pod("a"), pod("b"))
    assert found.causes[0].text.endswith(f"; {said}")
