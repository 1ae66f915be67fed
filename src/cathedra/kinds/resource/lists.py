"""Lists of limited length: what is reported of one that is too long (docs/spec/api.md §3.1, appendix D).

Since 1.35 that is the length alone, so that no request can make the server look at more than it takes. Before, all
items were looked at first. 1.31 called such a list too long, later releases call it too many items.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import unique
from cathedra.releases import FeatureGates, behaviours

__all__ = ["validate_items"]

T = TypeVar("T")


def validate_items(
    errors: ErrorList,
    path: FieldPath,
    items: Sequence[T],
    limit: int,
    gates: FeatureGates,
    validate: Callable[[FieldPath, T], None],
    *,
    key: Callable[[T], Hashable] | None = None,
) -> None:
    """Each item by ``validate``, which enters what is wrong with it; then their number; then items of one ``key``."""
    if not items:
        return
    too_many = len(items) > limit
    if too_many and gates.has(behaviours.TOO_MANY_ENDS_VALIDATION):
        errors.too_many(path, len(items), limit)
        return
    for position, item in enumerate(items):
        validate(path.index(position), item)
    if too_many and gates.has(behaviours.TOO_MANY_ITEMS):
        errors.too_many(path, len(items), limit)
    elif too_many:
        errors.too_long(path, limit)
    if key is not None and len(items) > 1:
        unique(errors, path, [key(item) for item in items])
