"""Rules of workloads and pod groups: how their pods are scheduled and which claims they share (docs/spec/api.md §6.4).

Kubernetes declares them as tags of the types, per version (k8s.io/api, scheduling/v1alpha2 and v1alpha3/types.go).
Only the status has a rule written by hand.
"""

from __future__ import annotations

from typing import Final

from cathedra.api import formats
from cathedra.api.core import scheduling_v1alpha3
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check
from cathedra.kinds.declarative.formats import (
    label_key,
    long_name,
    maximum,
    minimum,
    one_of,
    path_segment,
    short_name,
)
from cathedra.kinds.declarative.tags import FieldTags, TypeTags
from cathedra.releases import FeatureGates, behaviours

MAX_CLAIMS: Final = 4
MAX_TEMPLATES: Final = 8
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
_WORKLOAD: Final = TypeTags(
    {
        "spec": FieldTags(
            of=TypeTags(
                {"controllerRef": _CONTROLLER, "podGroupTemplates": _TEMPLATES},
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

_GROUP_COUNT: Final = {"gang": FieldTags(settled=True, of=TypeTags({"minGroupCount": _MIN_COUNT}))}
_COMPOSITE_POLICY: Final = TypeTags({"basic": FieldTags(immutable=True), **_GROUP_COUNT}, union=("basic", "gang"))


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


def validate_pod_group_status(group: scheduling_v1alpha3.PodGroup) -> ErrorList:
    """Return the errors of a group's status."""
    errors = ErrorList()
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
