"""The pods of a job: how they are made, and what they say."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import from_dict, replace
from cathedra.controllers.job.pods import (
    FAILURE_COUNT,
    INDEX,
    TRACKING,
    completion_index,
    failure_count,
    finish_time,
    has_failed,
    is_tracked,
    new_pod,
)
from tests.unit.controllers.job.objects import job


def pod(phase: str = "Running", **metadata: Any) -> Pod:
    return from_dict(Pod, {"metadata": {"name": "p", **metadata}, "status": {"phase": phase}})


def test_a_new_pod_is_tracked_and_owned() -> None:
    made = new_pod(job(), None)
    assert is_tracked(made)
    assert made.metadata.generate_name == "j-"
    assert [owner.name for owner in made.metadata.owner_references] == ["j"]
    assert TRACKING in made.metadata.finalizers
    assert completion_index(made) is None


def test_a_pod_of_an_index_knows_it_four_ways() -> None:
    made = new_pod(job(completion_mode="Indexed"), 3)
    assert made.metadata.generate_name == "j-3-"
    assert made.metadata.labels[INDEX] == made.metadata.annotations[INDEX] == "3"
    assert made.spec.hostname == "j-3"
    variables = {variable.name for container in made.spec.containers for variable in container.env}
    assert "JOB_COMPLETION_INDEX" in variables
    assert completion_index(made) == 3
    assert FAILURE_COUNT not in made.metadata.annotations


def test_a_replacement_carries_on_the_failures_of_its_index() -> None:
    made = job(completion_mode="Indexed", backoff_limit_per_index=2)
    first = new_pod(made, 0)
    assert failure_count(first) == 0
    ended = replace(first, status=replace(first.status, phase="Failed"))
    assert failure_count(new_pod(made, 0, ended)) == 1


@pytest.mark.parametrize(
    ("phase", "deleting", "policy", "failed"),
    [
        ("Failed", False, None, True),
        ("Running", True, None, True),
        ("Running", True, "Failed", False),
        ("Succeeded", True, None, False),
        ("Running", False, None, False),
    ],
)
def test_a_pod_that_is_being_deleted_has_failed_unless_its_end_is_awaited(
    phase: str, deleting: bool, policy: str | None, failed: bool
) -> None:
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}
    assert has_failed(pod(phase, **metadata), job(pod_replacement_policy=policy)) is failed


def test_the_last_container_ends_the_pod() -> None:
    def ended(name: str, at: str) -> dict[str, Any]:
        return {"name": name, "state": {"terminated": {"exitCode": 0, "finishedAt": at}}}

    statuses = [ended("a", "1970-01-01T00:00:10Z"), ended("b", "1970-01-01T00:00:20Z")]
    made = from_dict(Pod, {"status": {"phase": "Succeeded", "containerStatuses": statuses}})
    assert finish_time(made, 99.0) == 20.0
