"""Manifests that are applied: strict fields as in kubectl, and the place of every problem."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cathedra.allocation.errors import InvalidInput
from cathedra.api.core.core_v1 import Node
from cathedra.api.scheme import GroupVersionKind
from cathedra.insight.explanation.explain import explain
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.manifests import (
    ManifestOptions,
    parse_validation,
    read_manifests,
    served_check,
    served_versions,
)
from cathedra.insight.reading.state import ClusterState
from cathedra.insight.simulation.run import PlannedChanges, simulate
from tests.insight.building import Object, claim, device_class, gpus, node, pod, request
from tests.unit.cli.dra.dumps import gpu_cluster

EMPTY = ClusterState.of(())
CLUSTER = read_dump([node(), device_class(), gpus(2)])
WRONG = """apiVersion: v1
kind: Pod
metadata: {name: good}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: wrong}
spec: {foo: 1, containers: [{name: c, image: i, bar: 2}]}
"""
STRICT = (
    'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
    'unknown field "spec.containers[0].bar", unknown field "spec.foo"'
)


def refused(given: Path | str | Object, state: ClusterState = EMPTY) -> str:
    with pytest.raises(InvalidInput) as found:
        read_manifests(given, state)
    return str(found.value)


def test_unknown_fields_are_refused_in_the_words_of_kubectl_with_file_and_document(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(WRONG)
    assert refused(tmp_path) == f'error when creating "{tmp_path}/a.yaml": {STRICT} (document 2)'
    assert refused(WRONG) == STRICT
    with pytest.raises(InvalidInput, match="strict decoding error"):
        explain(CLUSTER, manifests=tmp_path)
    with pytest.raises(InvalidInput, match="strict decoding error"):
        simulate(CLUSTER, PlannedChanges(apply=tmp_path))


def test_all_problems_are_reported_at_once_each_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replcas: 3}}")
    (tmp_path / "b.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: 3}}")
    (tmp_path / "c.yaml").write_text("{apiVersion: resource.k8s.io/v9, kind: DeviceClass, metadata: {name: c}}")
    first, second, third = refused(tmp_path).split("\n")
    assert first == (
        f'error when creating "{tmp_path}/a.yaml": Deployment in version "v1" cannot be handled as a Deployment: '
        'strict decoding error: unknown field "spec.replcas"'
    )
    assert second.startswith(f"{tmp_path}/b.yaml: Pod p: ")
    assert third.startswith(
        f'resource mapping not found for name: "c" namespace: "" from "{tmp_path}/c.yaml": no matches'
    )


def test_an_object_that_exists_would_be_patched(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {colour: red}}")
    assert refused(tmp_path / "a.yaml", CLUSTER) == (
        f'error when patching "{tmp_path}/a.yaml": Node n1: strict decoding error: unknown field "spec.colour"'
    )


def test_a_field_of_a_later_release_is_unknown() -> None:
    one = claim("c", request(tolerations=[{"operator": "Exists"}]))
    one["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"memory": "1Gi"}}
    assert not read_manifests(one, EMPTY).notes
    older = read_dump([node()], release="1.33", feature_gates={"DynamicResourceAllocation": True})
    beta = {**one, "apiVersion": "resource.k8s.io/v1beta2"}
    text = 'strict decoding error: unknown field "spec.devices.requests[0].exactly.capacity"'
    assert refused(beta, older) == (f'ResourceClaim in version "v1beta2" cannot be handled as a ResourceClaim: {text}')


def test_unknown_fields_are_noted_or_dropped_on_request(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(WRONG)
    warned = read_manifests(tmp_path, EMPTY, ManifestOptions(validate="warn"))
    assert len(warned.objects) == 2
    assert [note.text for note in warned.notes] == [
        f'{tmp_path}/a.yaml, document 2: Pod default/wrong: unknown field "spec.{name}"'
        for name in ("containers[0].bar", "foo")
    ]
    assert read_manifests(tmp_path, EMPTY, ManifestOptions(validate="ignore")).notes == ()
    found = simulate(CLUSTER, PlannedChanges(apply=tmp_path, validate="warn"), copies=0)
    assert len(found.placed) == 2


@pytest.mark.parametrize(("given", "meant"), [("true", "strict"), ("strict", "strict"), ("false", "ignore")])
def test_validation_has_the_values_of_kubectl(given: str, meant: str) -> None:
    assert parse_validation(given) == meant


def test_another_validation_is_refused_in_the_words_of_kubectl() -> None:
    with pytest.raises(InvalidInput, match=r'^invalid - validate option "x"; must be one of: strict'):
        parse_validation("x")


def test_an_invalid_object_is_refused_with_its_file(tmp_path: Path) -> None:
    requests = "{devices: {requests: [{name: A}]}}"
    (tmp_path / "a.yaml").write_text(
        f"{{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {{name: c}}, spec: {requests}}}"
    )
    for ask in (
        lambda: explain(CLUSTER, manifests=tmp_path),
        lambda: simulate(CLUSTER, PlannedChanges(apply=tmp_path)),
    ):
        with pytest.raises(InvalidInput) as found:
            ask()
        assert str(found.value).startswith(f"{tmp_path}/a.yaml: ResourceClaim default/c is invalid: ")


def test_kinds_that_tools_do_not_need_are_left_out() -> None:
    custom = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "anything": True}
    found = read_manifests([custom, node()], EMPTY)
    assert [type(one) for one in found.objects] == [Node]
    assert found.notes == ()


def test_manifests_have_to_be_decodable() -> None:
    odd = claim("odd", request(), namespace="other")
    odd["status"] = {"allocation": {"devices": {"results": [{"request": "gpu", "device": 7}]}}}
    assert refused(odd).startswith("ResourceClaim other/odd: ")


def test_an_object_without_a_namespace_is_in_that_of_the_command() -> None:
    one = pod("template:t")
    del one["metadata"]["namespace"]
    (made,) = read_manifests(one, EMPTY, ManifestOptions(namespace="team")).objects
    assert made.metadata.namespace == "team"


# API versions that the cluster of a state serves.

GATES = {"DynamicResourceAllocation": True}
CLAIM = GroupVersionKind("resource.k8s.io", "v1", "ResourceClaim")


def test_a_release_does_not_serve_the_versions_of_later_ones() -> None:
    is_served = served_check(read_dump(gpu_cluster(), release="1.33", feature_gates=GATES))
    assert [is_served(CLAIM._replace(version=version)) for version in ("v1beta1", "v1beta2", "v1")] == [
        True,
        True,
        False,
    ]
    assert served_check(read_dump(gpu_cluster()))(CLAIM)


def test_a_version_of_devices_is_served_wherever_the_gate_is_on() -> None:
    """Nothing could be allocated otherwise; a dump without objects of the group names no version."""
    served = served_versions(
        read_dump([{"apiVersion": "v1", "kind": "NodeList", "items": []}], release="1.33", feature_gates=GATES)
    )
    assert served["resource.k8s.io/v1beta1"]


def test_a_cluster_with_the_gate_for_groups_but_without_their_api_serves_none() -> None:
    """Its jobs fail, and those of the copy must fail as they do."""
    gates = {"GenericWorkload": True}
    state = read_dump(gpu_cluster(), release="1.37", feature_gates=gates)
    groups = [one for one, on in served_versions(state).items() if on and one.startswith("scheduling.k8s.io/")]
    assert groups
    live = replace(state, served=dict.fromkeys(groups, False))
    assert not any(on for one, on in served_versions(live).items() if one.startswith("scheduling.k8s.io/"))
