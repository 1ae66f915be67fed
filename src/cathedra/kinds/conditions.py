"""Rules of conditions, which several kinds have in their status (docs/spec/api.md §3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cathedra.api import formats
from cathedra.api.core import meta_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check, longer_than

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
