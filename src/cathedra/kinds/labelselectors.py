"""Validation of label selectors, which most kinds with a selector share (apimachinery, meta/v1/validation)."""

from __future__ import annotations

from cathedra.api import formats
from cathedra.api.core import meta_v1
from cathedra.api.field import Constant, ErrorList, FieldPath
from cathedra.api.formats import check


def validate_label_selector(errors: ErrorList, path: FieldPath, selector: meta_v1.LabelSelector) -> None:
    """Report keys and values that are no labels, and values that do not suit their operator (ValidateLabelSelector)."""
    labels = path.child("matchLabels")
    for key, value in sorted(selector.match_labels.items()):
        check(errors, labels, key, formats.label_key)
        check(errors, labels, value, formats.label_value)
    for position, requirement in enumerate(selector.match_expressions):
        _requirement(errors, path.child("matchExpressions").index(position), requirement)


def _requirement(errors: ErrorList, path: FieldPath, requirement: meta_v1.LabelSelectorRequirement) -> None:
    values, operator = path.child("values"), requirement.operator
    if operator in ("In", "NotIn"):
        if not requirement.values:
            errors.required(values, "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if requirement.values:
            errors.forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    else:
        errors.invalid(path.child("operator"), Constant(operator), "not a valid selector operator")
    check(errors, path.child("key"), requirement.key, formats.label_key)
    for position, value in enumerate(requirement.values):
        check(errors, values.index(position), value, formats.label_value)
