"""Horizontal pod autoscalers: defaults and rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cathedra.api.core import autoscaling_v1 as v1
from cathedra.api.core import autoscaling_v2 as v2
from cathedra.api.core.autoscaling_v2 import HorizontalPodAutoscaler
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import from_dict
from cathedra.kinds.machinery.autoscaling import autoscaler_from_hub, autoscaler_to_hub, default_autoscaler
from tests.unit.kinds.objects import row


def scaler(*metrics: dict[str, Any], **status: Any) -> HorizontalPodAutoscaler:
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 5, "metrics": list(metrics)}
    return from_dict(HorizontalPodAutoscaler, {"metadata": {"name": "h"}, "spec": spec, "status": status})


def resource(name: str, utilization: int) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": utilization}
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def test_without_metrics_four_fifths_of_the_cpu_are_wanted() -> None:
    spec = default_autoscaler(scaler()).spec
    assert spec.min_replicas == 1
    assert spec.metrics[0].resource is not None
    assert (spec.metrics[0].resource.name, spec.metrics[0].resource.target.average_utilization) == ("cpu", 80)


PODS = {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "10"}}}
EXTERNAL = {
    "type": "External",
    "external": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}


@pytest.mark.parametrize(
    ("metrics", "shown"),
    [
        ([], "<none>"),
        ([resource("cpu", 80)], "cpu: <unknown>/80%"),
        ([PODS], "<unknown>/10"),
        ([EXTERNAL], "<unknown>/10 (avg)"),
        ([PODS, PODS, resource("memory", 50)], "<unknown>/10, <unknown>/10 + 1 more..."),
        ([{"type": "Else"}], "<unknown type>"),
    ],
)
def test_a_row_shows_what_is_measured(metrics: list[dict[str, Any]], shown: str) -> None:
    found = row("horizontalpodautoscalers", scaler(*metrics))
    assert (found["Reference"], found["Targets"]) == ("Deployment/web", shown)


def test_a_row_shows_what_was_measured_last() -> None:
    current = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 42}}}
    found = row("horizontalpodautoscalers", scaler(resource("cpu", 80), currentMetrics=[current], currentReplicas=3))
    assert (found["Targets"], found["Replicas"], found["MinPods"]) == ("cpu: 42%/80%", 3, "<unset>")


PREFIX = "autoscaling.alpha.kubernetes.io/"
TARGET = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}


def cpu(percent: int) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


METRICS: list[dict[str, Any]] = [
    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
    {
        "type": "Pods",
        "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "5"}},
    },
    {
        "type": "Object",
        "object": {
            "describedObject": {"kind": "Ingress", "name": "i"},
            "metric": {"name": "hits", "selector": {"matchLabels": {"a": "b"}}},
            "target": {"type": "Value", "value": "10"},
        },
    },
    {"type": "External", "external": {"metric": {"name": "lag"}, "target": {"type": "Value", "value": "7"}}},
    {
        "type": "ContainerResource",
        "containerResource": {
            "name": "cpu",
            "container": "c",
            "target": {"type": "Utilization", "averageUtilization": 50},
        },
    },
]


def scaler_of_autoscalingv1(*metrics: dict[str, Any], **more: Any) -> v2.HorizontalPodAutoscaler:
    spec = {"scaleTargetRef": TARGET, "minReplicas": 2, "maxReplicas": 9, "metrics": list(metrics), **more}
    return from_dict(v2.HorizontalPodAutoscaler, {"metadata": {"name": "h"}, "spec": spec, "status": STATUS})


STATUS: dict[str, Any] = {"currentReplicas": 3, "desiredReplicas": 4}


def test_the_use_of_cpu_is_a_number() -> None:
    found = autoscaler_from_hub(scaler_of_autoscalingv1(cpu(70)))
    assert (found.spec.target_cpu_utilization_percentage, found.spec.min_replicas) == (70, 2)
    assert found.spec.scale_target_ref.name == "web"
    assert not found.metadata.annotations
    assert (found.status.current_replicas, found.status.desired_replicas) == (3, 4)


def test_other_metrics_are_an_annotation_in_the_form_of_v1() -> None:
    found = autoscaler_from_hub(scaler_of_autoscalingv1(METRICS[0], cpu(70)))
    assert json.loads(found.metadata.annotations[f"{PREFIX}metrics"]) == [
        {"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}}
    ]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: str(metric["type"]))
def test_every_metric_comes_back(metric: dict[str, Any]) -> None:
    given = scaler_of_autoscalingv1(metric, cpu(70), behavior={"scaleDown": {"stabilizationWindowSeconds": 5}})
    assert autoscaler_to_hub(autoscaler_from_hub(given)) == given


def test_status_and_conditions_come_back() -> None:
    status = {
        **STATUS,
        "currentMetrics": [
            {"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "5Mi"}}},
            {"type": "Pods", "pods": {"metric": {"name": "rps"}, "current": {"averageValue": "3"}}},
            {
                "type": "Object",
                "object": {
                    "describedObject": {"kind": "Ingress", "name": "i"},
                    "metric": {"name": "hits"},
                    "current": {"value": "4"},
                },
            },
            {"type": "External", "external": {"metric": {"name": "lag"}, "current": {"value": "1"}}},
            {
                "type": "ContainerResource",
                "containerResource": {
                    "name": "cpu",
                    "container": "c",
                    "current": {"averageValue": "1", "averageUtilization": 4},
                },
            },
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 33}}},
        ],
        "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }
    given = from_dict(
        v2.HorizontalPodAutoscaler,
        {"metadata": {"name": "h"}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 9}, "status": status},
    )
    older = autoscaler_from_hub(given)
    assert older.status.current_cpu_utilization_percentage == 33
    assert set(older.metadata.annotations) == {f"{PREFIX}current-metrics", f"{PREFIX}conditions"}
    assert autoscaler_to_hub(older) == given


@pytest.mark.parametrize("text", ["nonsense", "{}", '[{"type": 5}]', "[" * 5000])
def test_annotations_that_say_nothing_are_dropped(text: str) -> None:
    annotations = {f"{PREFIX}metrics": text, f"{PREFIX}behavior": text, "mine": "kept"}
    given = v1.HorizontalPodAutoscaler(metadata=ObjectMeta(name="h", annotations=annotations))
    found = autoscaler_to_hub(given)
    assert found.spec.metrics == ()
    assert found.spec.behavior is None or found.spec.behavior == v2.HorizontalPodAutoscalerBehavior()
    assert found.metadata.annotations == {"mine": "kept"}
