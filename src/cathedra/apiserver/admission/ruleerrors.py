"""Validation of the rules by which a webhook or a policy matches requests
(docs/spec/apimachinery.md §16.5, §16.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cathedra.api.core.admissionregistration_v1 import MatchCondition, NamedRuleWithOperations, RuleWithOperations
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import path_segment, qualified_name

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_MOST_CONDITIONS: Final = 64


def check_conditions(errors: ErrorList, path: FieldPath, conditions: Sequence[MatchCondition]) -> None:
    """Check the match conditions of a policy or a webhook: their number, names, and that each has an expression."""
    if len(conditions) > _MOST_CONDITIONS:
        errors.too_many(path, len(conditions), _MOST_CONDITIONS)
    seen: set[str] = set()
    for position, condition in enumerate(conditions):
        where = path.index(position)
        if not condition.expression.strip():
            errors.required(where.child("expression"))
        if not condition.name:
            errors.required(where.child("name"))
            continue
        for problem in qualified_name(condition.name):
            errors.invalid(where.child("name"), condition.name, problem)
        if condition.name in seen:
            errors.duplicate(where.child("name"), condition.name)
        seen.add(condition.name)


def check_named_rule(errors: ErrorList, path: FieldPath, rule: NamedRuleWithOperations) -> None:
    """Check a rule of a policy, which may be limited to some resource names."""
    seen: set[str] = set()
    for position, name in enumerate(rule.resource_names):
        where = path.child("resourceNames").index(position)
        for problem in path_segment(name):
            errors.invalid(where, name, problem)
        if name in seen:
            errors.duplicate(where, name)
        seen.add(name)
    check_rule(errors, path, rule)


def check_rule(errors: ErrorList, path: FieldPath, rule: NamedRuleWithOperations | RuleWithOperations) -> None:
    """Operations, groups, versions, resources and scope of a rule."""
    operations = path.child("operations")
    if not rule.operations:
        errors.required(operations)
    if len(rule.operations) > 1 and "*" in rule.operations:
        errors.invalid(operations, list(rule.operations), "if '*' is present, must not specify other operations")
    for position, operation in enumerate(rule.operations):
        if operation not in _OPERATIONS:
            errors.not_supported(operations.index(position), operation, _OPERATIONS)
    _alone(errors, path.child("apiGroups"), rule.api_groups, "API groups")
    _alone(errors, path.child("apiVersions"), rule.api_versions, "API versions")
    for position, version in enumerate(rule.api_versions):
        if not version:
            errors.required(path.child("apiVersions").index(position))
    _resources(errors, path.child("resources"), rule.resources)
    if rule.scope is not None and rule.scope not in _SCOPES:
        errors.not_supported(path.child("scope"), rule.scope, _SCOPES)


def _alone(errors: ErrorList, path: FieldPath, values: Sequence[str], what: str) -> None:
    if not values:
        errors.required(path)
    if len(values) > 1 and "*" in values:
        errors.invalid(path, list(values), f"if '*' is present, must not specify other {what}")


def _resources(errors: ErrorList, path: FieldPath, resources: Sequence[str]) -> None:
    """Resources and sub-resources: what a pattern covers is not named besides."""
    if not resources:
        errors.required(path)
    all_subresources: set[str] = set()
    all_resources: set[str] = set()
    ends_plain = False
    for position, resource in enumerate(resources):
        where = path.index(position)
        if not resource:
            errors.required(where)
            continue
        name, slash, part = resource.partition("/")
        if not slash:
            # As in Kubernetes, the last one decides.
            ends_plain = resource != "*"
            continue
        if name in all_subresources:
            errors.invalid(where, resource, f"if '{name}/*' is present, must not specify {resource}")
        if part in all_resources:
            errors.invalid(where, resource, f"if '*/{part}' is present, must not specify {resource}")
        if part == "*":
            all_subresources.add(name)
        if name == "*":
            all_resources.add(part)
    if len(resources) > 1 and "*/*" in resources:
        errors.invalid(path, list(resources), "if '*/*' is present, must not specify other resources")
    if "*" in resources and ends_plain:
        text = "if '*' is present, must not specify other resources without subresources"
        errors.invalid(path, list(resources), text)
