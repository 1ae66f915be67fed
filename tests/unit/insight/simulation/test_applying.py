"""Manifests of objects that exist: what `kubectl apply` of the same files would do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cathedra.allocation import InvalidInput
from cathedra.api.core.apps_v1 import Deployment
from cathedra.api.struct import from_dict
from cathedra.insight.explanation.explain import explain
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.simulation.applying import LAST_APPLIED, merge_applied
from cathedra.insight.simulation.run import PlannedChanges, simulate
from tests.unit.cli.dra.dumps import gpu_cluster, pod_with
from tests.unit.insight.simulation.test_run import deployment

MAIN = {"name": "main", "image": "main:1"}
SIDE = {"name": "side", "image": "side:1"}


def web(*containers: dict[str, Any], applied: Any = None, **spec: Any) -> Deployment:
    annotations = {} if applied is None else {LAST_APPLIED: json.dumps(applied)}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": list(containers)}}
    values = {"metadata": {"name": "web", "namespace": "default", "annotations": annotations}}
    return from_dict(
        Deployment, {**values, "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec}}
    )


def manifest(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": list(containers)}}, **spec},
    }


def test_fields_that_the_manifest_does_not_have_stay() -> None:
    current = web({**MAIN, "terminationMessagePath": "/dev/termination-log"}, replicas=5)
    merged = merge_applied(current, web(MAIN))
    assert merged == current


def test_a_field_that_was_applied_and_left_the_manifest_is_removed() -> None:
    current = web(MAIN, replicas=5, applied=manifest(MAIN, replicas=5))
    assert merge_applied(current, web(MAIN)).spec.replicas is None


def test_a_container_that_was_applied_and_left_the_manifest_is_removed_and_others_stay() -> None:
    injected = {"name": "injected", "image": "injected:1"}
    current = web(MAIN, SIDE, injected, applied=manifest(MAIN, SIDE))
    changed = merge_applied(current, web({**MAIN, "image": "main:2"}))
    names = {one.name: one.image for one in changed.spec.template.spec.containers}
    assert names == {"main": "main:2", "injected": "injected:1"}


def test_an_annotation_that_is_no_object_is_no_earlier_manifest() -> None:
    current = web(MAIN, replicas=5, applied="nonsense")
    assert merge_applied(current, web(MAIN)).spec.replicas == 5


def test_a_folder_of_objects_that_exist_changes_nothing() -> None:
    """A GitOps folder: all of it is applied again, unchanged."""
    objects = [*gpu_cluster(), *deployment(1)]
    found = simulate(read_dump(objects), PlannedChanges(apply=objects), copies=0)
    assert [one.pod for one in found.placed] == [one.pod for one in simulate(read_dump(objects)).placed]
    assert found.failures == ()


def test_a_change_that_the_server_refuses_is_refused_in_its_words() -> None:
    template = pod_with(1)[0]
    state = read_dump([*gpu_cluster(), template])
    with pytest.raises(InvalidInput, match=r"ResourceClaimTemplate default/.*: .*immutable"):
        simulate(state, PlannedChanges(apply=pod_with(2)[0]))


def test_a_version_that_the_cluster_does_not_have_is_refused_as_kubectl_refuses_it() -> None:
    dump = read_dump(gpu_cluster(), release="1.33", feature_gates={"DynamicResourceAllocation": True})
    text = 'no matches for kind "DeviceClass" in version "resource.k8s.io/v1"; the cluster has v1beta2, v1beta1'
    with pytest.raises(InvalidInput, match=text):
        simulate(dump, PlannedChanges(apply=gpu_cluster()[0]))
    with pytest.raises(InvalidInput, match=text):
        explain(dump, manifests=gpu_cluster()[0])
