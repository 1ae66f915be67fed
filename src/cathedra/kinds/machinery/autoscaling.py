"""Horizontal pod autoscalers: kept for the sake of manifests and of the autoscaler of another control plane."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace as with_fields

from cathedra.api.core import autoscaling_v1, autoscaling_v2
from cathedra.api.struct import replace
from cathedra.kinds.builtin import builtin
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.declarative.formats import minimum
from cathedra.kinds.declarative.tags import FieldTags, TypeTags
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import Column, ResourceDefinition, VersionDefinition
from cathedra.kinds.machinery.autoscalingv1 import autoscaler_from_hub, autoscaler_to_hub
from cathedra.kinds.strategies import ObjectRules

__all__ = ["autoscaler_cells", "autoscaler_definition", "default_autoscaler"]

_MOST: Final = FieldTags(required=True, checks=(minimum(1),))
AUTOSCALER_TAGS: Final = TypeTags({"spec": FieldTags(of=TypeTags({"maxReplicas": _MOST}))})
AUTOSCALER_COLUMNS: Final = (
    NAME,
    Column("Reference", description="What is scaled."),
    Column("Targets", description="What is measured, and what it should be."),
    Column("MinPods", description="Pods at least."),
    Column("MaxPods", type="integer", description="Pods at most."),
    Column("Replicas", type="integer", description="Pods now."),
    AGE,
)
_MOST_TARGETS: Final = 2


def default_autoscaler(scaler: autoscaling_v2.HorizontalPodAutoscaler) -> autoscaling_v2.HorizontalPodAutoscaler:
    """At least one pod, by four fifths of the requested cpu."""
    spec = scaler.spec
    changes: dict[str, Any] = absent(spec, min_replicas=1)
    if not spec.metrics:
        target = autoscaling_v2.MetricTarget(type="Utilization", average_utilization=80)
        source = autoscaling_v2.ResourceMetricSource(name="cpu", target=target)
        changes["metrics"] = (autoscaling_v2.MetricSpec(type="Resource", resource=source),)
    return replace(scaler, spec=replace(spec, **changes)) if changes else scaler


def autoscaler_cells(scaler: autoscaling_v2.HorizontalPodAutoscaler, now: float) -> list[Any]:
    """Cells of a HorizontalPodAutoscaler."""
    spec = scaler.spec
    return [
        scaler.metadata.name,
        f"{spec.scale_target_ref.kind}/{spec.scale_target_ref.name}",
        _targets(scaler),
        "<unset>" if spec.min_replicas is None else str(spec.min_replicas),
        spec.max_replicas,
        scaler.status.current_replicas,
        age(scaler.metadata.creation_timestamp, now),
    ]


def _targets(scaler: autoscaling_v2.HorizontalPodAutoscaler) -> str:
    """The first two metrics; those besides are counted."""
    metrics, current = scaler.spec.metrics, scaler.status.current_metrics or ()
    shown = [_target(metric, current[i] if i < len(current) else None) for i, metric in enumerate(metrics)]
    if not shown:
        return "<none>"
    more = len(shown) - _MOST_TARGETS
    text = ", ".join(shown[:_MOST_TARGETS])
    return f"{text} + {more} more..." if more > 0 else text


def _target(metric: autoscaling_v2.MetricSpec, status: autoscaling_v2.MetricStatus | None) -> str:
    if metric.type == "Resource" and metric.resource is not None:
        now = status.resource.current if status is not None and status.resource is not None else None
        return _resource(metric.resource.name, metric.resource.target, now)
    if metric.type == "ContainerResource" and metric.container_resource is not None:
        held = status.container_resource if status is not None else None
        now = held.current if held is not None else None
        return _resource(metric.container_resource.name, metric.container_resource.target, now)
    source = metric.pods or metric.object_ or metric.external
    if source is None:
        return "<unknown type>"
    last = (status.pods or status.object_ or status.external) if status is not None else None
    average = "" if metric.pods is not None else " (avg)"
    if source.target.average_value is not None:
        known = None if last is None else last.current.average_value
        return f"{'<unknown>' if known is None else known}/{source.target.average_value}{average}"
    known = None if last is None else last.current.value
    return f"{'<unknown>' if known is None else known}/{source.target.value}"


def _resource(name: str, target: autoscaling_v2.MetricTarget, current: autoscaling_v2.MetricValueStatus | None) -> str:
    if target.average_value is not None:
        now = "<unknown>" if current is None or current.average_value is None else str(current.average_value)
        return f"{name}: {now}/{target.average_value}"
    utilization = current.average_utilization if current is not None else None
    now = "<unknown>" if utilization is None else f"{utilization}%"
    wanted = "<auto>" if target.average_utilization is None else f"{target.average_utilization}%"
    return f"{name}: {now}/{wanted}"


def autoscaler_definition() -> ResourceDefinition[autoscaling_v2.HorizontalPodAutoscaler]:
    """The definition of horizontalpodautoscalers."""
    defined = builtin(
        autoscaling_v2.HorizontalPodAutoscaler,
        "horizontalpodautoscalers",
        namespaced=True,
        default=default_autoscaler,
        rules=ObjectRules(tags=AUTOSCALER_TAGS),
        table=(AUTOSCALER_COLUMNS, autoscaler_cells),
        short_names=("hpa",),
        categories=("all",),
    )
    older = VersionDefinition(
        "v1", autoscaling_v1.HorizontalPodAutoscaler, to_hub=autoscaler_to_hub, from_hub=autoscaler_from_hub
    )
    return with_fields(defined, versions=(*defined.versions, older))
