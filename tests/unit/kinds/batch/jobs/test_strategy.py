"""Jobs as they are written: marks of their own, generations, warnings."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import batch_v1
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.batch.jobs.strategy import with_selector
from tests.unit.kinds.objects import context, created, definition_of, problems_of, updated


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
