"""HorizontalPodAutoscaler in autoscaling/v2 and v1. No controller of ours scales by it.

autoscaling/v1 has one metric, the utilization of cpu. Its conversion keeps all other metrics, the behaviour and the
conditions in annotations, as Kubernetes does (pkg/apis/autoscaling/v1/conversion.go).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace as with_fields

from cathedra.api.core import autoscaling_v1, autoscaling_v2
from cathedra.api.core import autoscaling_v1 as v1
from cathedra.api.core import autoscaling_v2 as v2
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check, path_segment
from cathedra.api.nesting import load_json
from cathedra.api.quantity import Quantity
from cathedra.api.struct import KubeStruct, encode, from_dict, replace, reshape
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.declarative import FieldTags, TypeTags, minimum
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import Column, ResourceDefinition, VersionDefinition
from cathedra.kinds.strategies import ObjectRules

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
    """Return the cells of a HorizontalPodAutoscaler."""
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
    """Return the first two metrics as text, and the number of the others; ``<none>`` if there are no metrics."""
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


def _autoscaler_errors(scaler: autoscaling_v2.HorizontalPodAutoscaler) -> ErrorList:
    errors, spec, path = ErrorList(), scaler.spec, FieldPath("spec")
    if 0 < spec.max_replicas < (spec.min_replicas or 0):
        text = "must be greater than or equal to `minReplicas`"
        errors.invalid(path.child("maxReplicas"), spec.max_replicas, text)
    target, where = spec.scale_target_ref, path.child("scaleTargetRef")
    for field, value in (("kind", target.kind), ("name", target.name)):
        if not value:
            errors.required(where.child(field))
        else:
            check(errors, where.child(field), value, path_segment)
    return errors


def autoscaler_definition() -> ResourceDefinition[autoscaling_v2.HorizontalPodAutoscaler]:
    """Return the definition of horizontalpodautoscalers."""
    defined = BuiltinKind(
        autoscaling_v2.HorizontalPodAutoscaler,
        "horizontalpodautoscalers",
        namespaced=True,
        default=default_autoscaler,
        rules=ObjectRules(_autoscaler_errors, lambda new, _: _autoscaler_errors(new), tags=AUTOSCALER_TAGS),
        table=(AUTOSCALER_COLUMNS, autoscaler_cells),
        short_names=("hpa",),
        categories=("all",),
    ).definition()
    older = VersionDefinition(
        "v1", autoscaling_v1.HorizontalPodAutoscaler, to_hub=autoscaler_to_hub, from_hub=autoscaler_from_hub
    )
    return with_fields(defined, versions=(*defined.versions, older))


K = TypeVar("K", bound=KubeStruct)
_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_METRICS: Final = f"{_PREFIX}metrics"
_CURRENT: Final = f"{_PREFIX}current-metrics"
_CONDITIONS: Final = f"{_PREFIX}conditions"
_BEHAVIOR: Final = f"{_PREFIX}behavior"
_OURS: Final = frozenset({_METRICS, _CURRENT, _CONDITIONS, _BEHAVIOR})
_ZERO: Final = Quantity("0")


def autoscaler_to_hub(scaler: v1.HorizontalPodAutoscaler) -> v2.HorizontalPodAutoscaler:
    """Convert an autoscaler of v1, with the values of its annotations. Malformed ones are dropped."""
    said, spec, status = scaler.metadata.annotations, scaler.spec, scaler.status
    metrics = tuple(_to_hub(one, _WANTED) for one in _list(said, _METRICS, v1.MetricSpec))
    if spec.target_cpu_utilization_percentage is not None:
        target = v2.MetricTarget(type="Utilization", average_utilization=spec.target_cpu_utilization_percentage)
        source = v2.ResourceMetricSource(name="cpu", target=target)
        # The cpu target is appended after the metrics of the annotation, as in Kubernetes. Reading the object in v1 and
        # writing it back therefore may reorder metrics, but never loses one.
        metrics = (*metrics, v2.MetricSpec(type="Resource", resource=source))
    current = tuple(_to_hub(one, _USED) for one in _list(said, _CURRENT, v1.MetricStatus))
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
            current_metrics=current or None,
            conditions=_list(said, _CONDITIONS, v2.HorizontalPodAutoscalerCondition),
        ),
    )


def autoscaler_from_hub(scaler: v2.HorizontalPodAutoscaler) -> v1.HorizontalPodAutoscaler:
    """Return the autoscaler with the use of cpu as a number, and the rest in annotations."""
    spec, status = scaler.spec, scaler.status
    wanted = used = None
    metrics: list[v1.MetricSpec] = []
    for metric in spec.metrics:
        source = metric.resource
        if source is not None and source.name == "cpu" and source.target.average_utilization is not None:
            wanted = source.target.average_utilization
        else:
            metrics.append(_from_hub(metric, _WANTED))
    current: list[v1.MetricStatus] = []
    for one in status.current_metrics or ():
        now = one.resource
        if now is not None and now.name == "cpu" and now.current.average_utilization is not None:
            used = now.current.average_utilization
        else:
            current.append(_from_hub(one, _USED))
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
    """Return the elements that an annotation describes; none if it cannot be decoded."""
    try:
        values: Any = load_json(annotations.get(name, "[]").encode())
        return tuple(from_dict(kind, value) for value in values) if isinstance(values, list) else ()
    # The annotation is user input of an old version. An error here would make the stored object unreadable in v2.
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError):
        return ()


def _one(annotations: Mapping[str, str], name: str, kind: type[K]) -> K | None:
    try:
        value: Any = load_json(annotations.get(name, "null").encode())
        return from_dict(kind, value) if isinstance(value, dict) else None
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError):
        return None


# Metrics: v1 has names and amounts side by side, v2 a metric and what is wanted or used of it.


class _Side(NamedTuple):
    """Target or current value of a metric."""

    word: str
    """Names the amounts in v2, and begins their names in v1."""
    older: type[Any]
    newer: type[Any]
    kinds: Mapping[str, tuple[type[KubeStruct], type[KubeStruct]]]
    """By field: a metric of that kind in v1 and in v2."""
    amounts: Callable[[str, Mapping[str, Any]], Any]
    """The amounts of a metric of some kind as v2 has them."""


def _target_v1(kind: str, amounts: Mapping[str, Any]) -> v2.MetricTarget:
    # v1 requires the value of object metrics and writes 0 where v2 has an average, so the average takes precedence.
    if kind == "object_" and amounts["average_value"] is not None:
        return v2.MetricTarget(type="AverageValue", average_value=amounts["average_value"])
    if amounts.get("average_utilization") is not None:
        return v2.MetricTarget(type="Utilization", **amounts)
    return v2.MetricTarget(type="AverageValue" if amounts.get("value") is None else "Value", **amounts)


def _value(kind: str, amounts: Mapping[str, Any]) -> v2.MetricValueStatus:
    return v2.MetricValueStatus(**amounts)


_WANTED: Final = _Side(
    "target",
    v1.MetricSpec,
    v2.MetricSpec,
    {
        "object_": (v1.ObjectMetricSource, v2.ObjectMetricSource),
        "pods": (v1.PodsMetricSource, v2.PodsMetricSource),
        "resource": (v1.ResourceMetricSource, v2.ResourceMetricSource),
        "container_resource": (v1.ContainerResourceMetricSource, v2.ContainerResourceMetricSource),
        "external": (v1.ExternalMetricSource, v2.ExternalMetricSource),
    },
    _target_v1,
)
_USED: Final = _Side(
    "current",
    v1.MetricStatus,
    v2.MetricStatus,
    {
        "object_": (v1.ObjectMetricStatus, v2.ObjectMetricStatus),
        "pods": (v1.PodsMetricStatus, v2.PodsMetricStatus),
        "resource": (v1.ResourceMetricStatus, v2.ResourceMetricStatus),
        "container_resource": (v1.ContainerResourceMetricStatus, v2.ContainerResourceMetricStatus),
        "external": (v1.ExternalMetricStatus, v2.ExternalMetricStatus),
    },
    _value,
)
_OF_USE: Final = {"average_utilization": "{}_average_utilization", "average_value": "{}_average_value"}
_AMOUNTS: Final[Mapping[str, Mapping[str, str]]] = {
    "object_": {"value": "{}_value", "average_value": "average_value"},
    "pods": {"average_value": "{}_average_value"},
    "resource": _OF_USE,
    "container_resource": _OF_USE,
    "external": {"value": "{}_value", "average_value": "{}_average_value"},
}
"""Kind → amount in v2 → its name in v1, behind the side's word."""
_SELECTORS: Final = {"object_": "selector", "pods": "selector", "external": "metric_selector"}
"""Fields of v1 that select a metric, for kinds with a name and a selector."""


def _to_hub(metric: Any, side: _Side) -> Any:
    parts = {}
    for kind, (_, newer) in side.kinds.items():
        source = getattr(metric, kind)
        if source is not None:
            amounts = {name: getattr(source, text.format(side.word)) for name, text in _AMOUNTS[kind].items()}
            parts[kind] = newer(**_what_to_hub(kind, source), **{side.word: side.amounts(kind, amounts)})
    return side.newer(type=metric.type, **parts)


def _what_to_hub(kind: str, source: Any) -> dict[str, Any]:
    if kind not in _SELECTORS:
        return _resource_of(kind, source)
    metric = v2.MetricIdentifier(name=source.metric_name, selector=getattr(source, _SELECTORS[kind]))
    if kind != "object_":
        return {"metric": metric}
    return {"metric": metric, "described_object": reshape(source.target, v2.CrossVersionObjectReference)}


def _from_hub(metric: Any, side: _Side) -> Any:
    parts = {}
    for kind, (older, _) in side.kinds.items():
        source = getattr(metric, kind)
        if source is not None:
            amounts = getattr(source, side.word)
            given = {text.format(side.word): getattr(amounts, name) for name, text in _AMOUNTS[kind].items()}
            # v1 has no pointer for these amounts. Without the zero the struct of v1 could not be built.
            missing = {name: _ZERO for name in _required(older) if given.get(name) is None}
            parts[kind] = older(**_what_from_hub(kind, source), **given | missing)
    return side.older(type=metric.type, **parts)


def _what_from_hub(kind: str, source: Any) -> dict[str, Any]:
    if kind not in _SELECTORS:
        return _resource_of(kind, source)
    what = {"metric_name": source.metric.name, _SELECTORS[kind]: source.metric.selector}
    if kind == "object_":
        what["target"] = reshape(source.described_object, v1.CrossVersionObjectReference)
    return what


def _resource_of(kind: str, source: Any) -> dict[str, Any]:
    return {"name": source.name, "container": source.container} if "container" in kind else {"name": source.name}


# Reflection over the fields of a struct is slow; there are ten of these types, and they never change.
@cache
def _required(kind: type[KubeStruct]) -> tuple[str, ...]:
    """Return the names of the amounts that v1 cannot leave out."""
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.type is Quantity)
