"""Rules of workloads and pod groups: how their pods are scheduled and which claims they share (docs/spec/api.md §6.4).

Kubernetes declares them as tags of the types, per version (k8s.io/api, scheduling/v1alpha2 and v1alpha3/types.go).
Only the status has a rule written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cathedra.api import formats
from cathedra.api.core import scheduling_v1alpha3
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check
from cathedra.kinds.conditions import validate_conditions
from cathedra.kinds.declarative import (
    FieldTags,
    TypeTags,
    label_key,
    long_name,
    maximum,
    minimum,
    one_of,
    path_segment,
    short_name,
)
from cathedra.releases import FeatureGates, behaviours

MAX_CLAIMS: Final = 4
MAX_TEMPLATES: Final = 8
MAX_DEPTH: Final = 4
"""Depth that the templates of a workload must not reach."""
HIGHEST_PRIORITY: Final = 1_000_000_000

_LONG_NAME: Final = FieldTags(checks=(long_name,))
_REQUIRED_LONG_NAME: Final = FieldTags(required=True, checks=(long_name,))
_REQUIRED_SHORT_NAME: Final = FieldTags(required=True, checks=(short_name,))
_SEGMENT: Final = FieldTags(required=True, checks=(path_segment,))
_MIN_COUNT: Final = FieldTags(required=True, checks=(minimum(1),))
_CLAIM: Final = TypeTags(
    {"name": _REQUIRED_SHORT_NAME, "resourceClaimName": _LONG_NAME, "resourceClaimTemplateName": _LONG_NAME},
    union=("resourceClaimName", "resourceClaimTemplateName"),
)
_CLAIMS: Final = FieldTags(max_items=MAX_CLAIMS, unique=("name",), of=_CLAIM)
_FIXED_CLAIMS: Final = FieldTags(max_items=MAX_CLAIMS, unique=("name",), of=_CLAIM, immutable=True)
_CONTROLLER: Final = FieldTags(
    immutable=True, of=TypeTags({"apiGroup": _LONG_NAME, "kind": _SEGMENT, "name": _SEGMENT})
)
_CONSTRAINTS: Final = FieldTags(
    immutable=True,
    of=TypeTags(
        {"topology": FieldTags(max_items=1, of=TypeTags({"key": FieldTags(required=True, checks=(label_key,))}))}
    ),
)
_PRIORITY_CLASS: Final = FieldTags(immutable=True, checks=(long_name,))
_PRIORITY: Final = FieldTags(immutable=True, checks=(maximum(HIGHEST_PRIORITY),))

# --- v1alpha3, and v1beta1, which has the same types

_POLICY: Final = FieldTags(
    of=TypeTags(
        {
            "basic": FieldTags(immutable=True),
            "gang": FieldTags(settled=True, of=TypeTags({"minCount": _MIN_COUNT})),
        },
        union=("basic", "gang"),
    )
)
_MODE: Final = FieldTags(immutable=True, of=TypeTags(union=("single", "all")))
# A field with a default is optional to clients and required afterwards.
_DEFAULTED_MODE: Final = FieldTags(required=True, immutable=True, of=TypeTags(union=("single", "all")))
_PREEMPTION: Final = FieldTags(immutable=True, checks=(one_of("Never", "PreemptLowerPriority"),))
_TEMPLATE: Final = TypeTags(
    {
        "name": _REQUIRED_SHORT_NAME,
        "schedulingPolicy": _POLICY,
        "schedulingConstraints": _CONSTRAINTS,
        "resourceClaims": _FIXED_CLAIMS,
        "disruptionMode": _MODE,
        "priorityClassName": _PRIORITY_CLASS,
        "priority": _PRIORITY,
        "preemptionPolicy": _PREEMPTION,
    }
)
_TEMPLATES: Final = FieldTags(max_items=MAX_TEMPLATES, unique=("name",), of=_TEMPLATE, fixed_items=True)


def _composite_templates() -> FieldTags:
    fields: dict[str, FieldTags] = {
        "name": _REQUIRED_SHORT_NAME,
        "schedulingPolicy": FieldTags(of=_COMPOSITE_POLICY),
        "schedulingConstraints": _CONSTRAINTS,
        "disruptionMode": _MODE,
        "priorityClassName": _PRIORITY_CLASS,
        "priority": _PRIORITY,
        "preemptionPolicy": _PREEMPTION,
        "podGroupTemplates": _TEMPLATES,
    }
    found = FieldTags(max_items=MAX_TEMPLATES, unique=("name",), of=TypeTags(fields), fixed_items=True)
    # A template of groups has further templates of groups below it.
    fields["compositePodGroupTemplates"] = found
    return found


_GROUP_COUNT: Final = {"gang": FieldTags(settled=True, of=TypeTags({"minGroupCount": _MIN_COUNT}))}
_COMPOSITE_POLICY: Final = TypeTags({"basic": FieldTags(immutable=True), **_GROUP_COUNT}, union=("basic", "gang"))
_COMPOSITE_TEMPLATES: Final = _composite_templates()
_WORKLOAD: Final = TypeTags(
    {
        "spec": FieldTags(
            of=TypeTags(
                {
                    "controllerRef": _CONTROLLER,
                    "podGroupTemplates": _TEMPLATES,
                    "compositePodGroupTemplates": _COMPOSITE_TEMPLATES,
                },
                union=("podGroupTemplates", "compositePodGroupTemplates"),
            )
        )
    }
)
_POD_GROUP: Final = TypeTags(
    {
        "spec": FieldTags(
            of=TypeTags(
                {
                    "workloadRef": FieldTags(
                        immutable=True,
                        of=TypeTags({"workloadName": _REQUIRED_LONG_NAME, "templateName": _REQUIRED_SHORT_NAME}),
                    ),
                    "schedulingPolicy": _POLICY,
                    "schedulingConstraints": _CONSTRAINTS,
                    "resourceClaims": _FIXED_CLAIMS,
                    "disruptionMode": _DEFAULTED_MODE,
                    "priorityClassName": _PRIORITY_CLASS,
                    "priority": _PRIORITY,
                    "preemptionPolicy": _PREEMPTION,
                }
            )
        )
    }
)


def _composite(policy: FieldTags) -> TypeTags:
    reference = TypeTags({"workloadName": _REQUIRED_LONG_NAME, "templateName": _REQUIRED_SHORT_NAME})
    spec = TypeTags(
        {
            "parentCompositePodGroupName": FieldTags(immutable=True, checks=(long_name,)),
            "workloadRef": FieldTags(required=True, immutable=True, of=reference),
            "schedulingPolicy": policy,
            "schedulingConstraints": _CONSTRAINTS,
            "disruptionMode": _DEFAULTED_MODE,
            "priorityClassName": _PRIORITY_CLASS,
            "priority": _PRIORITY,
            "preemptionPolicy": _PREEMPTION,
        }
    )
    return TypeTags({"spec": FieldTags(of=spec)})


_COMPOSITE: Final = _composite(FieldTags(of=_COMPOSITE_POLICY))
_FIXED_COMPOSITE: Final = _composite(FieldTags(immutable=True, of=_COMPOSITE_POLICY))


def composite_pod_group_tags(gates: FeatureGates) -> TypeTags:
    """Return the tags of CompositePodGroup in a release."""
    return _COMPOSITE if gates.has(behaviours.GROUP_COUNTS_CHANGE) else _FIXED_COMPOSITE


# --- v1alpha2, in which nothing of a template changes

_FIXED_POLICY: Final = TypeTags({"gang": FieldTags(of=TypeTags({"minCount": _MIN_COUNT}))}, union=("basic", "gang"))
_MODE_NAME: Final = FieldTags(immutable=True, checks=(one_of("Pod", "PodGroup"),))
_WORKLOAD_V1ALPHA2: Final = TypeTags(
    {
        "spec": FieldTags(
            of=TypeTags(
                {
                    "controllerRef": _CONTROLLER,
                    "podGroupTemplates": FieldTags(
                        required=True,
                        max_items=MAX_TEMPLATES,
                        unique=("name",),
                        immutable=True,
                        of=TypeTags(
                            {
                                "name": _REQUIRED_SHORT_NAME,
                                "schedulingPolicy": FieldTags(of=_FIXED_POLICY),
                                "schedulingConstraints": _CONSTRAINTS,
                                "resourceClaims": _CLAIMS,
                                "disruptionMode": _MODE_NAME,
                                "priorityClassName": _PRIORITY_CLASS,
                                "priority": _PRIORITY,
                            }
                        ),
                    ),
                }
            )
        )
    }
)
_POD_GROUP_V1ALPHA2: Final = TypeTags(
    {
        "spec": FieldTags(
            of=TypeTags(
                {
                    "podGroupTemplateRef": FieldTags(
                        immutable=True,
                        of=TypeTags(
                            {
                                "workload": FieldTags(
                                    of=TypeTags(
                                        {
                                            "workloadName": _REQUIRED_LONG_NAME,
                                            "podGroupTemplateName": _REQUIRED_SHORT_NAME,
                                        }
                                    )
                                )
                            },
                            union=("workload",),
                        ),
                    ),
                    "schedulingPolicy": FieldTags(immutable=True, of=_FIXED_POLICY),
                    "schedulingConstraints": _CONSTRAINTS,
                    "resourceClaims": _FIXED_CLAIMS,
                    "disruptionMode": _MODE_NAME,
                    "priorityClassName": _PRIORITY_CLASS,
                    "priority": _PRIORITY,
                }
            )
        )
    }
)

WORKLOAD_TAGS: Final = {"v1alpha2": _WORKLOAD_V1ALPHA2, "v1alpha3": _WORKLOAD, "v1beta1": _WORKLOAD}
"""Of Workload, by version."""
POD_GROUP_TAGS: Final = {"v1alpha2": _POD_GROUP_V1ALPHA2, "v1alpha3": _POD_GROUP, "v1beta1": _POD_GROUP}
"""Of PodGroup, by version."""


Template = scheduling_v1alpha3.PodGroupTemplate | scheduling_v1alpha3.CompositePodGroupTemplate


def validate_templates(spec: scheduling_v1alpha3.WorkloadSpec) -> ErrorList:
    """Return the errors of a workload's templates that no tag can express: names, depth, priorities and children."""
    errors = ErrorList()
    path = FieldPath("spec")
    composites = spec.composite_pod_group_templates
    _check_names(errors, path, composites, {template.name for template in spec.pod_group_templates})
    where = path.child("compositePodGroupTemplates")
    for position, template in enumerate(composites):
        if _depth(template) >= MAX_DEPTH:
            text = f"maximum template hierarchy depth is {MAX_DEPTH}"
            errors.invalid(where.index(position), template.composite_pod_group_templates, text)
    _check_priorities(errors, path, spec)
    _check_children(errors, where, composites)
    return errors


def _check_names(
    errors: ErrorList,
    path: FieldPath,
    composites: Sequence[scheduling_v1alpha3.CompositePodGroupTemplate],
    names: set[str],
) -> None:
    """Names are unique in the workload. Equal names within one list are reported by the tags."""
    where = path.child("compositePodGroupTemplates")
    _check_list(errors, where, composites, names)
    for position, template in enumerate(composites):
        below = where.index(position)
        _check_list(errors, below.child("podGroupTemplates"), template.pod_group_templates, names)
        _check_names(errors, below, template.composite_pod_group_templates, names)


def _check_list(errors: ErrorList, path: FieldPath, templates: Sequence[Template], names: set[str]) -> None:
    for position, template in enumerate(templates):
        if template.name in names:
            errors.duplicate(path.index(position).child("name"), template.name)
    names |= {template.name for template in templates}


def _depth(template: scheduling_v1alpha3.CompositePodGroupTemplate) -> int:
    return 1 + max(map(_depth, template.composite_pod_group_templates), default=0)


def _check_priorities(errors: ErrorList, path: FieldPath, spec: scheduling_v1alpha3.WorkloadSpec) -> None:
    flat = {(template.priority_class_name, template.priority) for template in spec.pod_group_templates}
    if len(flat) > 1:
        errors.invalid(path, None, "detected multiple priority configurations")
        return
    nested = {priority for template in spec.composite_pod_group_templates for priority in _priorities(template)}
    if len(flat | nested) > 1:
        text = "all priority and priorityClassName values must be identical, detected multiple values"
        errors.invalid(path, None, text)


def _priorities(template: scheduling_v1alpha3.CompositePodGroupTemplate) -> Iterator[tuple[str, int | None]]:
    yield template.priority_class_name, template.priority
    for group in template.pod_group_templates:
        yield group.priority_class_name, group.priority
    for below in template.composite_pod_group_templates:
        yield from _priorities(below)


def _check_children(
    errors: ErrorList, path: FieldPath, composites: Sequence[scheduling_v1alpha3.CompositePodGroupTemplate]
) -> None:
    for position, template in enumerate(composites):
        where = path.index(position)
        if not template.pod_group_templates and not template.composite_pod_group_templates:
            text = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
            errors.invalid(where, template.name, text)
        _check_children(errors, where.child("compositePodGroupTemplates"), template.composite_pod_group_templates)


def validate_pod_group_status(group: scheduling_v1alpha3.PodGroup, gates: FeatureGates) -> ErrorList:
    """Return the errors of a group's status."""
    errors = ErrorList()
    validate_conditions(errors, FieldPath("status").child("conditions"), group.status.conditions, gates)
    path = FieldPath("status").child("resourceClaimStatuses")
    statuses = group.status.resource_claim_statuses
    if len(statuses) > MAX_CLAIMS:
        errors.too_many(path, len(statuses), MAX_CLAIMS)
        return errors
    names = {claim.name for claim in group.spec.resource_claims}
    seen: set[str] = set()
    for position, status in enumerate(statuses):
        where = path.index(position)
        if status.name in seen:
            errors.duplicate(where, {"name": status.name})
        seen.add(status.name)
        if status.name not in names:
            errors.invalid(where.child("name"), status.name, "must match the name of an entry in `spec.resourceClaims`")
        if status.resource_claim_name is not None:
            check(errors, where.child("resourceClaimName"), status.resource_claim_name, formats.dns_subdomain)
    return errors


def validate_composite_status(new: scheduling_v1alpha3.CompositePodGroup, gates: FeatureGates) -> ErrorList:
    """Return the errors of the status of a group of groups."""
    errors = ErrorList()
    validate_conditions(errors, FieldPath("status").child("conditions"), new.status.conditions, gates)
    return errors
