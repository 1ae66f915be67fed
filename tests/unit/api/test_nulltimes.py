"""Metadata without a time of creation, in the form of releases until 1.33."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import apps_v1, batch_v1, core_v1
from cathedra.api.nulltimes import as_shown, with_null_times
from cathedra.api.resource import DeviceClass, ResourceClaimTemplate
from cathedra.api.struct import KubeStruct, from_dict, to_dict
from cathedra.releases import FeatureGates

BORN = {"creationTimestamp": "2020-01-01T00:00:00Z"}
NOT_YET = {"creationTimestamp": None}


@pytest.mark.parametrize(
    ("kind", "given", "path"),
    [
        (ResourceClaimTemplate, {"spec": {}}, ("spec", "metadata")),
        (apps_v1.Deployment, {"spec": {"template": {}}}, ("spec", "template", "metadata")),
        (
            apps_v1.StatefulSet,
            {"spec": {"volumeClaimTemplates": [{}]}},
            ("spec", "volumeClaimTemplates", 0, "metadata"),
        ),
        (batch_v1.CronJob, {"spec": {}}, ("spec", "jobTemplate", "spec", "template", "metadata")),
        (
            core_v1.Pod,
            {"spec": {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]}},
            ("spec", "volumes", 0, "ephemeral", "volumeClaimTemplate", "metadata"),
        ),
    ],
)
def test_templates_say_that_they_have_no_time(
    kind: type[KubeStruct], given: dict[str, Any], path: tuple[str | int, ...]
) -> None:
    shown: Any = to_dict(with_null_times(from_dict(kind, {"metadata": BORN, **given})))
    assert shown["metadata"] == BORN
    for step in path:
        shown = shown[step]
    assert shown == NOT_YET


def test_what_metadata_says_otherwise_stays() -> None:
    given = {"name": "n", "labels": {"a": "b"}, "finalizers": ["f"]}
    assert to_dict(with_null_times(from_dict(DeviceClass, {"metadata": given})))["metadata"] == given | NOT_YET


def test_an_object_that_has_its_times_is_itself() -> None:
    pod = from_dict(core_v1.Pod, {"metadata": BORN, "spec": {"volumes": [{"name": "v", "emptyDir": {}}]}})
    assert with_null_times(pod) is pod


def test_from_134_on_the_field_is_left_out() -> None:
    empty = DeviceClass()
    assert as_shown(empty, FeatureGates.for_release("1.34")) is empty
    assert to_dict(as_shown(empty, FeatureGates.for_release("1.33")))["metadata"] == NOT_YET
