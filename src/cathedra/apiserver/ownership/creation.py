"""The fields that the creator of an object owns: all that it spells.

There is nothing to compare a new object with but an empty one, and no other manager; so it is taken apart, and each
field of the top level and of the metadata is worked out as if the object had nothing else. Most are those of the object
made before and are remembered by their JSON. Owner references alone name something else in every object. Of maps of
scalars, as labels and a config map's data, the keys are all that matters, whatever the values are.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cache
from itertools import chain
from operator import is_not
from typing import Any, Final

import msgspec

from cathedra.api.boundedcache import LONGEST_KEY
from cathedra.api.struct import KubeStruct, Time, encode
from cathedra.apiserver.ownership.fieldset import NOTHING, ONE_FIELD, FieldSet
from cathedra.apiserver.ownership.managers import Manager, never_tracked, new_entry
from cathedra.apiserver.ownership.plainwrites import Entries
from cathedra.apiserver.ownership.structs import METADATA, Field, Given, GivenFields, added, changed, fields_of, keys_of
from cathedra.apiserver.ownership.typed import MISSING
from cathedra.apiserver.patches.schema import Shape, StructShape, struct_shape
from cathedra.kinds.identity import by_identity
from cathedra.remembering import remembered

__all__ = ["created"]

REMEMBERED_PART: Final = 4 * 1024
"""Bytes of a field's JSON up to which it is remembered what it spells."""
KNOWN: Final = 1024
"""Fields of which that is remembered; the first give way."""
_FEW: Final = 16
"""Keys of maps up to which it is remembered what an object of nothing else spells."""
_OWNERS: Final = "f:ownerReferences"
_SPEC: Final = "f:spec"
_UNTRACKED: Final = frozenset(never_tracked().children[METADATA].children)


def created(manager: Manager, new: KubeStruct, shape: StructShape, now: Time, ignored: FieldSet) -> Entries:
    """The managed fields of a new object. ``ignored`` are whole fields of the top level.

    Raises:
        TypedError: an element of a keyed list has no key.
    """
    nothing, values = _empty(type(new)), msgspec.structs.astuple(new)
    given = nothing.given[tuple(map(is_not, values, nothing.given.silent))]
    fields = _of_flat(nothing, given, values) if given.flat is not None and not ignored.children else None
    if fields is None:
        fields = _of_parts(nothing, given, values, ignored)
    if fields is NOTHING:
        return ()
    fields.is_tracked = True
    return (new_entry(manager, fields, now),)


def _of_flat(nothing: _Nothing, given: GivenFields, values: tuple[Any, ...]) -> FieldSet | None:
    """What an object spells that has nothing but metadata and maps of scalars; None if its metadata has more."""
    assert given.flat is not None
    metadata = msgspec.structs.astuple(values[nothing.metadata])
    inner = nothing.tracked[tuple(map(is_not, metadata, nothing.tracked.silent))]
    if inner.flat is None:
        return None
    keys = (*[tuple(metadata[index]) for index in inner.flat], *[tuple(values[index]) for index in given.flat])
    few = sum(map(len, keys)) <= _FEW and sum(map(len, chain.from_iterable(keys))) <= LONGEST_KEY
    return (_kept_of_keys if few else _of_keys)(given, inner, keys)


def _of_keys(given: GivenFields, inner: GivenFields, keys: tuple[tuple[str, ...], ...]) -> FieldSet:
    """What objects spell of which the same is given, in their metadata, too, and whose maps have the same keys."""
    count = len(inner.asked)
    below = _with_maps(inner, keys[:count])
    children = _with_maps(given, keys[count:])
    if below:
        children[METADATA] = FieldSet.of(below, member=False)
    return FieldSet.of(children, member=False) if children else NOTHING


_kept_of_keys: Final = remembered("apiserver.ownership.creation.of_keys", size=512)(_of_keys)


def _with_maps(given: GivenFields, keys: tuple[tuple[str, ...], ...]) -> dict[str, FieldSet]:
    """The fields that are certain, and the maps of scalars that have these keys."""
    maps = [field for _, field in given.asked if field.element != METADATA]
    return given.certain | {
        field.element: keys_of(names, member=True) for field, names in zip(maps, keys, strict=True) if names
    }


def _of_parts(nothing: _Nothing, given: GivenFields, values: tuple[Any, ...], ignored: FieldSet) -> FieldSet:
    """What an object spells, worked out part by part."""
    children = dict(given.certain)
    for element in ignored.children:
        children.pop(element, None)
    for index, field in given.asked:
        if field.element in ignored.children:
            continue
        before, after = nothing.parts[index], values[index]
        if field.is_leaf:
            is_given = after or not field.omits(after)
            if is_given and (not before.spelled or before.differs_from(after, field)):
                children[field.element] = ONE_FIELD
            continue
        below = _metadata(after, field.shape) if field.element == METADATA else _owned(before.value, after, field)
        if below is not None:
            children[field.element] = below
    return FieldSet.of(children, member=False) if children else NOTHING


def _metadata(metadata: KubeStruct, shape: Shape) -> FieldSet | None:
    assert type(shape) is StructShape
    tracked, values = _tracked(shape), msgspec.structs.astuple(metadata)
    given = tracked[tuple(map(is_not, values, tracked.silent))]
    children = dict(given.certain)
    for index, field in given.asked:
        value = values[index]
        if not value and field.omits(value):
            continue
        if field.is_leaf:
            children[field.element] = ONE_FIELD
        elif field.element == _OWNERS:
            children[field.element] = added(value, field.shape)
        elif (below := _owned(field.default, value, field)) is not None:
            children[field.element] = below
    return FieldSet.of(children, member=False) if children else None


@cache
def _tracked(shape: StructShape) -> Given:
    """The fields of metadata that have owners."""
    fields = fields_of(shape)
    tracked = [None if field.element in _UNTRACKED else field for field in fields]
    return Given(tracked, tuple([field.default for field in fields]))


def _owned(before: Any, after: Any, field: Field) -> FieldSet | None:
    """What the creator of an object owns of one field that is no leaf; ``before`` is what an empty object has there."""
    if field.is_flat:  # its values are other ones in every object
        return keys_of(after, member=True) if after else None
    return _of_shared(before, after, field) if field.element == _SPEC else _of_spelled(before, after, field)


def _of_spelled(before: Any, after: Any, field: Field) -> FieldSet | None:
    body = encode(after)
    if len(body) > REMEMBERED_PART:
        return _worked_out(before, after, field)
    key = (field, body)
    if key not in _PARTS:
        if len(_PARTS) >= KNOWN:
            _PARTS.popitem(last=False)
        _PARTS[key] = _worked_out(before, after, field)
    return _PARTS[key]


_PARTS: Final[OrderedDict[tuple[Field, bytes], FieldSet | None]] = OrderedDict()
_of_shared: Final = by_identity(_of_spelled)
"""Specs of one template are the very same object."""


def _worked_out(before: Any, after: Any, field: Field) -> FieldSet | None:
    fields, _ = changed(before, after, field)
    return None if fields.empty else fields


class _Empty(msgspec.Struct, frozen=True):
    """What an object without anything has in a field."""

    value: Any
    spelled: bytes
    """What is always written; b"" if that is left out."""

    def differs_from(self, leaf: Any, field: Field) -> bool:
        """Whether a leaf says something else than what is always written."""
        if type(leaf) is str and type(self.value) is str:
            return leaf != self.value
        if self.spelled in _NOTHING_SPELLED:
            return encode(leaf) != self.spelled
        return not changed(self.value, leaf, field)[0].empty


_NOTHING_SPELLED: Final = frozenset({b"null", b"{}"})
"""Nothing else means the same as one of these."""


class _GivenBeside(Given):
    """The fields in which objects differ from one without anything; what that spells, too, has to be compared."""

    __slots__ = ()

    def _is_certain(self, field: Field) -> bool:
        return super()._is_certain(field) and not hasattr(field.default, "factory") and field.default is not MISSING


class _Nothing(msgspec.Struct, frozen=True):
    """An object without anything: its fields, and what it takes to see which fields another one has."""

    parts: tuple[_Empty, ...]
    given: _GivenBeside
    metadata: int
    """The place of the metadata."""
    tracked: Given
    """What metadata of another one spell."""


@remembered("apiserver.ownership.creation.empty", size=256)
def _empty(kind: type[KubeStruct]) -> _Nothing:
    shape = struct_shape(kind)
    assert isinstance(shape, StructShape)
    values = msgspec.structs.astuple(kind())
    pairs = zip(values, fields_of(shape), strict=True)
    parts = tuple(_Empty(value, b"" if value is field.default else encode(value)) for value, field in pairs)
    place = [field.element for field in fields_of(shape)].index(METADATA)
    tracked = _tracked(shape.fields["metadata"])
    return _Nothing(parts, _GivenBeside(fields_of(shape), values), place, tracked)
