"""Rules that all kinds of apps share."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import apps_v1
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import context, definition_of, problems_of, problems_of_change, updated

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
APPS = [
    ("deployments", apps_v1.Deployment, "ReplicaSet"),
    ("replicasets", apps_v1.ReplicaSet, "ReplicaSet"),
    ("statefulsets", apps_v1.StatefulSet, "StatefulSet"),
    ("daemonsets", apps_v1.DaemonSet, "DaemonSet"),
]


STATEFUL_COUNTS = [f"{name}Replicas" for name in ("ready", "current", "updated", "available")]


@pytest.mark.parametrize(("plural", "kind", "owner"), APPS)
def test_a_workload_selects_the_pods_it_makes(plural: str, kind: Any, owner: str) -> None:
    assert problems_of(plural, kind, {"spec": SELECTED}) == []
    other = {**SELECTED, "selector": {"matchLabels": {"a": "c"}}}
    assert problems_of(plural, kind, {"spec": other}) == [
        'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`'
    ]
    missing = [] if plural == "daemonsets" else ["spec.selector: Required value"]
    assert problems_of(plural, kind, {"spec": {"template": TEMPLATE}}) == [
        *missing,
        'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`',
    ]
    unlabelled = {**SELECTED, "template": {"spec": TEMPLATE["spec"]}}
    assert problems_of(plural, kind, {"spec": unlabelled}) == [
        "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`"
    ]
    (text,) = problems_of(plural, kind, {"spec": {**SELECTED, "selector": {}}})
    assert text.startswith("spec.selector: Invalid value: {}: empty selector is invalid for")


@pytest.mark.parametrize(("plural", "kind", "owner"), APPS)
def test_a_workload_keeps_its_pods_running(plural: str, kind: Any, owner: str) -> None:
    spec = {**TEMPLATE["spec"], "restartPolicy": "Never", "activeDeadlineSeconds": 1}
    template = {**TEMPLATE, "spec": spec}
    assert problems_of(plural, kind, {"spec": {**SELECTED, "template": template}}) == [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
        f"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in {owner} is not Supported",
    ]


@pytest.mark.parametrize(("plural", "kind"), [(plural, kind) for plural, kind, _ in APPS])
def test_the_selector_of_a_workload_stays(plural: str, kind: Any) -> None:
    template = {**TEMPLATE, "metadata": {"labels": {"a": "b", "c": "d"}}}
    old = {"spec": {**SELECTED, "template": template}}
    (text,) = problems_of_change(plural, kind, old, {"spec": {**old["spec"], "selector": {"matchLabels": {"c": "d"}}}})
    assert ": Invalid value: " in text or ": Forbidden: updates to statefulset spec" in text


@pytest.mark.parametrize(
    ("plural", "kind", "status", "wanted"),
    [
        ("deployments", apps_v1.Deployment, {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}, []),
        ("deployments", apps_v1.Deployment, {"observedGeneration": -1}, ["observedGeneration"]),
        ("deployments", apps_v1.Deployment, {"updatedReplicas": 2}, ["updatedReplicas"]),
        ("deployments", apps_v1.Deployment, {"replicas": 2, "availableReplicas": 1}, ["availableReplicas"]),
        ("replicasets", apps_v1.ReplicaSet, {"replicas": 2, "fullyLabeledReplicas": 3}, ["fullyLabeledReplicas"]),
        ("statefulsets", apps_v1.StatefulSet, {"replicas": 1, "currentReplicas": 2}, ["currentReplicas"]),
        ("statefulsets", apps_v1.StatefulSet, {"replicas": -1}, ["replicas", *STATEFUL_COUNTS]),
    ],
)
def test_counts_of_a_status_agree(plural: str, kind: Any, status: dict[str, int], wanted: list[str]) -> None:
    old = from_dict(kind, {})
    new = from_dict(kind, {"status": status})
    _, errors = updated(definition_of(plural).subresources["status"], new, old, context())
    assert [error.field for error in errors] == [f"status.{name}" for name in wanted]


def test_labels_stay_when_the_status_of_a_deployment_is_written() -> None:
    old = from_dict(apps_v1.Deployment, {"metadata": {"labels": {"a": "b"}}})
    new = from_dict(apps_v1.Deployment, {"metadata": {"labels": {"c": "d"}}})
    made, _ = updated(definition_of("deployments").subresources["status"], new, old, context())
    assert made.metadata.labels == {"a": "b"}


@pytest.mark.parametrize(
    ("plural", "kind", "detail", "template"),
    [
        ("deployments", apps_v1.Deployment, ": invalid label selector", False),
        ("replicasets", apps_v1.ReplicaSet, ": invalid label selector", False),
        ("statefulsets", apps_v1.StatefulSet, "", False),
        ("daemonsets", apps_v1.DaemonSet, None, True),
    ],
)
def test_the_template_of_an_invalid_selector_is_validated_by_daemon_sets_alone(
    plural: str, kind: Any, detail: str | None, template: bool
) -> None:
    labels = {"a": "_"}
    spec = {"selector": {"matchLabels": labels}, "template": {**TEMPLATE, "metadata": {"labels": labels}}}
    found = problems_of(plural, kind, {"spec": spec})
    again = [] if detail is None else [f'spec.selector: Invalid value: {{"matchLabels":{{"a":"_"}}}}{detail}']
    assert found[0].startswith("spec.selector.matchLabels: ")
    assert found[1 : 1 + len(again)] == again
    assert [text.startswith("spec.template.labels") for text in found[1 + len(again) :]] == [True] * template
