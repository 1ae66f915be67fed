"""DaemonSets."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import apps_v1
from cathedra.api.struct import from_dict, replace, to_dict
from cathedra.kinds.apps.daemonsets import TEMPLATE_GENERATION
from tests.unit.kinds.objects import context, created, defaulted, definition_of, problems_of, row, texts, updated

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
DEFINITION = definition_of("daemonsets")
SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}


def test_a_daemon_set_rolls_one_node_at_a_time_and_keeps_ten_revisions() -> None:
    spec = to_dict(defaulted("daemonsets", from_dict(apps_v1.DaemonSet, {"spec": SELECTED})))["spec"]
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    assert spec["revisionHistoryLimit"] == 10


def test_a_daemon_set_that_is_updated_by_deletion_does_not_roll() -> None:
    made = defaulted("daemonsets", from_dict(apps_v1.DaemonSet, {"spec": {"updateStrategy": {"type": "OnDelete"}}}))
    assert made.spec.update_strategy.rolling_update is None


def test_changes_of_the_template_are_counted_in_an_annotation() -> None:
    """apps/v1 shows the internal field templateGeneration so; clients cannot change it."""
    strategy, status = DEFINITION.strategy, DEFINITION.subresources["status"]
    first, _ = created(strategy, from_dict(apps_v1.DaemonSet, {"spec": SELECTED}), context())
    assert first.metadata.annotations == {TEMPLATE_GENERATION: "1"}
    other = {**SELECTED, "template": {**TEMPLATE, "spec": {"containers": [{"name": "c", "image": "other"}]}}}
    second, _ = updated(strategy, from_dict(apps_v1.DaemonSet, {"spec": other}), first, context())
    assert second.metadata.annotations == {TEMPLATE_GENERATION: "2"}
    written = replace(second, metadata=replace(second.metadata, annotations={TEMPLATE_GENERATION: "7"}))
    assert updated(strategy, written, second, context())[0].metadata.annotations == {TEMPLATE_GENERATION: "2"}
    assert updated(status, written, second, context())[0].metadata.annotations == {TEMPLATE_GENERATION: "2"}


def test_counts_of_a_status_are_not_negative_and_collisions_never_decrease() -> None:
    status = DEFINITION.subresources["status"]
    old = from_dict(apps_v1.DaemonSet, {"spec": SELECTED, "status": {"collisionCount": 3}})
    new = replace(old, status=replace(old.status, number_ready=-1, collision_count=2))
    assert texts(updated(status, new, old, context())[1]) == [
        "status.numberReady: Invalid value: -1: must be greater than or equal to 0",
        "status.collisionCount: Invalid value: 2: cannot be decremented",
    ]


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"minReadySeconds": -1}, "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"revisionHistoryLimit": -1},
            "spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            {"updateStrategy": {"type": "Recreate"}},
            'spec.updateStrategy: Unsupported value: {"Type":"Recreate","RollingUpdate":null}: supported values: '
            '"RollingUpdate", "OnDelete"',
        ),
        (
            {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "a few"}}},
            'spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "a few": ',
        ),
        (
            {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": -1}}},
            "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: -1: ",
        ),
    ],
)
def test_a_daemon_set_is_checked(spec: dict[str, Any], wanted: str) -> None:
    (text,) = problems_of("daemonsets", apps_v1.DaemonSet, {"spec": {**SELECTED, **spec}})
    assert text.startswith(wanted)


def test_a_row_counts_nodes_and_names_the_labels_they_need() -> None:
    status = {
        "desiredNumberScheduled": 5,
        "currentNumberScheduled": 4,
        "numberReady": 3,
        "updatedNumberScheduled": 2,
        "numberAvailable": 1,
    }
    selective = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelector": {"z": "1", "gpu": "yes"}}}
    values = {"metadata": {"name": "d"}, "spec": {**SELECTED, "template": selective}, "status": status}
    found = row("daemonsets", from_dict(apps_v1.DaemonSet, values))
    assert [found[name] for name in ("Desired", "Current", "Ready", "Up-to-date", "Available")] == [5, 4, 3, 2, 1]
    assert (found["Node Selector"], found["Selector"], found["Images"]) == ("gpu=yes,z=1", "a=b", "i")
    assert row("daemonsets", apps_v1.DaemonSet())["Node Selector"] == "<none>"
