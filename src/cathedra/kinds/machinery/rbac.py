"""Roles and their bindings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cathedra.api import formats
from cathedra.api.core import rbac_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check, path_segment
from cathedra.api.struct import replace
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.declarative import FieldTags, TypeTags
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import Column, ResourceDefinition
from cathedra.kinds.labelselectors import validate_label_selector
from cathedra.kinds.strategies import ObjectRules

_RBAC = "rbac.authorization.k8s.io"
RBAC: Final = "rbac.authorization.k8s.io"
_ROLES: Final = ("Role", "ClusterRole")
_KINDS: Final = ("ServiceAccount", "User", "Group")
_NAMED: Final = TypeTags({"name": FieldTags(required=True)})
ROLE_TAGS: Final = TypeTags({"rules": FieldTags(of=TypeTags({"verbs": FieldTags(required=True)}))})
BINDING_TAGS: Final = TypeTags({"subjects": FieldTags(of=_NAMED), "roleRef": FieldTags(of=_NAMED)})
BINDING_COLUMNS: Final = (
    NAME,
    Column("Role", description="The role that is given."),
    AGE,
    Column("Users", priority=1, description="Users it is given to."),
    Column("Groups", priority=1, description="Groups it is given to."),
    Column("ServiceAccounts", priority=1, description="Service accounts it is given to."),
)


def default_role_binding(binding: rbac_v1.RoleBinding) -> rbac_v1.RoleBinding:
    """Groups of the reference and the subjects."""
    bound: rbac_v1.RoleBinding = _default_binding(binding)
    return bound


def default_cluster_role_binding(binding: rbac_v1.ClusterRoleBinding) -> rbac_v1.ClusterRoleBinding:
    """Groups of the reference and the subjects."""
    bound: rbac_v1.ClusterRoleBinding = _default_binding(binding)
    return bound


def _default_binding(binding: Any) -> Any:
    subjects = tuple(_default_subject(subject) for subject in binding.subjects)
    reference = replace(binding.role_ref, **absent(binding.role_ref, api_group=_RBAC))
    return replace(binding, subjects=subjects, role_ref=reference)


def _default_subject(subject: rbac_v1.Subject) -> rbac_v1.Subject:
    if subject.kind in ("User", "Group") and not subject.api_group:
        return replace(subject, api_group=_RBAC)
    return subject


def default_role(role: Any) -> Any:
    """Return the object with its defaults: a role without rules: Kubernetes stores no empty lists, and shows them as
    null."""
    return replace(role, rules=None) if role.rules == () else role


def validate_role(role: rbac_v1.Role) -> ErrorList:
    """Return the errors of the rules of a namespace's role."""
    errors = ErrorList()
    _rules(errors, role.rules or (), namespaced=True)
    return errors


def validate_cluster_role(role: rbac_v1.ClusterRole) -> ErrorList:
    """Return the errors of the rules of a cluster's role."""
    errors = ErrorList()
    _rules(errors, role.rules or (), namespaced=False)
    aggregation = role.aggregation_rule
    if aggregation is not None and not aggregation.cluster_role_selectors:
        errors.required(
            FieldPath("aggregationRule").child("clusterRoleSelectors"),
            "at least one clusterRoleSelector required if aggregationRule is non-nil",
        )
    for position, selector in enumerate(aggregation.cluster_role_selectors if aggregation is not None else ()):
        path, prior = FieldPath("aggregationRule").child("clusterRoleSelectors").index(position), len(errors)
        validate_label_selector(errors, path, selector)
        if len(errors) > prior:
            # Kubernetes shows the selector that it could not make, which is nil.
            errors.invalid(path, None, "invalid label selector.")
    return errors


def _rules(errors: ErrorList, rules: Sequence[rbac_v1.PolicyRule], *, namespaced: bool) -> None:
    for position, rule in enumerate(rules):
        path = FieldPath("rules").index(position)
        if not rule.verbs:
            errors.required(path.child("verbs"), "verbs must contain at least one value")
        urls = path.child("nonResourceURLs")
        if rule.non_resource_urls:
            if namespaced:
                errors.invalid(urls, list(rule.non_resource_urls), "namespaced rules cannot apply to non-resource URLs")
            if rule.api_groups or rule.resources or rule.resource_names:
                errors.invalid(
                    urls,
                    list(rule.non_resource_urls),
                    "rules cannot apply to both regular resources and non-resource URLs",
                )
            continue
        if not rule.api_groups:
            errors.required(path.child("apiGroups"), "resource rules must supply at least one api group")
        if not rule.resources:
            errors.required(path.child("resources"), "resource rules must supply at least one resource")


def validate_binding(binding: rbac_v1.RoleBinding | rbac_v1.ClusterRoleBinding) -> ErrorList:
    """Return the errors of a binding: its role, and its subjects."""
    errors = ErrorList()
    namespaced = isinstance(binding, rbac_v1.RoleBinding)
    path = FieldPath("roleRef")
    role = binding.role_ref
    if role.api_group != RBAC:
        errors.string_not_among(path.child("apiGroup"), role.api_group, (RBAC,))
    known = _ROLES if namespaced else ("ClusterRole",)
    if role.kind not in known:
        errors.string_not_among(path.child("kind"), role.kind, known)
    if not role.name:
        errors.required(path.child("name"))
    for position, subject in enumerate(binding.subjects):
        _subject(errors, FieldPath("subjects").index(position), subject, namespaced=namespaced)
    return errors


def _subject(errors: ErrorList, path: FieldPath, subject: rbac_v1.Subject, *, namespaced: bool) -> None:
    if not subject.name:
        errors.required(path.child("name"))
    if subject.kind == "ServiceAccount":
        if subject.name:
            check(errors, path.child("name"), subject.name, formats.dns_subdomain)
        if subject.api_group:
            errors.string_not_among(path.child("apiGroup"), subject.api_group, ("",))
        if not namespaced and not subject.namespace:
            errors.required(path.child("namespace"))
    elif subject.kind in _KINDS:
        if subject.api_group != RBAC:
            errors.string_not_among(path.child("apiGroup"), subject.api_group, (RBAC,))
    else:
        errors.string_not_among(path.child("kind"), subject.kind, _KINDS)


def validate_binding_update(new: Any, old: Any) -> ErrorList:
    """Validate a changed binding and refuse another role, which needs another binding."""
    errors = validate_binding(new)
    if new.role_ref != old.role_ref:
        errors.invalid(FieldPath("roleRef"), new.role_ref, "cannot change roleRef")
    return errors


def binding_cells(binding: rbac_v1.RoleBinding | rbac_v1.ClusterRoleBinding, now: float) -> list[Any]:
    """Return the cells of a RoleBinding or ClusterRoleBinding."""
    named: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in binding.subjects:
        accounts = subject.kind == "ServiceAccount"
        named.setdefault(subject.kind, []).append(f"{subject.namespace}/{subject.name}" if accounts else subject.name)
    return [
        binding.metadata.name,
        f"{binding.role_ref.kind}/{binding.role_ref.name}",
        age(binding.metadata.creation_timestamp, now),
        *(", ".join(named[kind]) for kind in ("User", "Group", "ServiceAccount")),
    ]


def role_definition() -> ResourceDefinition[rbac_v1.Role]:
    """Return the definition of roles."""
    return BuiltinKind(
        rbac_v1.Role,
        "roles",
        namespaced=True,
        default=default_role,
        rules=ObjectRules(validate_role, lambda new, old: validate_role(new), tags=ROLE_TAGS),
        name_rule=path_segment,
        created_by_update=True,
    ).definition()


def cluster_role_definition() -> ResourceDefinition[rbac_v1.ClusterRole]:
    """Return the definition of clusterroles."""
    return BuiltinKind(
        rbac_v1.ClusterRole,
        "clusterroles",
        namespaced=False,
        default=default_role,
        rules=ObjectRules(validate_cluster_role, lambda new, old: validate_cluster_role(new), tags=ROLE_TAGS),
        name_rule=path_segment,
        created_by_update=True,
    ).definition()


def role_binding_definition() -> ResourceDefinition[rbac_v1.RoleBinding]:
    """Return the definition of rolebindings."""
    return BuiltinKind(
        rbac_v1.RoleBinding,
        "rolebindings",
        namespaced=True,
        default=default_role_binding,
        rules=ObjectRules(validate_binding, validate_binding_update, tags=BINDING_TAGS),
        table=(BINDING_COLUMNS, binding_cells),
        name_rule=path_segment,
        created_by_update=True,
    ).definition()


def cluster_role_binding_definition() -> ResourceDefinition[rbac_v1.ClusterRoleBinding]:
    """Return the definition of clusterrolebindings."""
    return BuiltinKind(
        rbac_v1.ClusterRoleBinding,
        "clusterrolebindings",
        namespaced=False,
        default=default_cluster_role_binding,
        rules=ObjectRules(validate_binding, validate_binding_update, tags=BINDING_TAGS),
        table=(BINDING_COLUMNS, binding_cells),
        name_rule=path_segment,
        created_by_update=True,
    ).definition()
