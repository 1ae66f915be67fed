"""Rules that all kinds of apps share."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import apps_v1
from tests.unit.kinds.objects import problems_of, problems_of_change

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
APPS = [
    ("deployments", apps_v1.Deployment, "ReplicaSet"),
    ("replicasets", apps_v1.ReplicaSet, "ReplicaSet"),
    ("statefulsets", apps_v1.StatefulSet, "StatefulSet"),
    ("daemonsets", apps_v1.DaemonSet, "DaemonSet"),
]


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
