"""What the status of a deployment says of its replica sets."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.apps_v1 import Deployment, ReplicaSet
from cathedra.api.struct import from_dict, replace
from cathedra.controllers.workloads.deploymentstatus import has_deadline, numbers, paused_status, rollout_status
from cathedra.semantics.conditions import find_condition


def deployment(**spec: Any) -> Deployment:
    return from_dict(Deployment, {"metadata": {"name": "web", "generation": 3}, "spec": {"replicas": 2, **spec}})


def replica_set(name: str, replicas: int, available: int) -> ReplicaSet:
    status = {"replicas": replicas, "readyReplicas": available, "availableReplicas": available}
    return from_dict(ReplicaSet, {"metadata": {"name": name}, "spec": {"replicas": replicas}, "status": status})


def test_numbers_are_sums_and_only_the_newest_is_updated() -> None:
    old, new = replica_set("old", 1, 1), replica_set("new", 2, 1)
    status = numbers(deployment(), [old, new], new, 0.0)
    assert (status.replicas, status.updated_replicas, status.available_replicas) == (3, 2, 2)
    assert (status.unavailable_replicas, status.observed_generation) == (1, 3)


@pytest.mark.parametrize(("available", "expected"), [(2, "True"), (0, "False")])
def test_a_deployment_is_available_when_no_more_are_missing_than_may(available: int, expected: str) -> None:
    new = replica_set("new", 2, available)
    condition = find_condition(numbers(deployment(), [new], new, 0.0).conditions, "Available")
    assert condition is not None
    assert condition.status == expected


def test_progress_is_told_only_with_a_deadline() -> None:
    new = replica_set("new", 2, 2)
    assert not has_deadline(deployment())
    assert not has_deadline(deployment(progressDeadlineSeconds=2**31 - 1))
    timed = deployment(progressDeadlineSeconds=600)
    told = find_condition(rollout_status(timed, [new], new, created=True, now=0.0).conditions, "Progressing")
    assert told is not None
    assert (told.reason, told.message) == ("NewReplicaSetCreated", 'Created new replica set "new"')
    silent = rollout_status(deployment(), [new], new, created=True, now=0.0)
    assert find_condition(silent.conditions, "Progressing") is None


def test_a_pause_is_told_once() -> None:
    paused = deployment(progressDeadlineSeconds=600, paused=True)
    told = find_condition(paused_status(paused, 0.0).conditions, "Progressing")
    assert told is not None
    assert told.reason == "DeploymentPaused"
    running = deployment(progressDeadlineSeconds=600)
    assert paused_status(running, 0.0) == running.status


def test_the_end_of_a_pause_is_told() -> None:
    paused = deployment(progressDeadlineSeconds=600, paused=True)
    resumed = replace(deployment(progressDeadlineSeconds=600), status=paused_status(paused, 0.0))
    told = find_condition(paused_status(resumed, 1.0).conditions, "Progressing")
    assert told is not None
    assert (told.status, told.reason, told.message) == ("Unknown", "DeploymentResumed", "Deployment is resumed")


def test_a_replica_set_that_was_found_is_told_otherwise_than_one_that_was_made() -> None:
    new = replica_set("new", 2, 2)
    timed = deployment(progressDeadlineSeconds=600)
    told = find_condition(rollout_status(timed, [new], new, created=False, now=0.0).conditions, "Progressing")
    assert told is not None
    assert (told.reason, told.message) == ("FoundNewReplicaSet", 'Found new replica set "new"')
