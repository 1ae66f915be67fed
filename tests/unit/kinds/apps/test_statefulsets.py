"""StatefulSets."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import apps_v1
from cathedra.api.struct import from_dict, to_dict
from cathedra.kinds.apps.statefulsets import stateful_set_definition
from cathedra.kinds.definition import RequestContext
from cathedra.releases import FeatureGates
from tests.unit.kinds.objects import defaulted, problems_of, problems_of_change, row

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}


def test_a_stateful_set_starts_and_rolls_in_order_and_keeps_its_volumes() -> None:
    spec = to_dict(defaulted("statefulsets", from_dict(apps_v1.StatefulSet, {"spec": SELECTED})))["spec"]
    assert (spec["replicas"], spec["podManagementPolicy"], spec["revisionHistoryLimit"]) == (1, "OrderedReady", 10)
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "partition": 0}}
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}


def test_what_its_author_says_stays() -> None:
    written = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}, "podManagementPolicy": "Parallel"}
    made = defaulted("statefulsets", from_dict(apps_v1.StatefulSet, {"spec": written}))
    retention = made.spec.persistent_volume_claim_retention_policy
    assert (retention.when_deleted, retention.when_scaled) == ("Delete", "Retain")
    assert made.spec.pod_management_policy == "Parallel"


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (
            {"podManagementPolicy": "Sometimes"},
            "spec.podManagementPolicy: Invalid value: \"Sometimes\": must be 'OrderedReady' or 'Parallel'",
        ),
        ({"updateStrategy": {"type": "Recreate"}}, "spec.updateStrategy: Invalid value: "),
        (
            {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
            "spec.updateStrategy.rollingUpdate: Invalid value: ",
        ),
        (
            {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}},
            "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0",
        ),
        (
            {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "101%"}}},
            'spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%',
        ),
        (
            {"updateStrategy": {"rollingUpdate": {"partition": -1}}},
            "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Archive"}},
            'spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Archive": supported values: ',
        ),
        ({"ordinals": {"start": -1}}, "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"),
        ({"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        ({"minReadySeconds": -1}, "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"),
    ],
)
def test_a_stateful_set_is_checked(spec: dict[str, Any], wanted: str) -> None:
    (text,) = problems_of("statefulsets", apps_v1.StatefulSet, {"spec": {**SELECTED, **spec}})
    assert text.startswith(wanted)


@pytest.mark.parametrize(
    ("change", "accepted"),
    [
        ({"replicas": 2}, True),
        ({"ordinals": {"start": 1}}, True),
        ({"updateStrategy": {"type": "OnDelete"}}, True),
        ({"revisionHistoryLimit": 1}, True),
        ({"minReadySeconds": 1}, True),
        ({"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}, True),
        ({"serviceName": "other"}, False),
        ({"podManagementPolicy": "Parallel"}, False),
        ({"volumeClaimTemplates": [{"metadata": {"name": "v"}}]}, False),
    ],
)
def test_little_of_a_stateful_set_changes(change: dict[str, Any], accepted: bool) -> None:
    found = problems_of_change(
        "statefulsets", apps_v1.StatefulSet, {"spec": SELECTED}, {"spec": {**SELECTED, **change}}
    )
    assert found == (
        []
        if accepted
        else [
            "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
            "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' "
            "are forbidden"
        ]
    )


def test_a_row_shows_how_many_of_those_wanted_are_ready() -> None:
    values = {"spec": {**SELECTED, "replicas": 3}, "status": {"readyReplicas": 2}}
    assert row("statefulsets", from_dict(apps_v1.StatefulSet, values))["Ready"] == "2/3"
    assert row("statefulsets", apps_v1.StatefulSet())["Ready"] == "0/0"


@pytest.mark.parametrize(("release", "kept"), [("1.34", None), ("1.36", None), ("1.37", 2)])
def test_how_many_may_be_unavailable_is_dropped_where_it_means_nothing(release: str, kept: int | None) -> None:
    context = RequestContext(FeatureGates.for_release(release), 0.0)
    strategy = stateful_set_definition().strategy
    written: dict[str, Any] = {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}
    made = strategy.prepare_create(from_dict(apps_v1.StatefulSet, {"spec": {**SELECTED, **written}}), context)
    assert made.spec.update_strategy.rolling_update is not None
    assert made.spec.update_strategy.rolling_update.max_unavailable == kept
    changed = strategy.prepare_update(from_dict(apps_v1.StatefulSet, {"spec": {**SELECTED, **written}}), made, context)
    assert changed.spec.update_strategy == made.spec.update_strategy
