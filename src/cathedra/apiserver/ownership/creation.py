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
from cathedra.apiserver.ownership.fieldset import ONE_FIELD, FieldSet
from cathedra.apiserver.ownership.managers import Manager, never_tracked, new_entry
from cathedra.apiserver.ownership.plainwrites import Entries
from cathedra.apiserver.ownership.structs import Field, added, changed, fields_of, is_absent
from cathedra.apiserver.patches.schema import Shape, StructShape
from cathedra.kinds.identity import by_identity

__all__ = ["created"]

REMEMBERED_PART: Final = 4 * 1024
"""Bytes of a field's JSON up to which it is remembered what it spells."""
KNOWN: Final = 1024
"""Fields of which that is remembered; the first give way."""
_METADATA: Final = "f:metadata"
_OWNERS: Final = "f:ownerReferences"
_UNTRACKED: Final = frozenset(never_tracked().children[_METADATA].children)


def created(manager: Manager, new: KubeStruct, shape: StructShape, now: Time, ignored: FieldSet) -> Entries:
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
    return (new_entry(manager, FieldSet.of(children, member=False), now),) if children else ()


def _metadata(metadata: KubeStruct, shape: Shape) -> FieldSet | None:
    assert isinstance(shape, StructShape)
    children: dict[str, FieldSet] = {}
    for value, field in zip(msgspec.structs.astuple(metadata), fields_of(shape), strict=True):
        if value is field.default or field.element in _UNTRACKED or is_absent(value, field.default):
            continue
        if field.is_leaf:
            children[field.element] = ONE_FIELD
        elif field.element == _OWNERS:
            children[field.element] = added(value, field.shape)
        elif (below := _owned(field.default, value, field)) is not None:
            children[field.element] = below
    return FieldSet.of(children, member=False) if children else None


def _owned(before: Any, after: Any, field: Field) -> FieldSet | None:
    """What the creator of an object owns of one field; ``before`` is what an empty object has there."""
    if field.is_leaf:
        if before is not field.default and not _is_new_leaf(before, after, field):
            return None
        return None if is_absent(after, field.default) else ONE_FIELD
    return _of_shared(before, after, field) if isinstance(after, KubeStruct) else _of_spelled(before, after, field)


def _is_new_leaf(before: Any, after: Any, field: Field) -> bool:
    """Whether a leaf that is always written says something."""
    spelled = encode(before)
    if spelled in _NOTHING_SPELLED:
        return encode(after) != spelled
    return not changed(before, after, field)[0].empty


_NOTHING_SPELLED: Final = frozenset({b"null", b"{}"})
"""Nothing else means the same as one of these."""


def _of_spelled(before: Any, after: Any, field: Field) -> FieldSet | None:
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
_of_shared: Final = by_identity(_of_spelled)
"""Specs of one template are the very same object."""


def _worked_out(before: Any, after: Any, field: Field) -> FieldSet | None:
    fields, _ = changed(before, after, field)
    return None if fields.empty else fields


def _empty(kind: type[KubeStruct]) -> tuple[Any, ...]:
    """The values of an object without anything."""
    return _EMPTY.get(kind) or _EMPTY.setdefault(kind, msgspec.structs.astuple(kind()))


_EMPTY: Final[WeakKeyDictionary[type[KubeStruct], tuple[Any, ...]]] = WeakKeyDictionary()
