"""How kinds differ when their objects are deleted (docs/spec/apimachinery.md §7)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.batch_v1 import Job
from cathedra.api.core.core_v1 import Namespace, Pod
from cathedra.api.core.meta_v1 import DeleteOptions
from cathedra.api.struct import from_dict
from cathedra.kinds.deletion import DeletionRules
from tests.unit.kinds.objects import definition_of


def rules(plural: str) -> DeletionRules[Any]:
    return definition_of(plural).deletion


def pod(phase: str = "Running", node: str = "n1", own: int | None = 30, **metadata: Any) -> Pod:
    spec = {"nodeName": node, "terminationGracePeriodSeconds": own, "containers": []}
    return from_dict(Pod, {"metadata": {"name": "p", **metadata}, "spec": spec, "status": {"phase": phase}})


@pytest.mark.parametrize(
    ("wanted", "own", "seconds"),
    [(None, 30, 30), (None, 5, 5), (None, None, 30), (7, 30, 7), (0, 30, 0), (-3, 30, 1), (None, -1, 1)],
)
def test_a_running_pod_has_the_time_that_the_request_or_its_spec_gives(
    wanted: int | None, own: int | None, seconds: int
) -> None:
    assert rules("pods").grace_period(pod(own=own), wanted) == seconds


@pytest.mark.parametrize("gone", [pod(node=""), pod(phase="Succeeded"), pod(phase="Failed")])
def test_a_pod_without_a_node_or_one_that_has_ended_goes_at_once(gone: Pod) -> None:
    assert rules("pods").grace_period(gone, 60) == 0


@given(first=st.integers(0, 600), wanted=st.integers(0, 600))
def test_the_time_of_a_terminating_pod_only_becomes_shorter(first: int, wanted: int) -> None:
    ending = pod(deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=first)
    assert rules("pods").grace_period(ending, wanted) == min(first, wanted)


def test_finalizers_in_its_spec_hold_a_namespace_that_is_then_terminating() -> None:
    held = from_dict(Namespace, {"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}})
    deletion = rules("namespaces")
    assert deletion.is_held(held)
    assert deletion.mark(held).status.phase == "Terminating"
    assert not deletion.is_held(from_dict(Namespace, {"metadata": {"name": "n"}}))


def test_namespaces_of_the_system_are_permanent_and_none_goes_in_a_collection() -> None:
    assert rules("namespaces").permanent == {"default", "kube-system", "kube-public"}
    assert "deletecollection" not in definition_of("namespaces").verbs


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        (DeleteOptions(), True),
        (DeleteOptions(propagation_policy="Background"), False),
        (DeleteOptions(orphan_dependents=True), False),
    ],
)
def test_a_job_warns_that_its_pods_stay_unless_the_request_says_what_becomes_of_them(
    options: DeleteOptions, warned: bool
) -> None:
    deletion: DeletionRules[Job] = rules("jobs")
    assert deletion.orphans_dependents
    assert bool(deletion.warnings(options)) is warned


def test_only_the_oldest_workloads_orphan_their_pods() -> None:
    plurals = ("jobs", "replicationcontrollers", "replicasets", "deployments", "statefulsets", "daemonsets", "cronjobs")
    assert {plural for plural in plurals if rules(plural).orphans_dependents} == {"jobs", "replicationcontrollers"}


def test_a_deleted_definition_of_custom_resources_waits_for_its_instances() -> None:
    assert rules("customresourcedefinitions").finalizers == ("customresourcecleanup.apiextensions.k8s.io",)
