"""The fields that the creator of an object owns: all that it spells.

There is nothing to compare a new object with but an empty one, and no other manager; so it is taken apart, and each
field of the top level and of the metadata is worked out as if the object had nothing else. Most are those of the object
made before and are remembered by their JSON. Owner references alone name something else in every object.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from cathedra.api.struct import Time
from cathedra.apiserver.ownership.comparison import fields_of_new
from cathedra.apiserver.ownership.fieldset import FieldSet
from cathedra.apiserver.ownership.managers import (
    REMEMBERED_SIZE,
    UPDATE,
    ManagedFields,
    Manager,
    VersionedSet,
    never_tracked,
)
from cathedra.apiserver.ownership.resets import field_set
from cathedra.apiserver.ownership.typed import elements, field_shape, is_leaf
from cathedra.apiserver.ownership.views import View
from cathedra.apiserver.patches.schema import ListShape, Shape

__all__ = ["created"]

REMEMBERED_PART: Final = 4 * 1024
"""Bytes of a field's JSON up to which it is remembered what it spells."""
_METADATA: Final = "metadata"
_UNTRACKED: Final = frozenset(never_tracked().children["f:metadata"].children)
_OWNERS: Final = "ownerReferences"
_READ_PARTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_SOMEONE: Final = Manager("", UPDATE, "")
_NOTHING: Final = field_set(())


def created(manager: Manager, empty: View, new: View, now: Time, ignored: FieldSet) -> ManagedFields:
    """The managed fields of a new object; ``empty`` is one of its kind without anything. ``ignored`` are whole fields
    of the top level.

    Raises:
        TypedError: an element of a keyed list has no key.
    """
    fields = FieldSet()
    before = _READ_PARTS.decode(empty.body)
    for key, part in _READ_PARTS.decode(new.body).items():
        element, inner = _field(new.shape, key)
        if element in ignored.children:
            continue
        if inner is None:
            if part != before.get(key):
                fields.children[element] = _ONE_PIECE
            continue
        if key == _METADATA and len(new.body) <= REMEMBERED_SIZE:
            below = _metadata(bytes(part), inner)
        else:
            below = _spelled(key, bytes(before.get(key, b"")), bytes(part), new.shape)
        if below is not None:
            fields.children[element] = below
    return ManagedFields({manager: VersionedSet(fields, now)} if fields.children else {})


def _metadata(body: bytes, shape: Shape) -> FieldSet | None:
    children: dict[str, FieldSet] = {}
    for key, part in _READ_PARTS.decode(body).items():
        element, inner = _field(shape, key)
        if element in _UNTRACKED:
            continue
        if inner is None:
            children[element] = _ONE_PIECE
        elif key == _OWNERS and type(inner) is ListShape and len(bytes(part)) > 2:
            owners = elements(msgspec.json.decode(part), inner)
            children[element] = FieldSet(True, {owner: _ONE_PIECE for owner, _ in owners})
        elif (below := _spelled(key, b"", bytes(part), shape)) is not None:
            children[element] = below
    return FieldSet(False, children) if children else None


_ONE_PIECE: Final = FieldSet(member=True)


@lru_cache(maxsize=512)
def _field(shape: Shape, key: str) -> tuple[str, Shape | None]:
    """The path element of a field, and its shape if it is more than one piece."""
    inner = field_shape(shape, key)
    return f"f:{key}", None if is_leaf(inner) else inner


def _spelled(key: str, before: bytes, part: bytes, shape: Shape) -> FieldSet | None:
    return (_remembered if len(part) <= REMEMBERED_PART else _worked_out)(key, before, part, shape)


def _worked_out(key: str, before: bytes, part: bytes, shape: Shape) -> FieldSet | None:
    """What the creator of an object owns that has this one field, which was ``before`` or not there."""
    if not before and key != _METADATA:
        return fields_of_new(msgspec.json.decode(part), field_shape(shape, key))
    old, new = (View(b'{"%b":%b}' % (key.encode(), one) if one else b"{}", shape) for one in (before, part))
    managed = ManagedFields({}).update(_SOMEONE, old, new, Time(0), _NOTHING, lambda *_: None)
    for versioned in managed.managers.values():
        return versioned.fields.children.get(f"f:{key}")
    return None


_remembered: Final = lru_cache(maxsize=1024)(_worked_out)
