"""Groups that pods and groups name, and gangs that are too small."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.insight import lint, read_dump
from cathedra.insight.linting.report import LintFinding
from tests.unit.cli.dra.dumps import gpu_cluster, pod_with
from tests.unit.insight.linting.manifests import gang, member, yaml_of

GATES = {"GenericWorkload": True, "CompositePodGroup": True}
MEMBERS = {"spec": {"schedulingGroup": {"podGroupName": "gang"}, "containers": [{"name": "c", "image": "i"}]}}


def found(*objects: dict[str, Any], **more: Any) -> list[LintFinding]:
    findings = lint(yaml_of(*objects), feature_gates=GATES, **more).findings
    return [one for one in findings if one.rule in ("unknown-group", "small-group")]


def job(parallelism: int, **more: Any) -> dict[str, Any]:
    template = {"spec": {**MEMBERS["spec"], "restartPolicy": "Never"}}
    spec = {"parallelism": parallelism, "template": template, **more}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": spec}


def test_a_gang_with_fewer_pods_than_it_needs_is_found() -> None:
    (one,) = found(gang(3), member("a"), member("b"))
    assert one.rule == "small-group"
    assert one.message == "the gang needs 3 pods, and 2 name the group: none is scheduled"


def test_the_pods_of_workloads_count() -> None:
    assert found(gang(3), member(), job(2)) == []
    assert [one.rule for one in found(gang(3), job(4, completions=2))] == ["small-group"]


@pytest.mark.parametrize("objects", [[gang(3)], [gang(3), member(group="other")]])
def test_a_group_that_nothing_names_gets_its_pods_from_elsewhere(objects: list[dict[str, Any]]) -> None:
    assert found(*objects) == []


def test_the_pods_of_the_cluster_count_unless_a_file_has_them_too() -> None:
    pod = member("a")
    known = read_dump([{**pod, "metadata": {"name": "a", "namespace": "default"}}, *gpu_cluster(taken=1)])
    assert found(gang(2), member("b"), against=known) == []
    assert [one.rule for one in found(gang(2), pod, against=known)] == ["small-group"]


def test_a_group_that_is_not_there_is_found_with_a_cluster_whose_groups_are_known() -> None:
    other = {**gang(1), "metadata": {"name": "other", "namespace": "default"}}
    known = read_dump([*gpu_cluster(taken=1), *pod_with(1), other])
    (one,) = found(member(), against=known)
    assert (one.rule, one.path) == ("unknown-group", "spec.schedulingGroup.podGroupName")
    assert found(member(group="other"), against=known) == []
    assert found(gang(1), member(), against=known) == []
    assert found(member()) == []


def test_a_parent_that_is_not_there_is_found() -> None:
    reference = {"workloadName": "w", "templateName": "t"}
    spec = {"workloadRef": reference, "schedulingPolicy": {"basic": {}}}
    top: dict[str, Any] = {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup", "spec": spec}
    known = read_dump([*gpu_cluster(taken=1), {**top, "metadata": {"name": "there", "namespace": "default"}}])
    (one,) = found(gang(1, parentCompositePodGroupName="top"), against=known)
    assert one.path == "spec.parentCompositePodGroupName"
    assert found(gang(1, parentCompositePodGroupName="there"), against=known) == []
    assert found(gang(1, parentCompositePodGroupName="top"), {**top, "metadata": {"name": "top"}}, against=known) == []


def test_a_group_behind_a_closed_gate_is_dropped_from_pods() -> None:
    dropped = [(one.rule, one.path) for one in lint(yaml_of(member(), job(1)), release="1.37").findings]
    assert dropped == [
        ("dropped-field", "spec.schedulingGroup"),
        ("dropped-field", "spec.template.spec.schedulingGroup"),
    ]
    assert lint(yaml_of(member()), release="1.37", feature_gates=GATES).findings == ()
