"""Rules of object metadata, common to all kinds (docs/spec/apimachinery.md §4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cathedra.api import formats
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check

__all__ = ["validate_annotations", "validate_labels"]

MAX_ANNOTATIONS: Final = 256 * 1024


def validate_labels(errors: ErrorList, path: FieldPath, labels: Mapping[str, str]) -> None:
    """Keys and values of labels."""
    for key, value in sorted(labels.items()):
        check(errors, path, key, formats.label_key)
        check(errors, path, value, formats.label_value)


def validate_annotations(errors: ErrorList, path: FieldPath, annotations: Mapping[str, str]) -> None:
    """Keys of annotations, and the size of all together."""
    total = 0
    for key, value in sorted(annotations.items()):
        # Annotation keys may have upper-case letters in their prefix.
        for complaint in formats.qualified_name(key.lower()):
            errors.invalid(path, key, complaint)
        total += len(key.encode()) + len(value.encode())
    if total > MAX_ANNOTATIONS:
        errors.too_long(path, MAX_ANNOTATIONS)
