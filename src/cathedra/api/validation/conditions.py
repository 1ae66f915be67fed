"""Rules of conditions and node selectors, as several kinds have them (spec: api.md, section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cathedra.api.core import core_v1, meta_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.validation import formats
from cathedra.api.validation.formats import check, longer_than

__all__ = ["validate_conditions", "validate_node_selector"]

STATUSES: Final = ("False", "True", "Unknown")
MAX_REASON: Final = 1024
MAX_MESSAGE: Final = 32768


def validate_conditions(errors: ErrorList, path: FieldPath, conditions: Sequence[meta_v1.Condition]) -> None:
    """Conditions, each type at most once."""
    seen: set[str] = set()
    for position, condition in enumerate(conditions):
        where = path.index(position)
        if condition.type in seen:
            errors.duplicate(where.child("type"), condition.type)
        seen.add(condition.type)
        _condition(errors, where, condition)


def _condition(errors: ErrorList, path: FieldPath, condition: meta_v1.Condition) -> None:
    check(errors, path.child("type"), condition.type, formats.qualified_name)
    if condition.status not in STATUSES:
        errors.not_supported(path.child("status"), condition.status, STATUSES)
    if condition.observed_generation < 0:
        errors.invalid(
            path.child("observedGeneration"),
            condition.observed_generation,
            "must be greater than or equal to zero",
        )
    if condition.last_transition_time is None:
        errors.required(path.child("lastTransitionTime"))
    reason = path.child("reason")
    if not condition.reason:
        errors.required(reason)
    else:
        check(errors, reason, condition.reason, formats.condition_reason)
        if longer_than(condition.reason, MAX_REASON):
            errors.too_long(reason, MAX_REASON)
    if longer_than(condition.message, MAX_MESSAGE):
        errors.too_long(path.child("message"), MAX_MESSAGE)


def validate_node_selector(
    errors: ErrorList, path: FieldPath, selector: core_v1.NodeSelector, *, check_values: bool = True
) -> None:
    """A node selector: at least one term, each condition well-formed."""
    terms = selector.node_selector_terms or ()
    path = path.child("nodeSelectorTerms")
    if not terms:
        errors.required(path, "must have at least one node selector term")
        return
    for position, term in enumerate(terms):
        where = path.index(position)
        for number, expression in enumerate(term.match_expressions):
            _expression(errors, where.child("matchExpressions").index(number), expression, check_values=check_values)
        for number, expression in enumerate(term.match_fields):
            _field(errors, where.child("matchFields").index(number), expression)


def _expression(
    errors: ErrorList, path: FieldPath, expression: core_v1.NodeSelectorRequirement, *, check_values: bool
) -> None:
    values, operator = expression.values, expression.operator
    where = path.child("values")
    if operator in ("In", "NotIn"):
        if not values:
            errors.required(where, "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.forbidden(where, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            errors.required(where, "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        errors.invalid(path.child("operator"), operator, "not a valid selector operator")
    check(errors, path.child("key"), expression.key, formats.label_key)
    if check_values:
        for position, value in enumerate(values):
            check(errors, where.index(position), value, formats.label_value)


def _field(errors: ErrorList, path: FieldPath, expression: core_v1.NodeSelectorRequirement) -> None:
    values = expression.values
    if expression.operator in ("In", "NotIn"):
        if len(values) != 1:
            errors.required(
                path.child("values"),
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            )
    else:
        errors.invalid(path.child("operator"), expression.operator, "not a valid selector operator")
    if expression.key != "metadata.name":
        errors.invalid(path.child("key"), expression.key, "not a valid field selector key")
        return
    for position, value in enumerate(values):
        check(errors, path.child("values").index(position), value, formats.dns_subdomain)
