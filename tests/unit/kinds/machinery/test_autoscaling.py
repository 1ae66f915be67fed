"""Horizontal pod autoscalers: defaults and rows."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.autoscaling_v2 import HorizontalPodAutoscaler
from cathedra.api.struct import from_dict
from cathedra.kinds.machinery.autoscaling import default_autoscaler
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
