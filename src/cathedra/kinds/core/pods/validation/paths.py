"""Rules of paths that are looked for below some folder, which they must not leave."""

from __future__ import annotations

from cathedra.api.field import ErrorList, FieldPath

__all__ = ["validate_descending_path"]


def validate_descending_path(errors: ErrorList, path: FieldPath, value: str) -> None:
    """A relative path without a step up."""
    if value.startswith("/"):
        errors.invalid(path, value, "must be a relative path")
    if ".." in value.split("/"):
        errors.invalid(path, value, "must not contain '..'")
