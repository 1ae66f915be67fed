"""Fields in which two structs of one kind differ, and the fields that a new object has.

Two states of an object share nearly all their parts, and a part that is the same object in both is not compared. So
this is the comparison for built-in kinds; values without structs are compared as documents
(`cathedra.apiserver.ownership.documents`). Both find the same fields, for a struct has the fields of its JSON.

Kubernetes compares the Go values after decoding. A field with ``omitempty`` that is empty does not exist there, whether
the request left it out or wrote ``[]``: no verb makes anyone own ``devices: []`` of a ResourceSlice. Applied
configurations are the exception, in Kubernetes as here: they are documents, and an applier owns all that it wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cache
from itertools import chain, compress, count
from operator import attrgetter, is_not
from typing import Any, Final

import msgspec

from cathedra.api.boundedcache import LONGEST_KEY, is_short
from cathedra.api.struct import EMPTY_LIST, KubeStruct, encode, json_names, to_dict
from cathedra.apiserver.ownership.documents import changes as document_changes
from cathedra.apiserver.ownership.fieldset import (
    METADATA,
    NOTHING,
    ONE_FIELD,
    SET,
    UNCHANGED,
    UNTRACKED,
    Changes,
    FieldSet,
    changes_of,
)
from cathedra.apiserver.ownership.typed import MISSING, element_of, element_of_text, field_shape, is_leaf
from cathedra.apiserver.patches.schema import STRING, Leaf, ListShape, MapShape, Shape, StructShape, struct_shape
from cathedra.remembering import IDENTITY, remembered

REMEMBERED_PART: Final = 4 * 1024
"""Bytes of a field's JSON up to which the fields of a new object in it are remembered."""
KNOWN: Final = 1024
"""Number of such fields that are remembered."""
_SCALARS: Final = frozenset({str, int, bool})
_UID_KEYS: Final = ("uid",)
"""The key of lists whose elements are other objects: each object has other elements."""
_FEW: Final = 8
"""Texts of a list, or keys of a map, up to which their path elements are remembered."""
_FEW_KEYS: Final = 16
"""Keys of all maps of an object up to which the fields of an object with no other parts are remembered."""


class Field:
    """A field of a struct; there is one object for each.

    ``default`` is the value with which the field is not written. ``is_leaf`` is true if the field counts as one piece,
    ``is_flat`` if it is a map whose values do.
    """

    __slots__ = ("_is_map", "default", "element", "is_flat", "is_leaf", "shape")

    def __init__(self, element: str, shape: Shape, default: Any) -> None:
        self.element = element
        self.shape = shape
        self.default = default
        self.is_leaf = is_leaf(shape)
        self._is_map = getattr(default, "factory", None) is dict
        self.is_flat = self._is_map and type(shape) is MapShape and not self.is_leaf and is_leaf(shape.value)

    def omits(self, value: Any) -> bool:
        """Return True if the field is not stored with this value: the default, an empty map, or a written ``[]``."""
        return value is self.default or value is EMPTY_LIST or (self._is_map and type(value) is dict and not value)

    @property
    def is_certain(self) -> bool:
        """True if the field is one path with any value but its default: it has no parts, and is no map."""
        return type(self.shape) is Leaf and not self._is_map


@cache
def fields_of(shape: StructShape) -> tuple[Field, ...]:
    """Return the fields of a struct, in order of declaration."""
    kind = shape.type
    defaults = kind.__struct_defaults__
    required = len(kind.__struct_fields__) - len(defaults)
    return tuple(
        Field(f"f:{name}", shape.fields[name], MISSING if index < required else defaults[index - required])
        for index, name in enumerate(json_names(kind).values())
    )


class PresentFields(msgspec.Struct, frozen=True, eq=False):
    """The fields of structs in which the same fields differ from their defaults."""

    certain: dict[str, FieldSet]
    """Fields that are one path whatever their value is, by path element."""
    doubtful: tuple[tuple[int, Field], ...]
    """The others with their positions; their values decide."""
    whole: FieldSet
    """The certain fields as a set."""
    flat: tuple[int, ...] | None
    """Positions of the doubtful fields except metadata, if all of them are maps of scalars."""


class PresentByMask(dict[tuple[bool, ...], PresentFields]):
    """The fields of structs of one type, by which of the fields differ from ``defaults``.

    Most structs of a type set one of a few groups of fields, so this is worked out once for each group.
    """

    __slots__ = ("_fields", "_sure", "defaults")

    def __init__(
        self,
        fields: Iterable[Field | None],
        defaults: tuple[Any, ...],
        is_certain: Callable[[Field], bool] = lambda field: field.is_certain,
    ) -> None:
        """``fields`` has None for fields that are left out of account."""
        self._fields = tuple(fields)
        self._sure = is_certain
        self.defaults = defaults

    def of(self, values: tuple[Any, ...]) -> PresentFields:
        """Return the fields of a struct with these values."""
        return self[tuple(map(is_not, values, self.defaults))]

    def __missing__(self, mask: tuple[bool, ...]) -> PresentFields:
        fields = [(index, field) for index, field in enumerate(self._fields) if field is not None and mask[index]]
        certain = {field.element: ONE_FIELD for _, field in fields if self._sure(field)}
        doubtful = tuple([(index, field) for index, field in fields if field.element not in certain])
        others = [(index, field.is_flat) for index, field in doubtful if field.element != METADATA]
        flat = tuple([index for index, _ in others]) if all(is_flat for _, is_flat in others) else None
        found = PresentFields(certain, doubtful, FieldSet.of(certain, member=True), flat)
        # A client chooses which fields it sends, so the number of masks is bounded.
        if len(self) < _MOST_MASKS:
            self[mask] = found
        return found


_MOST_MASKS: Final = 64


@cache
def _present_in(shape: StructShape) -> PresentByMask:
    fields = fields_of(shape)
    return PresentByMask(fields, tuple([field.default for field in fields]))


# --- changes ------------------------------------------------------------------------------------------------------


def struct_changes(old: KubeStruct, new: KubeStruct, shape: StructShape) -> Changes:
    """Return the fields in which ``new`` differs from ``old``.

    Raises:
        TypedError: an element of a keyed list has no key.
    """
    touched: dict[str, FieldSet] = {}
    removed: dict[str, FieldSet] = {}
    befores, afters = msgspec.structs.astuple(old), msgspec.structs.astuple(new)
    fields = fields_of(shape)
    # Identity first: a write shares all parts but one or two with the state before it.
    for index in compress(count(), map(is_not, befores, afters)):
        field = fields[index]
        was_set, was_removed = _field_changes(befores[index], afters[index], field)
        if was_set is not NOTHING:
            touched[field.element] = was_set
        if was_removed is not NOTHING:
            removed[field.element] = was_removed
    return changes_of(touched, removed)


def _field_changes(before: Any, after: Any, field: Field) -> Changes:
    if field.is_flat and not before and not after:
        return UNCHANGED
    default = field.default
    if after is default or (not after and field.omits(after)):
        return UNCHANGED if field.omits(before) else (NOTHING, _added(before, field.shape))
    if before is default or (not before and field.omits(before)):
        return (ONE_FIELD if field.is_leaf else _added(after, field.shape)), NOTHING
    shape = field.shape
    if field.is_leaf:
        return UNCHANGED if _is_same(before, after, shape) else SET
    if field.is_flat and type(shape) is MapShape:
        return _changed_keys(before, after, shape.value)
    if type(shape) is StructShape and type(before) is type(after) is shape.type:
        return struct_changes(before, after, shape)
    return _changes(before, after, shape)


def _changed_keys(old: dict[str, Any], new: dict[str, Any], inner: Shape) -> Changes:
    """Return the changes between two maps whose values count as one piece each."""
    if inner is STRING:  # as in most maps
        touched = [key for key, value in new.items() if old.get(key) != value]
    else:
        touched = [key for key, value in new.items() if key not in old or not _is_same(old[key], value, inner)]
    removed = () if old.keys() <= new.keys() else [key for key in old if key not in new]
    return _keys(touched) if touched else NOTHING, _keys(removed) if removed else NOTHING


def _keys(keys: Collection[str], *, member: bool = False) -> FieldSet:
    """Return the set of these keys of a map whose values count as one piece; with ``member`` of the map, too."""
    few = len(keys) <= _FEW and sum(map(len, keys)) <= LONGEST_KEY
    return (_remembered_keys if few else _set_of_keys)(tuple(keys), member)


def _set_of_keys(keys: tuple[str, ...], member: bool) -> FieldSet:
    return FieldSet.of({f"f:{key}": ONE_FIELD for key in keys}, member=member)


_remembered_keys: Final = remembered("apiserver.ownership.structs.keys", size=512)(_set_of_keys)


def _changes(old: Any, new: Any, shape: Shape) -> Changes:
    if old is new:
        return UNCHANGED
    if is_leaf(shape):
        return UNCHANGED if _is_same(old, new, shape) else SET
    if type(shape) is StructShape and type(old) is type(new) and type(old) is shape.type:
        return struct_changes(old, new, shape)
    before, after = dict(_parts(old, shape)), dict(_parts(new, shape))
    if not before and not after:
        return UNCHANGED if _is_same(old, new, shape) else SET
    touched: dict[str, FieldSet] = {}
    removed: dict[str, FieldSet] = {}
    for element, (was, inner) in before.items():
        if element not in after:
            removed[element] = _added(was, inner)
        else:
            was_set, was_removed = _changes(was, after[element][0], inner)
            if was_set is not NOTHING:
                touched[element] = was_set
            if was_removed is not NOTHING:
                removed[element] = was_removed
    for element, (now, inner) in after.items():
        if element not in before:
            touched[element] = _added(now, inner)
    return changes_of(touched, removed)


def _added(value: Any, shape: Shape) -> FieldSet:
    """Return the fields at and below a value that was not there before, or is no longer there."""
    if is_leaf(shape):
        return ONE_FIELD
    if type(shape) is StructShape and (type(value) is shape.type or isinstance(value, KubeStruct)):
        values = msgspec.structs.astuple(value)
        present = _present_in(shape).of(values)
        if not present.doubtful:
            return present.whole
        fields = dict(present.certain)
        for index, field in present.doubtful:
            item = values[index]
            if item or not field.omits(item):
                fields[field.element] = ONE_FIELD if field.is_leaf else _added(item, field.shape)
        return FieldSet.of(fields, member=True)
    if type(value) is tuple and value and type(value[0]) is str and len(value) <= _FEW and is_short(*value):
        return _added_texts(value, shape)
    if type(value) is dict and type(shape) is MapShape and is_leaf(shape.value):
        return _keys(value, member=True)
    if type(shape) is ListShape and type(value) is tuple:
        if shape.keys == _UID_KEYS and len(value) == 1:
            return FieldSet.of_one(_element(value[0], shape), _added(value[0], shape.element))
        return _added_items(value, shape)
    return _added_parts(value, shape)


# Functions of their own: comprehensions make cells of the variables that they share with a function, for each call.
def _added_items(items: tuple[Any, ...], shape: ListShape) -> FieldSet:
    inner = shape.element
    each = [ONE_FIELD] * len(items) if is_leaf(inner) else [_added(item, inner) for item in items]
    below = dict(zip([_element(item, shape) for item in items], each, strict=True))
    return FieldSet(True, below) if shape.keys == _UID_KEYS else FieldSet.of(below, member=True)


def _added_parts(value: Any, shape: Shape) -> FieldSet:
    return FieldSet.of({key: _added(item, inner) for key, (item, inner) in _parts(value, shape)}, member=True)


@remembered("apiserver.ownership.structs.added_texts", size=512)
def _added_texts(texts: tuple[str, ...], shape: Shape) -> FieldSet:
    return FieldSet.of({key: ONE_FIELD for key, _ in _parts(texts, shape)}, member=True)


def _parts(value: Any, shape: Shape) -> Iterable[tuple[str, tuple[Any, Shape]]]:
    """Return the fields, keys or elements of a value that is no leaf, with their shapes; none for null or no value."""
    if isinstance(value, KubeStruct) and isinstance(shape, StructShape):
        return [(field.element, (item, field.shape)) for item, field in _written(value, shape)]
    if isinstance(value, dict):
        return [(f"f:{key}", (item, field_shape(shape, key))) for key, item in value.items()]
    if isinstance(value, tuple) and isinstance(shape, ListShape):
        return [(_element(item, shape), (item, shape.element)) for item in value]
    return ()


def _written(value: KubeStruct, shape: StructShape) -> list[tuple[Any, Field]]:
    """Return the fields of a struct that its JSON has, with their values."""
    return [
        (item, field)
        for item, field in zip(msgspec.structs.astuple(value), fields_of(shape), strict=True)
        if item is not field.default and (item or not field.omits(item))
    ]


def _element(item: Any, shape: ListShape) -> str:
    """Return the path element of a list's item."""
    kind: Any = type(item)
    only = _only_key(kind, shape.keys)
    if only is not None:
        key, read, field = only
        value = read(item)
        if type(value) is str and value is not field.default:  # as in most lists
            return element_of_text(key, value)
    return element_of(_key_values(item, shape), shape)


@cache
def _only_key(kind: type[object], keys: tuple[str, ...]) -> tuple[str, Callable[[Any], Any], Field] | None:
    """Return JSON name, getter and field of the key of a list of structs; None if it has several or none."""
    return _key_fields(kind, keys)[0] if len(keys) == 1 and issubclass(kind, KubeStruct) else None


def _key_values(item: Any, shape: ListShape) -> Any:
    """Return an element's keys as plain values; the element itself if it is no struct."""
    if not isinstance(item, KubeStruct):
        return item
    found = [(key, read(item), field) for key, read, field in _key_fields(type(item), shape.keys)]
    return {
        key: value if type(value) in _SCALARS else to_dict(value)
        for key, value, field in found
        if not field.omits(value)
    }


@cache
def _key_fields(kind: type[KubeStruct], keys: tuple[str, ...]) -> tuple[tuple[str, Callable[[Any], Any], Field], ...]:
    attributes = {name: attribute for attribute, name in json_names(kind).items()}
    fields = dict(zip(attributes, fields_of(StructShape(kind)), strict=True))
    return tuple((key, attrgetter(attributes[key]), fields[key]) for key in keys)


def _is_same(old: Any, new: Any, shape: Shape) -> bool:
    """Return True if two values have the same JSON."""
    if type(old) is type(new) and type(old) in _SCALARS:
        return bool(old == new)
    before, after = encode(old), encode(new)
    if before == after:
        return True
    touched, removed = document_changes(msgspec.json.decode(before), msgspec.json.decode(after), shape)
    return touched is NOTHING and removed is NOTHING


# --- new objects --------------------------------------------------------------------------------------------------


def created_fields(new: KubeStruct, shape: StructShape, ignored: FieldSet) -> FieldSet:
    """Return the fields of a new object that its creator owns; ``ignored`` are whole fields of the top level.

    They are those in which it differs from an object without anything (`struct_changes`), without the untracked ones.
    A new object shares no part with that one, so the comparison would look into every field. But most objects have the
    same fields as the one created before them: each field of the top level and of the metadata is worked out by itself
    and remembered by its JSON. Owner references alone are different in every object. Of maps of scalars, as labels and
    the data of a config map, only the keys matter.

    Raises:
        TypedError: an element of a keyed list has no key.
    """
    empty, values = _empty(type(new)), msgspec.structs.astuple(new)
    present = empty.present.of(values)
    fields = _fields_of_maps(empty, present, values) if present.flat is not None and not ignored.children else None
    if fields is None:
        fields = _fields_by_part(empty, present, values, ignored)
    if fields is not NOTHING:
        fields.is_tracked = True
    return fields


def _fields_of_maps(empty: _EmptyObject, present: PresentFields, values: tuple[Any, ...]) -> FieldSet | None:
    """Return the fields of an object with only metadata and maps of scalars; None if its metadata has other parts."""
    assert present.flat is not None
    metadata = msgspec.structs.astuple(values[empty.metadata])
    inner = empty.in_metadata.of(metadata)
    if inner.flat is None:
        return None
    maps = chain(map(metadata.__getitem__, inner.flat), map(values.__getitem__, present.flat))
    keys = tuple(map(tuple, maps))
    few = sum(map(len, keys)) <= _FEW_KEYS and sum(map(len, chain.from_iterable(keys))) <= LONGEST_KEY
    return (_remembered_with_maps if few else _with_maps)(present, inner, keys)


def _with_maps(present: PresentFields, inner: PresentFields, keys: tuple[tuple[str, ...], ...]) -> FieldSet:
    """Return the fields of objects with these fields, with these fields in metadata, and these keys in their maps."""
    count = len(inner.doubtful)
    below = _with_keys(inner, keys[:count])
    children = _with_keys(present, keys[count:])
    if below:
        children[METADATA] = FieldSet.of(below, member=False)
    return FieldSet.of(children, member=False) if children else NOTHING


_remembered_with_maps: Final = remembered("apiserver.ownership.structs.with_maps", size=512)(_with_maps)


def _with_keys(present: PresentFields, keys: tuple[tuple[str, ...], ...]) -> dict[str, FieldSet]:
    maps = [field for _, field in present.doubtful if field.element != METADATA]
    return present.certain | {
        field.element: _keys(names, member=True) for field, names in zip(maps, keys, strict=True) if names
    }


def _fields_by_part(
    empty: _EmptyObject, present: PresentFields, values: tuple[Any, ...], ignored: FieldSet
) -> FieldSet:
    children = dict(present.certain)
    for element in ignored.children:
        children.pop(element, None)
    for index, field in present.doubtful:
        if field.element in ignored.children:
            continue
        before, after = empty.fields[index], values[index]
        if field.is_leaf:
            is_written = after or not field.omits(after)
            if is_written and (not before.json or before.differs_from(after, field)):
                children[field.element] = ONE_FIELD
            continue
        below = _metadata(after, field.shape) if field.element == METADATA else _part(before.value, after, field)
        if below is not None:
            children[field.element] = below
    return FieldSet.of(children, member=False) if children else NOTHING


def _metadata(metadata: KubeStruct, shape: Shape) -> FieldSet | None:
    assert type(shape) is StructShape
    values = msgspec.structs.astuple(metadata)
    present = _present_in_metadata(shape).of(values)
    children = dict(present.certain)
    for index, field in present.doubtful:
        value = values[index]
        if not value and field.omits(value):
            continue
        if field.is_leaf:
            children[field.element] = ONE_FIELD
        elif field.element == _OWNERS:
            children[field.element] = _added(value, field.shape)
        elif (below := _part(field.default, value, field)) is not None:
            children[field.element] = below
    return FieldSet.of(children, member=False) if children else None


_OWNERS: Final = "f:ownerReferences"
_SPEC: Final = "f:spec"


@cache
def _present_in_metadata(shape: StructShape) -> PresentByMask:
    untracked = UNTRACKED.children[METADATA].children
    fields = fields_of(shape)
    tracked = [None if field.element in untracked else field for field in fields]
    return PresentByMask(tracked, tuple([field.default for field in fields]))


def _part(before: Any, after: Any, field: Field) -> FieldSet | None:
    """Return what the creator owns of a field that is no leaf; ``before`` is its value in an empty object."""
    if field.is_flat:  # its values are different in every object, and do not matter
        return _keys(after, member=True) if after else None
    return _part_of_shared(before, after, field) if field.element == _SPEC else _part_by_json(before, after, field)


def _new_part(before: Any, after: Any, field: Field) -> FieldSet | None:
    fields, _ = _field_changes(before, after, field)
    return None if fields.empty else fields


def _json_key(before: Any, after: Any, field: Field) -> tuple[Field, bytes] | None:
    # ``before`` is always the same for a field, so it is not in the key.
    body = encode(after)
    return (field, body) if len(body) <= REMEMBERED_PART else None


_part_by_json: Final = remembered("apiserver.ownership.structs.part", size=KNOWN, key=_json_key)(_new_part)
# Objects of one template have the same object as their spec, which need not be encoded for the key.
_part_of_shared: Final = remembered("apiserver.ownership.structs.shared part", size=64, key=IDENTITY)(_part_by_json)


class _EmptyField(msgspec.Struct, frozen=True):
    """A field of an object without anything."""

    value: Any
    json: bytes
    """The JSON that is always written; empty if the field is left out."""

    def differs_from(self, leaf: Any, field: Field) -> bool:
        """Return True if a leaf is not what is always written."""
        if type(leaf) is str and type(self.value) is str:
            return leaf != self.value
        if self.json in _EMPTY_JSON:
            return encode(leaf) != self.json
        return not _field_changes(self.value, leaf, field)[0].empty


_EMPTY_JSON: Final = frozenset({b"null", b"{}"})
"""Values with only one spelling."""


class _EmptyObject(msgspec.Struct, frozen=True):
    """An object without anything, and the tables of the fields of others."""

    fields: tuple[_EmptyField, ...]
    present: PresentByMask
    metadata: int
    """Position of the metadata."""
    in_metadata: PresentByMask


@remembered("apiserver.ownership.structs.empty", size=256)
def _empty(kind: type[KubeStruct]) -> _EmptyObject:
    shape = struct_shape(kind)
    assert isinstance(shape, StructShape)
    values = msgspec.structs.astuple(kind())
    fields = fields_of(shape)
    parts = tuple(
        _EmptyField(value, b"" if value is field.default else encode(value))
        for value, field in zip(values, fields, strict=True)
    )
    place = [field.element for field in fields].index(METADATA)
    tracked = [None if field.element in {"f:kind", "f:apiVersion"} else field for field in fields]
    present = PresentByMask(tracked, values, _is_certain_beside_empty)
    return _EmptyObject(parts, present, place, _present_in_metadata(shape.fields["metadata"]))


def _is_certain_beside_empty(field: Field) -> bool:
    # A field that an empty object writes, too, has to be compared with what that one has.
    return field.is_certain and not hasattr(field.default, "factory") and field.default is not MISSING
