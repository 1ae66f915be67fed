"""What the failure of one pod means for its job."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.batch_v1 import Job
from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import from_dict
from cathedra.controllers.job.failurepolicy import PolicyMatch, judge


def job(*rules: dict[str, Any]) -> Job:
    return from_dict(Job, {"metadata": {"name": "j"}, "spec": {"podFailurePolicy": {"rules": list(rules)}}})


def failed(code: int, container: str = "main", **status: Any) -> Pod:
    ended = {"name": container, "state": {"terminated": {"exitCode": code}}}
    metadata = {"name": "p", "namespace": "default"}
    return from_dict(Pod, {"metadata": metadata, "status": {"containerStatuses": [ended], **status}})


def codes(action: str, operator: str, *values: int, **more: Any) -> dict[str, Any]:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values), **more}}


def test_without_a_policy_every_failure_counts() -> None:
    assert judge(Job(), failed(1)) == PolicyMatch("Count")
    assert judge(job(codes("FailJob", "In", 42)), failed(1)) == PolicyMatch("Count")


def test_the_first_rule_that_fits_decides() -> None:
    rules = (codes("Ignore", "In", 42), codes("FailJob", "In", 42))
    assert judge(job(*rules), failed(42)).action == "Ignore"
    assert judge(job(*reversed(rules)), failed(42)) == PolicyMatch(
        "FailJob", "Container main for pod default/p failed with exit code 42 matching FailJob rule at index 0"
    )


def test_a_container_that_ended_well_fits_no_rule() -> None:
    assert judge(job(codes("FailJob", "NotIn", 42)), failed(0)).action == "Count"
    assert judge(job(codes("FailJob", "NotIn", 42)), failed(1)).action == "FailJob"


def test_a_rule_may_be_about_one_container() -> None:
    rule = codes("FailJob", "In", 42, containerName="main")
    assert judge(job(rule), failed(42)).action == "FailJob"
    assert judge(job(rule), failed(42, container="other")).action == "Count"


def test_conditions_of_the_pod_can_decide_too() -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    disrupted = failed(137, conditions=[{"type": "DisruptionTarget", "status": "True"}])
    assert judge(job(rule), disrupted).message == (
        "Pod default/p has condition DisruptionTarget matching Ignore rule at index 0"
    )
    assert judge(job(rule), failed(137)).action == "Count"
