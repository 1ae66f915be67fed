"""Rules of conditions, which several kinds have in their status (docs/spec/api.md §3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cathedra.api import formats
from cathedra.api.core import meta_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check, longer_than
from cathedra.releases import FeatureGates, behaviours

STATUSES: Final = ("False", "True", "Unknown")
MAX_REASON: Final = 1024
MAX_MESSAGE: Final = 32768


def validate_conditions(
    errors: ErrorList, path: FieldPath, conditions: Sequence[meta_v1.Condition], gates: FeatureGates
) -> None:
    """Validate conditions, each type at most once."""
    requires = gates.has(behaviours.METADATA_REQUIRES_FIELDS)
    seen: set[str] = set()
    for position, condition in enumerate(conditions):
        where = path.index(position)
        if condition.type in seen:
            errors.duplicate(where if requires else where.child("type"), condition.type)
        seen.add(condition.type)
        if requires and not condition.type:
            errors.required(where.child("type"), "is required")
        else:
            check(errors, where.child("type"), condition.type, formats.qualified_name)
        if requires and not condition.status:
            errors.required(where.child("status"))
        elif condition.status not in STATUSES:
            errors.not_supported(where.child("status"), condition.status, STATUSES)
        _condition(errors, where, condition)


def _condition(errors: ErrorList, path: FieldPath, condition: meta_v1.Condition) -> None:
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
