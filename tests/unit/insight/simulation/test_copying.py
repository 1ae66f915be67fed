"""Volumes of claims that a simulation creates."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.simulation.run import PlannedChanges, simulate
from tests.unit.cli.dra.dumps import gpu_cluster
from tests.unit.insight.simulation.test_comparing import SET

SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def storage_class(provisioner: str = "disk.example.com", **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast", "annotations": annotations},
        "provisioner": provisioner,
        "volumeBindingMode": "Immediate",
    }


def claim(name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {**SPEC, **spec}}


def stateful_set() -> dict[str, Any]:
    containers = {"containers": [{"name": "main", "image": "main"}]}
    template = {**SET["spec"]["template"], "spec": containers}
    templates = [{"metadata": {"name": "data"}, "spec": SPEC}]
    return {**SET, "spec": {**SET["spec"], "template": template, "volumeClaimTemplates": templates}}


@pytest.mark.parametrize(
    ("provisioner", "placed"), [("disk.example.com", ["default/web-0"]), ("kubernetes.io/no-provisioner", [])]
)
def test_a_claim_that_is_created_is_bound_if_its_class_has_a_provisioner(provisioner: str, placed: list[str]) -> None:
    default = storage_class(provisioner, **{"storageclass.kubernetes.io/is-default-class": "true"})
    state = read_dump([*gpu_cluster(), default, claim("other")])
    found = simulate(state, PlannedChanges(apply=stateful_set()), copies=0)
    assert [one.pod for one in found.placed] == placed
    assert [group.why for group in found.pending] == (
        [] if placed else ["fits on none of 2 nodes: pod has unbound immediate PersistentVolumeClaims"]
    )


def test_a_claim_that_waited_before_waits_still() -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "user", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "main"}], "volumes": volumes},
    }
    state = read_dump([*gpu_cluster(), storage_class(), claim("data", storageClassName="fast")])
    assert simulate(state, PlannedChanges(apply=pod), copies=0).placed == ()
