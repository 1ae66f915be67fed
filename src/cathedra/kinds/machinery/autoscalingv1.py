"""Horizontal pod autoscalers in autoscaling/v1, which knows one number, the use of cpu: every other metric, behaviour
and condition is kept in annotations there, as Kubernetes keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from cathedra.api.core import autoscaling_v1 as v1
from cathedra.api.core import autoscaling_v2 as v2
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.nesting import load_json
from cathedra.api.quantity import Quantity
from cathedra.api.struct import KubeStruct, encode, from_dict, replace, reshape

__all__ = ["autoscaler_from_hub", "autoscaler_to_hub"]

K = TypeVar("K", bound=KubeStruct)
_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_METRICS: Final = f"{_PREFIX}metrics"
_CURRENT: Final = f"{_PREFIX}current-metrics"
_CONDITIONS: Final = f"{_PREFIX}conditions"
_BEHAVIOR: Final = f"{_PREFIX}behavior"
_OURS: Final = frozenset({_METRICS, _CURRENT, _CONDITIONS, _BEHAVIOR})
_ZERO: Final = Quantity("0")


def autoscaler_to_hub(scaler: v1.HorizontalPodAutoscaler) -> v2.HorizontalPodAutoscaler:
    """The autoscaler with everything that its annotations say; what they say badly is dropped."""
    said, spec, status = scaler.metadata.annotations, scaler.spec, scaler.status
    metrics = tuple(_spec_to_hub(one) for one in _list(said, _METRICS, v1.MetricSpec))
    if spec.target_cpu_utilization_percentage is not None:
        target = v2.MetricTarget(type="Utilization", average_utilization=spec.target_cpu_utilization_percentage)
        source = v2.ResourceMetricSource(name="cpu", target=target)
        metrics = (*metrics, v2.MetricSpec(type="Resource", resource=source))
    current = tuple(_status_to_hub(one) for one in _list(said, _CURRENT, v1.MetricStatus))
    if status.current_cpu_utilization_percentage is not None:
        value = v2.MetricValueStatus(average_utilization=status.current_cpu_utilization_percentage)
        now = v2.ResourceMetricStatus(name="cpu", current=value)
        current = (*current, v2.MetricStatus(type="Resource", resource=now))
    kept = {name: text for name, text in said.items() if name not in _OURS}
    return v2.HorizontalPodAutoscaler(
        metadata=replace(scaler.metadata, annotations=kept),
        spec=v2.HorizontalPodAutoscalerSpec(
            scale_target_ref=reshape(spec.scale_target_ref, v2.CrossVersionObjectReference),
            min_replicas=spec.min_replicas,
            max_replicas=spec.max_replicas,
            metrics=metrics,
            behavior=_one(said, _BEHAVIOR, v2.HorizontalPodAutoscalerBehavior),
        ),
        status=v2.HorizontalPodAutoscalerStatus(
            observed_generation=status.observed_generation,
            last_scale_time=status.last_scale_time,
            current_replicas=status.current_replicas,
            desired_replicas=status.desired_replicas,
            current_metrics=current,
            conditions=_list(said, _CONDITIONS, v2.HorizontalPodAutoscalerCondition),
        ),
    )


def autoscaler_from_hub(scaler: v2.HorizontalPodAutoscaler) -> v1.HorizontalPodAutoscaler:
    """The autoscaler with the use of cpu as a number, and the rest in annotations."""
    spec, status = scaler.spec, scaler.status
    wanted = used = None
    metrics: list[v1.MetricSpec] = []
    for metric in spec.metrics:
        source = metric.resource
        if source is not None and source.name == "cpu" and source.target.average_utilization is not None:
            wanted = source.target.average_utilization
        else:
            metrics.append(_spec_from_hub(metric))
    current: list[v1.MetricStatus] = []
    for one in status.current_metrics or ():
        now = one.resource
        if now is not None and now.name == "cpu" and now.current.average_utilization is not None:
            used = now.current.average_utilization
        else:
            current.append(_status_from_hub(one))
    added = {_METRICS: metrics, _CURRENT: current, _BEHAVIOR: spec.behavior, _CONDITIONS: status.conditions}
    return v1.HorizontalPodAutoscaler(
        metadata=_with_annotations(scaler.metadata, added),
        spec=v1.HorizontalPodAutoscalerSpec(
            scale_target_ref=reshape(spec.scale_target_ref, v1.CrossVersionObjectReference),
            min_replicas=spec.min_replicas,
            max_replicas=spec.max_replicas,
            target_cpu_utilization_percentage=wanted,
        ),
        status=v1.HorizontalPodAutoscalerStatus(
            observed_generation=status.observed_generation,
            last_scale_time=status.last_scale_time,
            current_replicas=status.current_replicas,
            desired_replicas=status.desired_replicas,
            current_cpu_utilization_percentage=used,
        ),
    )


def _with_annotations(metadata: ObjectMeta, added: Mapping[str, Any]) -> ObjectMeta:
    texts = {name: encode(value).decode() for name, value in added.items() if value}
    return replace(metadata, annotations={**metadata.annotations, **texts}) if texts else metadata


def _list(annotations: Mapping[str, str], name: str, kind: type[K]) -> tuple[K, ...]:
    """The elements that an annotation describes; nothing if it does not."""
    try:
        values: Any = load_json(annotations.get(name, "[]").encode())
        return tuple(from_dict(kind, value) for value in values) if isinstance(values, list) else ()
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError):
        return ()


def _one(annotations: Mapping[str, str], name: str, kind: type[K]) -> K | None:
    try:
        value: Any = load_json(annotations.get(name, "null").encode())
        return from_dict(kind, value) if isinstance(value, dict) else None
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError):
        return None


# Metrics, field by field: v1 has names and amounts side by side, v2 a metric and a target.


def _spec_to_hub(metric: v1.MetricSpec) -> v2.MetricSpec:
    parts: dict[str, Any] = {}
    if metric.object_ is not None:
        source = metric.object_
        target = v2.MetricTarget(type="Value", value=source.target_value)
        if source.average_value is not None:
            target = v2.MetricTarget(type="AverageValue", average_value=source.average_value)
        parts["object_"] = v2.ObjectMetricSource(
            described_object=reshape(source.target, v2.CrossVersionObjectReference),
            metric=v2.MetricIdentifier(name=source.metric_name, selector=source.selector),
            target=target,
        )
    if metric.pods is not None:
        parts["pods"] = v2.PodsMetricSource(
            metric=v2.MetricIdentifier(name=metric.pods.metric_name, selector=metric.pods.selector),
            target=v2.MetricTarget(type="AverageValue", average_value=metric.pods.target_average_value),
        )
    if metric.resource is not None:
        parts["resource"] = v2.ResourceMetricSource(name=metric.resource.name, target=_use(metric.resource))
    if metric.container_resource is not None:
        held = metric.container_resource
        parts["container_resource"] = v2.ContainerResourceMetricSource(
            name=held.name, container=held.container, target=_use(held)
        )
    if metric.external is not None:
        outside = metric.external
        kind = "Value" if outside.target_value is not None else "AverageValue"
        parts["external"] = v2.ExternalMetricSource(
            metric=v2.MetricIdentifier(name=outside.metric_name, selector=outside.metric_selector),
            target=v2.MetricTarget(type=kind, value=outside.target_value, average_value=outside.target_average_value),
        )
    return v2.MetricSpec(type=metric.type, **parts)


def _use(source: v1.ResourceMetricSource | v1.ContainerResourceMetricSource) -> v2.MetricTarget:
    kind = "Utilization" if source.target_average_utilization is not None else "AverageValue"
    return v2.MetricTarget(
        type=kind, average_utilization=source.target_average_utilization, average_value=source.target_average_value
    )


def _spec_from_hub(metric: v2.MetricSpec) -> v1.MetricSpec:
    parts: dict[str, Any] = {}
    if metric.object_ is not None:
        source = metric.object_
        parts["object_"] = v1.ObjectMetricSource(
            target=reshape(source.described_object, v1.CrossVersionObjectReference),
            metric_name=source.metric.name,
            selector=source.metric.selector,
            target_value=source.target.value or _ZERO,
            average_value=source.target.average_value,
        )
    if metric.pods is not None:
        parts["pods"] = v1.PodsMetricSource(
            metric_name=metric.pods.metric.name,
            selector=metric.pods.metric.selector,
            target_average_value=metric.pods.target.average_value or _ZERO,
        )
    if metric.resource is not None:
        target = metric.resource.target
        parts["resource"] = v1.ResourceMetricSource(
            name=metric.resource.name,
            target_average_utilization=target.average_utilization,
            target_average_value=target.average_value,
        )
    if metric.container_resource is not None:
        held = metric.container_resource
        parts["container_resource"] = v1.ContainerResourceMetricSource(
            name=held.name,
            container=held.container,
            target_average_utilization=held.target.average_utilization,
            target_average_value=held.target.average_value,
        )
    if metric.external is not None:
        outside = metric.external
        parts["external"] = v1.ExternalMetricSource(
            metric_name=outside.metric.name,
            metric_selector=outside.metric.selector,
            target_value=outside.target.value,
            target_average_value=outside.target.average_value,
        )
    return v1.MetricSpec(type=metric.type, **parts)


def _status_to_hub(metric: v1.MetricStatus) -> v2.MetricStatus:
    parts: dict[str, Any] = {}
    if metric.object_ is not None:
        now = metric.object_
        parts["object_"] = v2.ObjectMetricStatus(
            described_object=reshape(now.target, v2.CrossVersionObjectReference),
            metric=v2.MetricIdentifier(name=now.metric_name, selector=now.selector),
            current=v2.MetricValueStatus(value=now.current_value, average_value=now.average_value),
        )
    if metric.pods is not None:
        parts["pods"] = v2.PodsMetricStatus(
            metric=v2.MetricIdentifier(name=metric.pods.metric_name, selector=metric.pods.selector),
            current=v2.MetricValueStatus(average_value=metric.pods.current_average_value),
        )
    if metric.resource is not None:
        parts["resource"] = v2.ResourceMetricStatus(name=metric.resource.name, current=_used(metric.resource))
    if metric.container_resource is not None:
        held = metric.container_resource
        parts["container_resource"] = v2.ContainerResourceMetricStatus(
            name=held.name, container=held.container, current=_used(held)
        )
    if metric.external is not None:
        outside = metric.external
        parts["external"] = v2.ExternalMetricStatus(
            metric=v2.MetricIdentifier(name=outside.metric_name, selector=outside.metric_selector),
            current=v2.MetricValueStatus(value=outside.current_value, average_value=outside.current_average_value),
        )
    return v2.MetricStatus(type=metric.type, **parts)


def _used(status: v1.ResourceMetricStatus | v1.ContainerResourceMetricStatus) -> v2.MetricValueStatus:
    return v2.MetricValueStatus(
        average_utilization=status.current_average_utilization, average_value=status.current_average_value
    )


def _status_from_hub(metric: v2.MetricStatus) -> v1.MetricStatus:
    parts: dict[str, Any] = {}
    if metric.object_ is not None:
        now = metric.object_
        parts["object_"] = v1.ObjectMetricStatus(
            target=reshape(now.described_object, v1.CrossVersionObjectReference),
            metric_name=now.metric.name,
            selector=now.metric.selector,
            current_value=now.current.value or _ZERO,
            average_value=now.current.average_value,
        )
    if metric.pods is not None:
        parts["pods"] = v1.PodsMetricStatus(
            metric_name=metric.pods.metric.name,
            selector=metric.pods.metric.selector,
            current_average_value=metric.pods.current.average_value or _ZERO,
        )
    if metric.resource is not None:
        used = metric.resource.current
        parts["resource"] = v1.ResourceMetricStatus(
            name=metric.resource.name,
            current_average_utilization=used.average_utilization,
            current_average_value=used.average_value or _ZERO,
        )
    if metric.container_resource is not None:
        held = metric.container_resource
        parts["container_resource"] = v1.ContainerResourceMetricStatus(
            name=held.name,
            container=held.container,
            current_average_utilization=held.current.average_utilization,
            current_average_value=held.current.average_value or _ZERO,
        )
    if metric.external is not None:
        outside = metric.external
        parts["external"] = v1.ExternalMetricStatus(
            metric_name=outside.metric.name,
            metric_selector=outside.metric.selector,
            current_value=outside.current.value or _ZERO,
            current_average_value=outside.current.average_value,
        )
    return v1.MetricStatus(type=metric.type, **parts)
