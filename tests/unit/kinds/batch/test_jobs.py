"""Jobs."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import batch_v1
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import context, created, definition_of, problems_of


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
