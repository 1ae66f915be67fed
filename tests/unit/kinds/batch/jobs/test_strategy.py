"""Jobs as they are written: marks of their own, generations, warnings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core import batch_v1
from cathedra.api.core.batch_v1 import Job, JobSpec
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.batch.jobs.strategy import (
    default_job,
    default_job_spec,
    validate_job_scheduling,
    validate_job_status,
    with_selector,
)
from cathedra.releases import FeatureGates
from tests.unit.kinds.objects import context, created, definition_of, problems_of, row, updated


def job(**spec: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    return {"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"spec": pod}, **spec}}


def test_a_job_marks_its_pods_and_itself() -> None:
    made, errors = created(definition_of("jobs").strategy, from_dict(batch_v1.Job, job()), context())
    assert errors == []
    own = {
        "controller-uid": "u",
        "job-name": "j",
        "batch.kubernetes.io/controller-uid": "u",
        "batch.kubernetes.io/job-name": "j",
    }
    assert made.spec.template.metadata.labels == own
    assert made.metadata.labels == own
    assert made.spec.selector.match_labels == {"batch.kubernetes.io/controller-uid": "u"}


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"parallelism": -1}, "spec.parallelism: Invalid value: -1: must be greater than or equal to 0"),
        ({"completionMode": "Indexed"}, "spec.completions: Required value: when completion mode is Indexed"),
        (
            {
                "podFailurePolicy": {
                    "rules": [
                        {"action": "Count", "onExitCodes": {"containerName": "c", "operator": "In", "values": [1]}},
                        {"action": "Count", "onExitCodes": {"containerName": "d", "operator": "In", "values": [1]}},
                    ]
                }
            },
            'spec.podFailurePolicy.rules[1].onExitCodes.containerName: Invalid value: "d": '
            "must be one of the container or initContainer names in the pod template",
        ),
    ],
)
def test_a_job_is_checked(spec: dict[str, Any], wanted: str) -> None:
    spec = {"parallelism": 1, **spec}
    assert problems_of("jobs", batch_v1.Job, job(**spec)) == [wanted]


def test_the_selector_that_the_author_wrote_stays() -> None:
    selector = {"matchLabels": {"a": "b"}}
    template = {"metadata": {"labels": {"a": "b"}}, **job()["spec"]["template"]}
    values = job(manualSelector=True, selector=selector, template=template)
    made, errors = created(definition_of("jobs").strategy, from_dict(batch_v1.Job, values), context())
    assert errors == []
    assert made.spec.selector.match_labels == {"a": "b"}
    assert made.spec.template.metadata.labels == {"a": "b"}


def test_a_status_is_not_created_and_the_generation_begins() -> None:
    values = {**job(), "status": {"succeeded": 3}}
    made, _ = created(definition_of("jobs").strategy, from_dict(batch_v1.Job, values), context())
    assert (made.status, made.metadata.generation) == (batch_v1.JobStatus(), 1)


def test_suspending_a_job_is_a_change_of_its_spec() -> None:
    strategy = definition_of("jobs").strategy
    old, _ = created(strategy, from_dict(batch_v1.Job, job()), context())
    made, errors = updated(strategy, replace(old, spec=replace(old.spec, suspend=True)), old, context())
    assert (errors, made.metadata.generation) == ([], 2)


def test_a_selector_of_two_jobs_never_takes_the_same_pods() -> None:
    first = with_selector(from_dict(batch_v1.Job, {"metadata": {"name": "j", "uid": "1"}}))
    second = with_selector(from_dict(batch_v1.Job, {"metadata": {"name": "j", "uid": "2"}}))
    assert first.spec.selector != second.spec.selector
    assert first.spec.selector is not None
    wanted = first.spec.selector.match_labels
    assert wanted.items() <= first.spec.template.metadata.labels.items()
    assert not wanted.items() <= second.spec.template.metadata.labels.items()


def test_jobs_are_selected_by_how_many_pods_succeeded() -> None:
    made = from_dict(batch_v1.Job, {"status": {"succeeded": 2}})
    assert definition_of("jobs").field_selectors["status.successful"](made) == "2"


def job_of_columns(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any) -> Job:
    return from_dict(Job, {"metadata": {"name": "j", **metadata}, "spec": spec or {}, "status": status or {}})


def conditions(*true: str) -> dict[str, Any]:
    return {"conditions": [{"type": name, "status": "True"} for name in true]}


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (job_of_columns(), "Running"),
        (job_of_columns(status=conditions("Complete", "SuccessCriteriaMet")), "Complete"),
        (job_of_columns(status=conditions("FailureTarget", "Failed")), "Failed"),
        (job_of_columns(status=conditions("Suspended")), "Suspended"),
        (job_of_columns(status=conditions("Suspended"), deletionTimestamp="2023-01-01T00:00:00Z"), "Terminating"),
        (job_of_columns(status={"conditions": [{"type": "Complete", "status": "False"}]}), "Running"),
    ],
)
def test_the_status_is_the_strongest_true_condition(made: Job, wanted: str) -> None:
    assert row("jobs", made)["Status"] == wanted


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [({"completions": 5}, "2/5"), ({"parallelism": 3}, "2/1 of 3"), ({"parallelism": 1}, "2/1"), ({}, "2/1")],
)
def test_completions_are_of_what_the_job_says(spec: dict[str, Any], wanted: str) -> None:
    assert row("jobs", job_of_columns(spec, {"succeeded": 2}))["Completions"] == wanted


def test_the_duration_stands_still_when_the_job_is_complete() -> None:
    begun = {"startTime": "2023-11-14T22:12:20Z"}
    assert row("jobs", job_of_columns())["Duration"] == ""
    assert row("jobs", job_of_columns(status=begun))["Duration"] == "60s"
    assert row("jobs", job_of_columns(status={**begun, "completionTime": "2023-11-14T22:12:27Z"}))["Duration"] == "7s"


TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never"}}


def filled(**spec: Any) -> JobSpec:
    return default_job_spec(from_dict(JobSpec, {"template": TEMPLATE, **spec}))


@pytest.mark.parametrize(
    ("written", "completions", "parallelism"),
    [
        ({}, 1, 1),
        ({"completions": 4}, 4, 1),
        ({"parallelism": 3}, None, 3),
        ({"parallelism": 0}, None, 0),
        ({"completions": 2, "parallelism": 2}, 2, 2),
    ],
)
def test_a_job_ends_after_one_pod_unless_it_says_how_many_at_once(
    written: dict[str, int], completions: int | None, parallelism: int
) -> None:
    """A parallelism without completions makes a work queue: any pod that succeeds ends the job."""
    spec = filled(**written)
    assert (spec.completions, spec.parallelism) == (completions, parallelism)


@pytest.mark.parametrize(
    ("written", "limit"), [({}, 6), ({"backoffLimitPerIndex": 1}, 2**31 - 1), ({"backoffLimit": 0}, 0)]
)
def test_a_job_fails_after_six_retries_unless_each_index_has_a_limit_of_its_own(
    written: dict[str, int], limit: int
) -> None:
    assert filled(**written).backoff_limit == limit


@pytest.mark.parametrize(
    ("written", "policy"),
    [
        ({}, "TerminatingOrFailed"),
        ({"podFailurePolicy": {"rules": []}}, "Failed"),
        ({"podReplacementPolicy": "Failed"}, "Failed"),
    ],
)
def test_pods_are_replaced_once_they_end_unless_a_policy_must_see_how_they_failed(
    written: dict[str, Any], policy: str
) -> None:
    assert filled(**written).pod_replacement_policy == policy


def test_a_job_runs_at_once_counts_pods_and_chooses_its_own_selector() -> None:
    spec = filled()
    assert (spec.suspend, spec.completion_mode, spec.manual_selector) == (False, "NonIndexed", False)


def test_a_job_without_labels_takes_those_of_its_template() -> None:
    assert default_job(from_dict(Job, {"spec": {"template": TEMPLATE}})).metadata.labels == {"a": "b"}


maybe = st.none() | st.integers(0, 3)


@given(maybe, maybe, maybe, st.booleans())
def test_defaults_are_filled_in_once(
    completions: int | None, parallelism: int | None, backoff: int | None, suspend: bool
) -> None:
    written = {"completions": completions, "parallelism": parallelism, "backoffLimit": backoff, "suspend": suspend}
    once = filled(**{name: value for name, value in written.items() if value is not None})
    assert default_job_spec(once) == once
    assert once.suspend is suspend


def test_how_the_pods_of_a_job_are_grouped_has_a_gate_but_stays_where_it_is_in_use() -> None:
    grouped = from_dict(batch_v1.Job, job(scheduling={}))
    strategy = definition_of("jobs").strategy
    opened = context(GenericWorkload=True, WorkloadWithJob=True)
    assert created(strategy, grouped, context())[0].spec.scheduling is None
    made = created(strategy, grouped, opened)[0]
    assert made.spec.scheduling is not None
    assert updated(strategy, made, made, context())[0].spec.scheduling is not None


# What a job may state about the group of its pods.

GATES = FeatureGates.for_release("1.37", {"GenericWorkload": True, "WorkloadWithJob": True})
GANG: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": 2}}}


def job_scheduling(scheduling: dict[str, Any] | None, parallelism: int = 2) -> batch_v1.Job:
    spec = {"parallelism": parallelism, "template": {}}
    return from_dict(batch_v1.Job, {"spec": spec if scheduling is None else {**spec, "scheduling": scheduling}})


def errors(scheduling: dict[str, Any] | None, old: dict[str, Any] | None = None, parallelism: int = 2) -> list[str]:
    before = job_scheduling(old) if old is not None else None
    return [str(error) for error in validate_job_scheduling(job_scheduling(scheduling, parallelism), before, GATES)]


@pytest.mark.parametrize(
    ("scheduling", "wanted"),
    [
        ({}, []),
        (GANG, []),
        ({"schedulingPolicy": {"gang": {}}}, []),
        ({"schedulingPolicy": {}}, ["spec.scheduling.schedulingPolicy"]),
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, ["spec.scheduling.schedulingPolicy.gang.minCount"]),
        ({"schedulingPolicy": {"gang": {"minCount": 3}}}, ["spec.scheduling.schedulingPolicy.gang.minCount"]),
        ({"schedulingPolicy": {"gang": {}, "basic": {}}}, ["spec.scheduling.schedulingPolicy"]),
        ({"resourceClaims": [{"name": "c"}]}, ["spec.scheduling.resourceClaims[0]"]),
        ({"schedulingConstraints": {"topology": [{}]}}, ["spec.scheduling.schedulingConstraints.topology[0].key"]),
    ],
)
def test_a_new_job_states_one_group(scheduling: dict[str, Any], wanted: list[str]) -> None:
    assert [text.partition(": ")[0] for text in errors(scheduling)] == wanted


@pytest.mark.parametrize(
    ("scheduling", "wanted"),
    [
        ({"schedulingPolicy": {"gang": {"minCount": 1}}}, 0),
        ({"schedulingPolicy": {"gang": {}}}, 0),
        ({"schedulingPolicy": {"basic": {}}}, 2),
        (None, 1),
        ({**GANG, "disruptionMode": {"all": {}}}, 1),
    ],
)
def test_only_the_size_of_a_gang_may_change(scheduling: dict[str, Any] | None, wanted: int) -> None:
    assert len(errors(scheduling, GANG)) == wanted


def test_parallelism_may_not_fall_below_the_gang() -> None:
    assert len(errors(GANG, GANG, parallelism=1)) == 1


def test_behind_a_closed_gate_nothing_is_checked() -> None:
    closed = FeatureGates.for_release("1.37")
    assert not validate_job_scheduling(job_scheduling({"schedulingPolicy": {}}), None, closed)


# Rules of the status of jobs.

START, END = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def true(*conditions: str) -> list[dict[str, str]]:
    return [{"type": condition, "status": "True"} for condition in conditions]


COMPLETE = {"startTime": START, "completionTime": END, "conditions": true("SuccessCriteriaMet", "Complete")}
FAILED = {"startTime": START, "conditions": true("FailureTarget", "Failed")}


def wrong(new: dict[str, Any], old: dict[str, Any] | None = None, **spec: Any) -> list[str]:
    before, after = (
        from_dict(Job, {"spec": {"completions": 3, "parallelism": 3, **spec}, "status": status})
        for status in (old or {}, new)
    )
    return [str(error) for error in validate_job_status(after, before)]


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        (COMPLETE, []),
        (FAILED, []),
        ({"startTime": START, "conditions": true("SuccessCriteriaMet")}, []),
        ({"active": -1}, ["status.active: Invalid value: -1: must be greater than or equal to 0"]),
        (
            {"startTime": START, "conditions": true("SuccessCriteriaMet", "Complete")},
            ["status.completionTime: Required value: completionTime is required for Complete jobs"],
        ),
        (
            {"startTime": START, "completionTime": END},
            [
                f'status.completionTime: Invalid value: "{END}": cannot set completionTime when there is no '
                "Complete=True condition"
            ],
        ),
        (
            COMPLETE | {"conditions": true("Complete")},
            [
                "status.conditions: Invalid value: cannot set Complete=True condition without the "
                "SuccessCriteriaMet=true condition"
            ],
        ),
        (
            {"startTime": START, "conditions": true("Failed")},
            [
                "status.conditions: Invalid value: cannot set Failed=True condition without the "
                "FailureTarget=true condition"
            ],
        ),
        (
            {"conditions": true("SuccessCriteriaMet", "FailureTarget")},
            ["status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"],
        ),
        (FAILED | {"active": 1}, ["status.active: Invalid value: 1: active>0 is invalid for finished job"]),
        (
            FAILED | {"terminating": 1},
            ["status.terminating: Invalid value: 1: terminating>0 is invalid for finished job"],
        ),
        (FAILED | {"startTime": None}, ["status.startTime: Required value: startTime is required for finished job"]),
        ({"ready": 1}, ["status.ready: Invalid value: 1: cannot set more ready pods than active"]),
        (
            {"uncountedTerminatedPods": {"succeeded": ["u"], "failed": ["u"]}},
            ['status.uncountedTerminatedPods.failed[0]: Duplicate value: "u"'],
        ),
    ],
)
def test_a_status_agrees_with_itself(status: dict[str, Any], wanted: list[str]) -> None:
    assert wrong(status) == wanted


@pytest.mark.parametrize(
    ("status", "spec", "wanted"),
    [
        ({"completedIndexes": "0,2"}, {"completionMode": "Indexed"}, []),
        (
            {"completedIndexes": "0,3"},
            {"completionMode": "Indexed"},
            ['status.completedIndexes: Invalid value: "0,3": error parsing completedIndexes: too large index: "3"'],
        ),
        (
            {"completedIndexes": "0"},
            {},
            [
                'status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed '
                "completion mode"
            ],
        ),
        (
            {"failedIndexes": "0"},
            {"completionMode": "Indexed"},
            [
                'status.failedIndexes: Invalid value: "0": cannot set non-null failedIndexes when backoffLimitPerIndex '
                "is null"
            ],
        ),
        (
            {"completedIndexes": "0-1", "failedIndexes": "1-2"},
            {"completionMode": "Indexed", "backoffLimitPerIndex": 1},
            ['status.failedIndexes: Invalid value: "1-2": failedIndexes and completedIndexes overlap at index: 1'],
        ),
    ],
)
def test_indexes_are_those_of_the_job(status: dict[str, Any], spec: dict[str, Any], wanted: list[str]) -> None:
    assert wrong(status, **spec) == wanted


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ({"failed": 2}, {"failed": 1}, ["status.failed: Invalid value: 1: cannot decrease the failed counter"]),
        (
            {"succeeded": 2},
            {"succeeded": 1},
            ["status.succeeded: Invalid value: 1: cannot decrease the succeeded counter"],
        ),
        (
            FAILED,
            {"startTime": START},
            [f"cannot disable the terminal {name}=True" for name in ("Failed", "FailureTarget")],
        ),
        (COMPLETE, COMPLETE | {"completionTime": START}, ["completionTime cannot be mutated"]),
        ({"startTime": START}, {"startTime": END}, ["startTime cannot be removed for unsuspended job"]),
        ({"completedIndexes": "0"}, {"completedIndexes": "0", "failed": 1}, []),
    ],
)
def test_what_was_reached_stays(old: dict[str, Any], new: dict[str, Any], wanted: list[str]) -> None:
    found = wrong(new, old)
    assert len(found) == len(wanted)
    assert all(words in text for words, text in zip(wanted, found, strict=True))
