"""Status and sizes of a deployment's replica sets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.apps_v1 import Deployment, ReplicaSet
from cathedra.api.struct import from_dict, replace
from cathedra.controllers.workloads.replicasets import (
    by_age,
    has_deadline,
    is_being_scaled,
    newest_of,
    numbers,
    only_or_latest,
    paused_status,
    proportional_sizes,
    replicas_of,
    revision_of,
    rollout_status,
    size_annotations,
    size_of,
    surge_of,
    unavailable_of,
)
from cathedra.semantics.conditions import find_condition

PREFIX = "deployment.kubernetes.io/"


def deployment(replicas: int | None = 10, surge: Any = 2, unavailable: Any = 0, **more: Any) -> Deployment:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    spec = {"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}, **more}
    return from_dict(Deployment, {"spec": {**spec, **({} if replicas is None else {"replicas": replicas})}})


def sized(name: str, size: int | None, created: int = 1, *, image: str = "i", **annotations: str) -> ReplicaSet:
    metadata = {
        "name": name,
        "creationTimestamp": f"2026-01-{created:02d}T00:00:00Z",
        "annotations": {PREFIX + key.replace("_", "-"): value for key, value in annotations.items()},
    }
    template = {"spec": {"containers": [{"name": "c", "image": image}]}}
    spec = {"template": template, **({} if size is None else {"replicas": size})}
    return from_dict(ReplicaSet, {"metadata": metadata, "spec": spec})


def test_what_says_no_size_is_one_pod() -> None:
    assert (replicas_of(deployment(None)), size_of(sized("a", None))) == (1, 1)
    assert (replicas_of(deployment(0)), size_of(sized("a", 0))) == (0, 0)


@pytest.mark.parametrize(("text", "revision"), [("7", 7), ("", 0), ("x", 0)])
def test_a_revision_that_is_no_number_is_none(text: str, revision: int) -> None:
    assert revision_of(sized("a", 1, revision=text)) == revision
    assert revision_of(sized("a", 1)) == 0


@pytest.mark.parametrize(
    ("surge", "unavailable", "limits"),
    [(2, 0, (2, 0)), ("25%", "25%", (3, 2)), (0, 0, (0, 1)), (0, "100%", (0, 10))],
)
def test_the_limits_of_a_rollout_come_from_its_strategy(surge: Any, unavailable: Any, limits: tuple[int, int]) -> None:
    made = deployment(10, surge, unavailable)
    assert (surge_of(made), unavailable_of(made)) == limits


def test_what_is_recreated_has_neither_surge_nor_slack() -> None:
    recreated = deployment(strategy={"type": "Recreate"})
    assert (surge_of(recreated), unavailable_of(recreated)) == (0, 0)
    assert unavailable_of(deployment(0, 0, "50%")) == 0


def test_replica_sets_are_told_how_many_there_may_be_in_all() -> None:
    assert size_annotations(deployment(10, 2)) == {f"{PREFIX}desired-replicas": "10", f"{PREFIX}max-replicas": "12"}


def test_a_deployment_is_being_scaled_while_its_sets_were_told_another_size() -> None:
    told = sized("a", 5, desired_replicas="10")
    assert not is_being_scaled(deployment(10), [told, sized("b", 5)])
    assert is_being_scaled(deployment(8), [told])
    assert not is_being_scaled(deployment(8), [sized("empty", 0, desired_replicas="10")])


def test_of_equal_templates_the_oldest_is_the_newest_set() -> None:
    wanted = deployment(template={"spec": {"containers": [{"name": "c", "image": "new"}]}})
    sets = [sized("late", 1, 3, image="new"), sized("early", 1, 2, image="new"), sized("old", 1, 1, image="old")]
    found = newest_of(wanted, sets)
    assert found is not None
    assert found.metadata.name == "early"
    assert newest_of(wanted, sets[2:]) is None
    assert [one.metadata.name for one in by_age(sets)] == ["old", "early", "late"]


def test_the_one_set_with_pods_is_scaled_or_the_newest_if_none_has() -> None:
    newest, old, older = sized("new", 0, 3), sized("old", 0, 2), sized("older", 4, 1)
    assert only_or_latest(newest, [older, old]) is older
    assert only_or_latest(newest, [old]) is newest
    assert only_or_latest(None, [sized("x", 0, 1), old]) is old
    assert only_or_latest(sized("new", 1), [older]) is None
    assert only_or_latest(None, []) is None


def shared(replicas: int, **sizes: int) -> dict[str, int]:
    sets = [sized(name, size, max_replicas="12") for name, size in sizes.items()]
    return {one.metadata.name: size for one, size in proportional_sizes(deployment(replicas, 2), sets)}


def test_scaling_in_the_middle_of_a_rollout_is_proportional() -> None:
    assert shared(22, old=9, new=3) == {"old": 18, "new": 6}
    assert shared(4, old=9, new=3) == {"old": 4, "new": 2}
    assert shared(10, old=9, new=3) == {"old": 9, "new": 3}


def test_of_equally_large_sets_the_younger_grows_and_the_older_shrinks() -> None:
    sets = [sized("old", 6, 1, max_replicas="12"), sized("new", 6, 2, max_replicas="12")]
    grown = proportional_sizes(deployment(11, 2), sets)
    assert {one.metadata.name: size for one, size in grown} == {"new": 7, "old": 6}
    shrunk = proportional_sizes(deployment(9, 2), sets)
    assert {one.metadata.name: size for one, size in shrunk} == {"old": 5, "new": 6}


@given(st.integers(1, 40), st.lists(st.integers(1, 20), min_size=1, max_size=4))
def test_all_sets_together_get_just_what_is_allowed(replicas: int, sizes: list[int]) -> None:
    """If they were as many as allowed before."""
    sets = [sized(f"s{number}", size, max_replicas=str(sum(sizes))) for number, size in enumerate(sizes)]
    found = [size for _, size in proportional_sizes(deployment(replicas, 2), sets)]
    assert sum(found) == replicas + 2
    assert min(found) >= 0


def progressing_deployment(**spec: Any) -> Deployment:
    return from_dict(Deployment, {"metadata": {"name": "web", "generation": 3}, "spec": {"replicas": 2, **spec}})


def replica_set(name: str, replicas: int, available: int) -> ReplicaSet:
    status = {"replicas": replicas, "readyReplicas": available, "availableReplicas": available}
    return from_dict(ReplicaSet, {"metadata": {"name": name}, "spec": {"replicas": replicas}, "status": status})


def test_numbers_are_sums_and_only_the_newest_is_updated() -> None:
    old, new = replica_set("old", 1, 1), replica_set("new", 2, 1)
    status = numbers(progressing_deployment(), [old, new], new, 0.0)
    assert (status.replicas, status.updated_replicas, status.available_replicas) == (3, 2, 2)
    assert (status.unavailable_replicas, status.observed_generation) == (1, 3)


@pytest.mark.parametrize(("available", "expected"), [(2, "True"), (0, "False")])
def test_a_deployment_is_available_when_no_more_are_missing_than_may(available: int, expected: str) -> None:
    new = replica_set("new", 2, available)
    condition = find_condition(numbers(progressing_deployment(), [new], new, 0.0).conditions, "Available")
    assert condition is not None
    assert condition.status == expected


def test_progress_is_told_only_with_a_deadline() -> None:
    new = replica_set("new", 2, 2)
    assert not has_deadline(progressing_deployment())
    assert not has_deadline(progressing_deployment(progressDeadlineSeconds=2**31 - 1))
    timed = progressing_deployment(progressDeadlineSeconds=600)
    told = find_condition(rollout_status(timed, [new], new, created=True, now=0.0).conditions, "Progressing")
    assert told is not None
    assert (told.reason, told.message) == ("NewReplicaSetCreated", 'Created new replica set "new"')
    silent = rollout_status(progressing_deployment(), [new], new, created=True, now=0.0)
    assert find_condition(silent.conditions, "Progressing") is None


def test_a_pause_is_told_once() -> None:
    paused = progressing_deployment(progressDeadlineSeconds=600, paused=True)
    told = find_condition(paused_status(paused, 0.0).conditions, "Progressing")
    assert told is not None
    assert told.reason == "DeploymentPaused"
    running = progressing_deployment(progressDeadlineSeconds=600)
    assert paused_status(running, 0.0) == running.status


def test_the_end_of_a_pause_is_told() -> None:
    paused = progressing_deployment(progressDeadlineSeconds=600, paused=True)
    resumed = replace(progressing_deployment(progressDeadlineSeconds=600), status=paused_status(paused, 0.0))
    told = find_condition(paused_status(resumed, 1.0).conditions, "Progressing")
    assert told is not None
    assert (told.status, told.reason, told.message) == ("Unknown", "DeploymentResumed", "Deployment is resumed")


def test_a_replica_set_that_was_found_is_told_otherwise_than_one_that_was_made() -> None:
    new = replica_set("new", 2, 2)
    timed = progressing_deployment(progressDeadlineSeconds=600)
    told = find_condition(rollout_status(timed, [new], new, created=False, now=0.0).conditions, "Progressing")
    assert told is not None
    assert (told.reason, told.message) == ("FoundNewReplicaSet", 'Found new replica set "new"')
