"""The fields that the creator of an object owns: all that it spells.

There is nothing to compare a new object with but an empty one, and no other manager; so it is taken apart, and each
field of the top level and of the metadata is worked out as if the object had nothing else. Most are those of the object
made before and are remembered by their JSON. Owner references alone name something else in every object.
"""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec

from cathedra.api.struct import KubeStruct, Time, encode
from cathedra.apiserver.ownership.comparison import Comparison
from cathedra.apiserver.ownership.fieldset import FieldSet
from cathedra.apiserver.ownership.managers import ManagedFields, Manager, VersionedSet, never_tracked
from cathedra.apiserver.ownership.structs import Field, became, fields_of, is_absent, parts_of
from cathedra.apiserver.patches.schema import Shape, StructShape

__all__ = ["created"]

REMEMBERED_PART: Final = 4 * 1024
"""Bytes of a field's JSON up to which it is remembered what it spells."""
KNOWN: Final = 1024
"""Fields of which that is remembered, and whole sets; the first give way."""
_METADATA: Final = "f:metadata"
_OWNERS: Final = "f:ownerReferences"
_UNTRACKED: Final = frozenset(never_tracked().children[_METADATA].children)
_ONE_PIECE: Final = FieldSet(member=True)


def created(manager: Manager, new: KubeStruct, shape: StructShape, now: Time, ignored: FieldSet) -> ManagedFields:
    """The managed fields of a new object. ``ignored`` are whole fields of the top level.

    Raises:
        TypedError: an element of a keyed list has no key.
    """
    children: dict[str, FieldSet] = {}
    for before, after, field in zip(_empty(type(new)), msgspec.structs.astuple(new), fields_of(shape), strict=True):
        if before is after or field.element in ignored.children:
            continue
        below = _metadata(after, field.shape) if field.element == _METADATA else _owned(before, after, field)
        if below is not None:
            children[field.element] = below
    return ManagedFields({manager: VersionedSet(_whole(children), now)} if children else {})


def _metadata(metadata: KubeStruct, shape: Shape) -> FieldSet | None:
    assert isinstance(shape, StructShape)
    children: dict[str, FieldSet] = {}
    for value, field in zip(msgspec.structs.astuple(metadata), fields_of(shape), strict=True):
        if value is field.default or field.element in _UNTRACKED or is_absent(value, field.default):
            continue
        if field.is_leaf:
            children[field.element] = _ONE_PIECE
        elif field.element == _OWNERS and value:
            owners = dict(parts_of(value, field.shape))
            children[field.element] = FieldSet(True, dict.fromkeys(owners, _ONE_PIECE))
        elif (below := _owned(field.default, value, field)) is not None:
            children[field.element] = below
    return FieldSet(False, children) if children else None


def _owned(before: Any, after: Any, field: Field) -> FieldSet | None:
    """What the creator of an object owns of one field; ``before`` is what an empty object has there."""
    if field.is_leaf:
        return None if is_absent(after, field.default) or became(before, after, field) is None else _ONE_PIECE
    body = encode(after)
    if len(body) > REMEMBERED_PART:
        return _worked_out(before, after, field)
    key = (field, body)
    if key not in _PARTS:
        if len(_PARTS) >= KNOWN:
            del _PARTS[next(iter(_PARTS))]
        _PARTS[key] = _worked_out(before, after, field)
    return _PARTS[key]


_PARTS: Final[dict[tuple[Field, bytes], FieldSet | None]] = {}


def _worked_out(before: Any, after: Any, field: Field) -> FieldSet | None:
    outlined = became(before, after, field)
    if outlined is None:
        return None
    comparison = Comparison.below({field.element: outlined})
    return comparison.modified.union(comparison.added).children.get(field.element)


def _whole(children: dict[str, FieldSet]) -> FieldSet:
    """The set of these parts; the very same for the same parts, so that it is spelled once."""
    key = (*children, *map(id, children.values()))
    found = _WHOLE.get(key)
    if found is None:
        if len(_WHOLE) >= KNOWN:
            del _WHOLE[next(iter(_WHOLE))]
        found = _WHOLE[key] = FieldSet(False, children)
    return found


_WHOLE: Final[dict[tuple[object, ...], FieldSet]] = {}


def _empty(kind: type[KubeStruct]) -> tuple[Any, ...]:
    """The values of an object without anything."""
    return _EMPTY.get(kind) or _EMPTY.setdefault(kind, msgspec.structs.astuple(kind()))


_EMPTY: Final[WeakKeyDictionary[type[KubeStruct], tuple[Any, ...]]] = WeakKeyDictionary()
