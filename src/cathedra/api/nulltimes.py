"""``creationTimestamp: null``, which every metadata without that time had in JSON until 1.33.

Go leaves out no struct that is empty, and a time is one; in 1.34 the field got the tag ``omitzero``. It shows in what
is never created by itself: templates of pods, claims and volumes, reviews, bookmarks, objects during admission.
"""

from __future__ import annotations

import operator
from functools import cache
from typing import Any, Final, TypeVar, get_args

import msgspec

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import UNSET_LIST, KubeStruct, Time, json_names, replace
from cathedra.releases import FeatureGates, behaviours

S = TypeVar("S", bound=KubeStruct)


class _TimelessMeta(ObjectMeta, frozen=True, rename=json_names(ObjectMeta)):
    """Metadata that is encoded with ``creationTimestamp: null``."""

    creation_timestamp: Time | None = UNSET_LIST


def as_shown(obj: S, gates: FeatureGates) -> S:
    """Return the object as that release shows it."""
    return obj if gates.has(behaviours.CREATION_TIMESTAMP_OMITTED) else with_null_times(obj)


def with_null_times(obj: S) -> S:
    """Return the object to be encoded, with ``creationTimestamp: null`` in all metadata without a time. It must not be
    stored."""
    changed = {}
    for name, kind in _ways(type(obj)):
        value = getattr(obj, name)
        shown = _shown(value, kind)
        if shown is not value:
            changed[name] = shown
    return replace(obj, **changed) if changed else obj


def _shown(value: Any, kind: type[KubeStruct]) -> Any:
    if not value and not isinstance(value, KubeStruct):
        return value
    if isinstance(value, tuple):
        shown = tuple(_shown(item, kind) for item in value)
        return value if all(map(operator.is_, shown, value)) else shown
    if kind is not ObjectMeta:
        return with_null_times(value)
    if value.creation_timestamp is not None:
        return value
    return _TimelessMeta(**{name: getattr(value, name) for name in _METADATA})


_METADATA: Final = tuple(json_names(ObjectMeta))


@cache
def _ways(kind: type[KubeStruct]) -> tuple[tuple[str, type[KubeStruct]], ...]:
    """Return the fields of a type that can contain metadata, each with the struct that it holds."""
    return tuple(
        (field.name, inner)
        for field in msgspec.structs.fields(kind)
        for inner in _structs(field.type)
        if inner is ObjectMeta or _leads_to_metadata(inner, frozenset())
    )


def _leads_to_metadata(kind: type[KubeStruct], above: frozenset[type[KubeStruct]]) -> bool:
    if kind in above:
        return False
    return any(
        inner is ObjectMeta or _leads_to_metadata(inner, above | {kind})
        for field in msgspec.structs.fields(kind)
        for inner in _structs(field.type)
    )


def _structs(hint: Any) -> tuple[type[KubeStruct], ...]:
    """Return the struct types that an annotation contains, also inside a list or an optional."""
    if isinstance(hint, type) and issubclass(hint, KubeStruct):
        return (hint,)
    return tuple(struct for argument in get_args(hint) for struct in _structs(argument))
