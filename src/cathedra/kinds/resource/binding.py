"""Rules that devices in slices and devices in allocations share (docs/spec/api.md §3.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cathedra.api import formats
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check, unique
from cathedra.api.struct import EMPTY_LIST

MAX_BINDING: Final = 4


def validate_binding_conditions(
    errors: ErrorList, path: FieldPath, conditions: Sequence[str], failures: Sequence[str]
) -> None:
    """Validate binding conditions and failure conditions: both or none, no name twice."""
    if not conditions and not failures:
        return
    success_path, failure_path = path.child("bindingConditions"), path.child("bindingFailureConditions")
    _names(errors, success_path, conditions)
    _names(errors, failure_path, failures)
    unique(errors, success_path, conditions)
    unique(errors, failure_path, failures)
    known = frozenset(conditions)
    for position, name in enumerate(failures):
        if name in known:
            errors.invalid(
                failure_path.index(position), name, "bindingFailureConditions must not overlap with bindingConditions"
            )
    if failures and not conditions:
        errors.invalid(
            success_path, _shown(conditions), "bindingConditions are required to use bindingFailureConditions"
        )
    if conditions and not failures:
        errors.invalid(failure_path, _shown(failures), "bindingFailureConditions are required to use bindingConditions")


def _shown(names: Sequence[str]) -> list[str] | None:
    """No list, or an empty one that was spelled out."""
    return [] if names is EMPTY_LIST else None


def _names(errors: ErrorList, path: FieldPath, names: Sequence[str]) -> None:
    if len(names) > MAX_BINDING:
        errors.too_many(path, len(names), MAX_BINDING)
        return
    for position, name in enumerate(names):
        check(errors, path.index(position), name, formats.label_key)


def validate_skipped_operations(errors: ErrorList, path: FieldPath, operations: Sequence[str]) -> None:
    """Validate the node operations that a driver can do without (1.37). Tags list the possible ones."""
    if "NodePrepareResources" in operations and not {"NodeUnprepareResources", "*"} & set(operations):
        text = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"
        errors.invalid(path, list(operations), text)
