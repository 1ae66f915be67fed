"""Fields of workloads and pod groups that closed gates take out.

A field stays in an update if the stored object uses it: otherwise the update of another field would remove it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from cathedra.api.core import scheduling_v1alpha3
from cathedra.api.struct import replace
from cathedra.releases import FeatureGates

G = TypeVar("G", scheduling_v1alpha3.PodGroupSpec, scheduling_v1alpha3.PodGroupTemplate)
Template = scheduling_v1alpha3.PodGroupTemplate | scheduling_v1alpha3.CompositePodGroupTemplate

_GROUP: Final[Mapping[str, tuple[str, Any]]] = {
    "parent_composite_pod_group_name": ("CompositePodGroup", None),
    "scheduling_constraints": ("TopologyAwareWorkloadScheduling", None),
    "resource_claims": ("DRAWorkloadResourceClaims", ()),
    "preemption_policy": ("PodGroupPreemptionPolicy", None),
}
"""Attribute of a group or its template → its gate and the empty value."""


def enabled_group_spec(
    spec: scheduling_v1alpha3.PodGroupSpec, old: scheduling_v1alpha3.PodGroupSpec | None, gates: FeatureGates
) -> scheduling_v1alpha3.PodGroupSpec:
    """Return the spec of a pod group without disabled fields."""
    return _without(spec, _closed([] if old is None else [old], gates))


def enabled_composite_spec(
    spec: scheduling_v1alpha3.CompositePodGroupSpec,
    old: scheduling_v1alpha3.CompositePodGroupSpec | None,
    gates: FeatureGates,
) -> scheduling_v1alpha3.CompositePodGroupSpec:
    """Return the spec of a group of groups without disabled fields. Its constraints have no gate of their own."""
    closed = _closed([] if old is None else [old], gates)
    return replace(spec, preemption_policy=None) if "preemption_policy" in closed else spec


def enabled_workload_spec(
    spec: scheduling_v1alpha3.WorkloadSpec, old: scheduling_v1alpha3.WorkloadSpec | None, gates: FeatureGates
) -> scheduling_v1alpha3.WorkloadSpec:
    """Return the spec of a workload without the disabled fields of its templates."""
    # One template in use keeps the field open for all templates of the workload. Kubernetes decides per object as well:
    # templates may be renamed or reordered in the update, so they cannot be paired.
    before = [] if old is None else list(_templates(old))
    closed = _closed(before, gates)
    groups = tuple(_without(template, closed) for template in spec.pod_group_templates)
    composites = tuple(_composite(template, closed) for template in spec.composite_pod_group_templates)
    if not gates["CompositePodGroup"] and not (old is not None and old.composite_pod_group_templates):
        composites = ()
    return replace(spec, pod_group_templates=groups, composite_pod_group_templates=composites)


def _templates(spec: scheduling_v1alpha3.WorkloadSpec) -> Iterator[Template]:
    yield from spec.pod_group_templates
    for composite in spec.composite_pod_group_templates:
        yield from _below(composite)


def _below(composite: scheduling_v1alpha3.CompositePodGroupTemplate) -> Iterator[Template]:
    yield composite
    yield from composite.pod_group_templates
    for inner in composite.composite_pod_group_templates:
        yield from _below(inner)


def _closed(before: list[Any], gates: FeatureGates) -> dict[str, Any]:
    """Return the attributes to be emptied, with their empty values. ``before`` are the stored specs or templates."""
    return {
        name: empty
        for name, (gate, empty) in _GROUP.items()
        if not gates[gate] and not any(getattr(one, name, None) for one in before)
    }


def _composite(
    template: scheduling_v1alpha3.CompositePodGroupTemplate, closed: Mapping[str, Any]
) -> scheduling_v1alpha3.CompositePodGroupTemplate:
    made = replace(
        template,
        pod_group_templates=tuple(_without(one, closed) for one in template.pod_group_templates),
        composite_pod_group_templates=tuple(_composite(one, closed) for one in template.composite_pod_group_templates),
    )
    return replace(made, preemption_policy=None) if "preemption_policy" in closed else made


def _without(of: G, closed: Mapping[str, Any]) -> G:
    changes = {name: empty for name, empty in closed.items() if getattr(of, name, None)}
    return replace(of, **changes) if changes else of
