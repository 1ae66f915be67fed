"""ReplicationControllers: defaults and rows."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.core_v1 import ReplicationController
from cathedra.api.struct import from_dict
from cathedra.kinds.core.replicationcontrollers import validate_replication_controller_status
from tests.unit.kinds.objects import defaulted, problems_of, row

TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def test_a_controller_of_one_selects_its_templates_labels() -> None:
    made = defaulted("replicationcontrollers", from_dict(ReplicationController, {"spec": {"template": TEMPLATE}}))
    assert (made.spec.replicas, made.spec.selector, made.metadata.labels) == (1, {"a": "b"}, {"a": "b"})
    found = row("replicationcontrollers", made)
    assert (found["Desired"], found["Current"], found["Ready"]) == (1, 0, 0)
    assert (found["Containers"], found["Images"], found["Selector"]) == ("c", "i", "a=b")


def test_a_template_belongs_to_its_selector_and_runs_for_ever() -> None:
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never", "activeDeadlineSeconds": 5}}
    values = {"metadata": {"name": "r"}, "spec": {"selector": {"a": "c"}, "template": template}}
    assert problems_of("replicationcontrollers", ReplicationController, values) == [
        'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`',
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
        "spec.template.spec.activeDeadlineSeconds: Invalid value: 5: must not be specified",
    ]


def test_counts_of_the_status_fit_to_each_other() -> None:
    new = from_dict(ReplicationController, {"status": {"replicas": 1, "readyReplicas": 2, "availableReplicas": -1}})
    assert [str(error) for error in validate_replication_controller_status(new, new)] == [
        "status.availableReplicas: Invalid value: -1: must be greater than or equal to 0",
        "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
    ]
