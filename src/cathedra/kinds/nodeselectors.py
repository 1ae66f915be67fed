"""Rules of node selectors, in pods, volumes and slices (docs/spec/api.md §3.2)."""

from __future__ import annotations

from cathedra.api import formats
from cathedra.api.core import core_v1
from cathedra.api.field import Constant, ErrorList, FieldPath
from cathedra.api.formats import check, problems_of


def validate_node_selector(
    errors: ErrorList, path: FieldPath, selector: core_v1.NodeSelector, *, check_values: bool = True
) -> None:
    """Validate a node selector: at least one term, each condition well-formed."""
    terms = selector.node_selector_terms or ()
    path = path.child("nodeSelectorTerms")
    if not terms:
        errors.required(path, "must have at least one node selector term")
        return
    for position, term in enumerate(terms):
        validate_node_selector_term(errors, path.index(position), term, check_values=check_values)


def validate_node_selector_term(
    errors: ErrorList, path: FieldPath, term: core_v1.NodeSelectorTerm, *, check_values: bool = True
) -> None:
    """Validate a term of a node selector: each condition is well-formed."""
    for number, expression in enumerate(term.match_expressions):
        _expression(errors, path.child("matchExpressions").index(number), expression, check_values=check_values)
    for number, expression in enumerate(term.match_fields):
        _field(errors, path.child("matchFields").index(number), expression)


def validate_single_term(errors: ErrorList, path: FieldPath, selector: core_v1.NodeSelector) -> None:
    """Validate a node selector of slices, whose terms the allocator cannot combine: exactly one term, well-formed."""
    validate_node_selector(errors, path, selector)
    terms = selector.node_selector_terms
    if len(terms or ()) != 1:
        errors.invalid(path.child("nodeSelectorTerms"), terms, "must have exactly one node selector term")


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
        errors.invalid(path.child("operator"), Constant(operator), "not a valid selector operator")
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
        errors.invalid(path.child("operator"), Constant(expression.operator), "not a valid selector operator")
    if expression.key != "metadata.name":
        errors.invalid(path.child("key"), expression.key, "not a valid field selector key")
        return
    for position, value in enumerate(values):
        for problem in problems_of(formats.dns_subdomain, value):
            errors.invalid(path.child("values").index(position), value, problem)
