"""The pods of a job: their creation and their outcomes."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.batch_v1 import Job
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import Time, from_dict, replace
from cathedra.controllers.job.pods import (
    FAILURE_COUNT,
    INDEX,
    TRACKING,
    PodFailures,
    PolicyMatch,
    completion_index,
    failure_count,
    finish_time,
    has_failed,
    is_tracked,
    judge,
    new_pod,
    pause_after,
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


def test_pods_that_are_deleted_with_their_job_have_not_failed() -> None:
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    going = job()
    going = replace(going, metadata=replace(going.metadata, deletion_timestamp=Time(0)))
    assert not has_failed(pod("Running", **deleted), going)
    assert has_failed(pod("Failed", **deleted), going)


def test_the_last_container_ends_the_pod() -> None:
    def ended(name: str, at: str) -> dict[str, Any]:
        return {"name": name, "state": {"terminated": {"exitCode": 0, "finishedAt": at}}}

    statuses = [ended("a", "1970-01-01T00:00:10Z"), ended("b", "1970-01-01T00:00:20Z")]
    made = from_dict(Pod, {"status": {"phase": "Succeeded", "containerStatuses": statuses}})
    assert finish_time(made, 99.0) == 20.0


def job_with_rules(*rules: dict[str, Any]) -> Job:
    return from_dict(Job, {"metadata": {"name": "j"}, "spec": {"podFailurePolicy": {"rules": list(rules)}}})


def failed(code: int, container: str = "main", **status: Any) -> Pod:
    ended = {"name": container, "state": {"terminated": {"exitCode": code}}}
    metadata = {"name": "p", "namespace": "default"}
    return from_dict(Pod, {"metadata": metadata, "status": {"containerStatuses": [ended], **status}})


def codes(action: str, operator: str, *values: int, **more: Any) -> dict[str, Any]:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values), **more}}


def test_without_a_policy_every_failure_counts() -> None:
    assert judge(Job(), failed(1)) == PolicyMatch("Count")
    assert judge(job_with_rules(codes("FailJob", "In", 42)), failed(1)) == PolicyMatch("Count")


def test_the_first_rule_that_fits_decides() -> None:
    rules = (codes("Ignore", "In", 42), codes("FailJob", "In", 42))
    assert judge(job_with_rules(*rules), failed(42)).action == "Ignore"
    assert judge(job_with_rules(*reversed(rules)), failed(42)) == PolicyMatch(
        "FailJob", "Container main for pod default/p failed with exit code 42 matching FailJob rule at index 0"
    )


def test_a_container_that_ended_well_fits_no_rule() -> None:
    assert judge(job_with_rules(codes("FailJob", "NotIn", 42)), failed(0)).action == "Count"
    assert judge(job_with_rules(codes("FailJob", "NotIn", 42)), failed(1)).action == "FailJob"


def test_a_rule_may_be_about_one_container() -> None:
    rule = codes("FailJob", "In", 42, containerName="main")
    assert judge(job_with_rules(rule), failed(42)).action == "FailJob"
    assert judge(job_with_rules(rule), failed(42, container="other")).action == "Count"


def test_conditions_of_the_pod_can_decide_too() -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    disrupted = failed(137, conditions=[{"type": "DisruptionTarget", "status": "True"}])
    assert judge(job_with_rules(rule), disrupted).message == (
        "Pod default/p has condition DisruptionTarget matching Ignore rule at index 0"
    )
    assert judge(job_with_rules(rule), failed(137)).action == "Count"


def test_pauses_double_up_to_ten_minutes_and_a_success_ends_them() -> None:
    assert [pause_after(failures, 100.0, 100.0) for failures in (0, 1, 2, 3, 7, 50)] == [0, 10, 20, 40, 600, 600]
    assert PodFailures(3, 100.0).pause(130.0) == 10
    ended = Pod(metadata=ObjectMeta(creation_timestamp=Time(120)))
    assert PodFailures(3, 100.0).after((), (ended,), 120.0) == PodFailures(4, 120.0)
    assert PodFailures(3, 100.0).after((ended,), (ended,), 120.0) == PodFailures()
