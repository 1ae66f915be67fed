"""Sets of the fields that a write cannot change, so that no manager owns them through it
(docs/spec/apimachinery.md §6.5)."""

from __future__ import annotations

from functools import cache

from cathedra.apiserver.ownership.fieldset import FieldSet

__all__ = ["field_set"]


@cache
def field_set(paths: tuple[str, ...]) -> FieldSet:
    """The set of the fields at ``paths``, each with names joined by dots, as ``metadata.labels``."""
    fields = FieldSet()
    for path in paths:
        fields.insert(f"f:{name}" for name in path.split("."))
    return fields.numbered()
