"""ReplicaSets."""

from __future__ import annotations

import pytest

from cathedra.api.core import apps_v1
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import defaulted, definition_of, problems_of, row

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}


@pytest.mark.parametrize(("written", "replicas"), [({}, 1), ({"replicas": 0}, 0), ({"replicas": 3}, 3)])
def test_a_replica_set_is_one_pod_unless_it_says_how_many(written: dict[str, int], replicas: int) -> None:
    made = defaulted("replicasets", from_dict(apps_v1.ReplicaSet, {"spec": {**SELECTED, **written}}))
    assert (made.spec.replicas, made.metadata.labels) == (replicas, {})


@pytest.mark.parametrize("field", ["replicas", "minReadySeconds"])
def test_numbers_are_not_negative(field: str) -> None:
    assert problems_of("replicasets", apps_v1.ReplicaSet, {"spec": {**SELECTED, field: -1}}) == [
        f"spec.{field}: Invalid value: -1: must be greater than or equal to 0"
    ]


def test_an_empty_selector_is_refused_in_the_words_of_deployments() -> None:
    """Kubernetes' own message names the wrong kind."""
    assert problems_of("replicasets", apps_v1.ReplicaSet, {"spec": {**SELECTED, "selector": {}}}) == [
        "spec.selector: Invalid value: {}: empty selector is invalid for deployment",
    ]


def test_a_row_shows_what_is_wanted_what_is_there_and_what_is_ready() -> None:
    values = {"spec": {**SELECTED, "replicas": 3}, "status": {"replicas": 2, "readyReplicas": 1}}
    found = row("replicasets", from_dict(apps_v1.ReplicaSet, values))
    assert (found["Desired"], found["Current"], found["Ready"]) == (3, 2, 1)


def test_replica_sets_are_selected_by_the_pods_they_have() -> None:
    made = from_dict(apps_v1.ReplicaSet, {"status": {"replicas": 2}})
    assert definition_of("replicasets").field_selectors["status.replicas"](made) == "2"
