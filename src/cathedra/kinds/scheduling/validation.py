"""Rules of workloads and pod groups: how their pods are scheduled, which claims they share
(docs/spec/api.md §6.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cathedra.api import formats
from cathedra.api.core import scheduling_v1alpha3
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check

__all__ = [
    "validate_pod_group",
    "validate_pod_group_status",
    "validate_pod_group_update",
    "validate_workload",
    "validate_workload_update",
]

MAX_CLAIMS: Final = 4
MAX_TEMPLATES: Final = 8
_SPEC: Final = FieldPath("spec")
IMMUTABLE: Final = "field is immutable"
_LABEL: Final = formats.in_bytes(formats.dns_label)
_SUBDOMAIN: Final = formats.in_bytes(formats.dns_subdomain)


def validate_workload(workload: scheduling_v1alpha3.Workload) -> ErrorList:
    """What is wrong with a new workload."""
    errors = ErrorList()
    path = _SPEC.child("podGroupTemplates")
    templates = workload.spec.pod_group_templates
    if not templates:
        errors.required(path)
    if len(templates) > MAX_TEMPLATES:
        errors.too_many(path, len(templates), MAX_TEMPLATES)
        return errors
    for position in _repeated(templates):
        errors.duplicate(path.index(position), {"name": templates[position].name})
    for position, template in enumerate(templates):
        where = path.index(position)
        if not template.name:
            errors.required(where.child("name"))
        else:
            check(errors, where.child("name"), template.name, _LABEL)
        _policy(errors, where.child("schedulingPolicy"), template.scheduling_policy)
        _resource_claims(errors, where.child("resourceClaims"), template.resource_claims)
    return errors


def validate_workload_update(new: scheduling_v1alpha3.Workload, old: scheduling_v1alpha3.Workload) -> ErrorList:
    """Templates are immutable."""
    errors = validate_workload(new)
    if new.spec.pod_group_templates != old.spec.pod_group_templates:
        errors.invalid(_SPEC.child("podGroupTemplates"), None, IMMUTABLE)
    return errors


def validate_pod_group(group: scheduling_v1alpha3.PodGroup) -> ErrorList:
    """What is wrong with a new pod group."""
    errors = ErrorList()
    _policy(errors, _SPEC.child("schedulingPolicy"), group.spec.scheduling_policy)
    _resource_claims(errors, _SPEC.child("resourceClaims"), group.spec.resource_claims)
    return errors


def _policy(errors: ErrorList, path: FieldPath, policy: scheduling_v1alpha3.PodGroupSchedulingPolicy) -> None:
    """Pods are scheduled one by one, or as a gang of so many."""
    if policy.basic is None and policy.gang is None:
        errors.invalid(path, "", "must specify one of: `basic`, `gang`")
    elif policy.basic is not None and policy.gang is not None:
        errors.invalid(path, "{basic, gang}", "must specify exactly one of: `basic`, `gang`")
    if policy.gang is None:
        return
    count = path.child("gang", "minCount")
    if policy.gang.min_count == 0:
        errors.required(count)
    elif policy.gang.min_count < 0:
        errors.invalid(count, policy.gang.min_count, "must be greater than or equal to 1")


def validate_pod_group_update(new: scheduling_v1alpha3.PodGroup, old: scheduling_v1alpha3.PodGroup) -> ErrorList:
    """The claims are immutable."""
    errors = validate_pod_group(new)
    if new.spec.resource_claims != old.spec.resource_claims:
        errors.invalid(_SPEC.child("resourceClaims"), new.spec.resource_claims, IMMUTABLE)
    return errors


def _resource_claims(errors: ErrorList, path: FieldPath, claims: Any) -> None:
    if len(claims) > MAX_CLAIMS:
        errors.too_many(path, len(claims), MAX_CLAIMS)
        return
    for position in _repeated(claims):
        errors.duplicate(path.index(position), claims[position])
    for position, claim in enumerate(claims):
        where = path.index(position)
        given = [name for name, value in _references(claim) if value is not None]
        if not given:
            errors.invalid(where, "", "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
        elif len(given) > 1:
            errors.invalid(
                where,
                f"{{{', '.join(given)}}}",
                "must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`",
            )
        if not claim.name:
            errors.required(where.child("name"))
        else:
            check(errors, where.child("name"), claim.name, _LABEL)
        for name, value in _references(claim):
            if value is not None:
                check(errors, where.child(name), value, _SUBDOMAIN)


def _repeated(items: Sequence[Any]) -> list[int]:
    """Where a name comes again. Kubernetes looks at a list as a whole before it looks at what is in it."""
    seen: set[str] = set()
    found = []
    for position, item in enumerate(items):
        if item.name in seen:
            found.append(position)
        seen.add(item.name)
    return found


def _references(claim: Any) -> tuple[tuple[str, str | None], ...]:
    return (
        ("resourceClaimName", claim.resource_claim_name),
        ("resourceClaimTemplateName", claim.resource_claim_template_name),
    )


def validate_pod_group_status(group: scheduling_v1alpha3.PodGroup) -> ErrorList:
    """What is wrong with a group's status."""
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
