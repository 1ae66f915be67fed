"""The fields that differ between an object and an older state of itself, seen on the structs.

Two states of an object share nearly all their parts, and what is the very same is not looked into. So this is the way
of a write whose states are both structs; values that are not, as a custom resource's, are compared as JSON
(`cathedra.apiserver.ownership.views`). Both say the same, for a struct has the fields that its JSON has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cache
from itertools import compress
from operator import attrgetter, is_not
from typing import Any, Final

import msgspec

from cathedra.api.boundedcache import LONGEST_KEY, is_short
from cathedra.api.struct import EMPTY_LIST, KubeStruct, encode, json_names, to_dict
from cathedra.apiserver.ownership.comparison import Changes, outline
from cathedra.apiserver.ownership.fieldset import NOTHING, ONE_FIELD, FieldSet
from cathedra.apiserver.ownership.typed import MISSING, element_of, element_of_text, field_shape, is_leaf
from cathedra.apiserver.patches.schema import STRING, Leaf, ListShape, MapShape, Shape, StructShape
from cathedra.remembering import remembered

__all__ = ["METADATA", "Field", "Given", "GivenFields", "added", "changed", "fields_of", "keys_of", "struct_changes"]

METADATA: Final = "f:metadata"
_SCALARS: Final = frozenset({str, int, bool})
_SAME: Final[Changes] = NOTHING, NOTHING
_SET: Final[Changes] = ONE_FIELD, NOTHING
_OWN_KEYS: Final = ("uid",)
"""The key of lists whose elements are found by what no other object has."""
_FEW: Final = 8
"""Texts of a list, or keys of a map, up to which their path elements are remembered."""


class Field:
    """A field of a struct: its path element, its shape, the value with which it is left out, whether it counts as one
    piece, and whether it is a map whose values do, left out when it is empty. There is one of each."""

    __slots__ = ("_is_map", "default", "element", "is_flat", "is_leaf", "shape")

    def __init__(self, element: str, shape: Shape, default: Any) -> None:
        self.element = element
        self.shape = shape
        self.default = default
        self.is_leaf = is_leaf(shape)
        self._is_map = getattr(default, "factory", None) is dict
        self.is_flat = self._is_map and type(shape) is MapShape and not self.is_leaf and is_leaf(shape.value)

    def omits(self, value: Any) -> bool:
        """Whether the field is not stored with this value, as msgspec decides it: the default itself, an empty map, or
        an empty list that was spelled out. Where thousands are asked about, those that are plainly there are not."""
        return value is self.default or value is EMPTY_LIST or (self._is_map and type(value) is dict and not value)

    @property
    def is_certain(self) -> bool:
        """Whether it is stored with any other value: it has no parts, and is no map that may be empty."""
        return type(self.shape) is Leaf and not self._is_map


@cache
def fields_of(shape: StructShape) -> tuple[Field, ...]:
    """The fields of a struct, in order of declaration."""
    kind = shape.type
    defaults = kind.__struct_defaults__
    required = len(kind.__struct_fields__) - len(defaults)
    return tuple(
        Field(f"f:{name}", shape.fields[name], MISSING if index < required else defaults[index - required])
        for index, name in enumerate(json_names(kind).values())
    )


class GivenFields(msgspec.Struct, frozen=True, eq=False):
    """What structs spell that give the same fields."""

    certain: dict[str, FieldSet]
    """Fields that are spelled whatever their values are, by path element."""
    asked: tuple[tuple[int, Field], ...]
    """The others, each with its place, whose values have to be looked at."""
    whole: FieldSet
    """What is certain as a set; that of a new struct, if there are no others."""
    flat: tuple[int, ...] | None
    """The places of the others, metadata aside, if all are maps of scalars."""


class Given(dict[tuple[bool, ...], GivenFields]):
    """What structs of a type spell, by which of their fields differ from values that say nothing."""

    __slots__ = ("_fields", "silent")

    def __init__(self, fields: Iterable[Field | None], silent: tuple[Any, ...]) -> None:
        """``fields`` are those of the type, with None for each that does not count; ``silent`` are the values."""
        self._fields = tuple(fields)
        self.silent = silent

    def __missing__(self, given: tuple[bool, ...]) -> GivenFields:
        fields = [(index, field) for index, field in enumerate(self._fields) if field is not None and given[index]]
        certain = {field.element: ONE_FIELD for _, field in fields if self._is_certain(field)}
        asked = tuple([(index, field) for index, field in fields if field.element not in certain])
        others = [(index, field.is_flat) for index, field in asked if field.element != METADATA]
        flat = tuple([index for index, _ in others]) if all(is_flat for _, is_flat in others) else None
        found = GivenFields(certain, asked, FieldSet.of(certain, member=True), flat)
        if len(self) < _MOST_GIVEN:
            self[given] = found
        return found

    def _is_certain(self, field: Field) -> bool:
        """Whether one that differs is spelled whatever it is."""
        return field.is_certain


_MOST_GIVEN: Final = 64
"""Of a type, of how many sets of fields it is remembered what they spell."""


@cache
def _given(shape: StructShape) -> Given:
    fields = fields_of(shape)
    return Given(fields, tuple([field.default for field in fields]))


def struct_changes(old: KubeStruct, new: KubeStruct, shape: StructShape) -> Changes:
    """The fields in which ``new`` differs from ``old``.

    Raises:
        TypedError: an element of a keyed list has no key.
    """
    touched: dict[str, FieldSet] = {}
    removed: dict[str, FieldSet] = {}
    befores, afters = msgspec.structs.astuple(old), msgspec.structs.astuple(new)
    pairs = zip(befores, afters, fields_of(shape), strict=True)
    for before, after, field in compress(pairs, map(is_not, befores, afters)):
        was_set, was_removed = changed(before, after, field)
        if was_set is not NOTHING:
            touched[field.element] = was_set
        if was_removed is not NOTHING:
            removed[field.element] = was_removed
    # A write goes down two structs; to put both sets together is not worth a call.
    was_set = FieldSet.of(touched, member=False) if touched else NOTHING
    return was_set, FieldSet.of(removed, member=False) if removed else NOTHING


def changed(before: Any, after: Any, field: Field) -> Changes:
    """What differs at and below a field that has these values.

    Raises:
        TypedError: an element of a keyed list has no key.
    """
    if field.is_flat and not before and not after:
        return _SAME
    default = field.default
    if after is default or (not after and field.omits(after)):
        return _SAME if field.omits(before) else (NOTHING, added(before, field.shape))
    if before is default or (not before and field.omits(before)):
        return (ONE_FIELD if field.is_leaf else added(after, field.shape)), NOTHING
    shape = field.shape
    if field.is_leaf:
        return _SAME if _is_same(before, after, shape) else _SET
    if field.is_flat and type(shape) is MapShape:
        return _changed_keys(before, after, shape.value)
    if type(shape) is StructShape and type(before) is type(after) is shape.type:
        return struct_changes(before, after, shape)
    return _changed(before, after, shape)


def _changed_keys(old: dict[str, Any], new: dict[str, Any], inner: Shape) -> Changes:
    """What differs between two maps of values of a shape that counts as one piece."""
    if inner is STRING:  # as in most maps
        touched = [key for key, value in new.items() if old.get(key) != value]
    else:
        touched = [key for key, value in new.items() if key not in old or not _is_same(old[key], value, inner)]
    removed = () if old.keys() <= new.keys() else [key for key in old if key not in new]
    return keys_of(touched) if touched else NOTHING, keys_of(removed) if removed else NOTHING


def keys_of(keys: Collection[str], *, member: bool = False) -> FieldSet:
    """The set of these keys of a map whose values count as one piece each, and with ``member`` of the map itself.
    Objects of one sort have the same few keys, whatever the values are."""
    few = len(keys) <= _FEW and sum(map(len, keys)) <= LONGEST_KEY
    known = _kept_known_keys if few else _known_keys
    return known(tuple(keys), member)


def _known_keys(keys: tuple[str, ...], member: bool) -> FieldSet:
    return FieldSet.of({f"f:{key}": ONE_FIELD for key in keys}, member=member)


_kept_known_keys: Final = remembered("apiserver.ownership.structs.known_keys", size=512)(_known_keys)


def _changed(old: Any, new: Any, shape: Shape) -> Changes:
    if old is new:
        return _SAME
    if is_leaf(shape):
        return _SAME if _is_same(old, new, shape) else _SET
    if type(shape) is StructShape and type(old) is type(new) and type(old) is shape.type:
        return struct_changes(old, new, shape)
    before, after = dict(_parts(old, shape)), dict(_parts(new, shape))
    if not before and not after:
        return _SAME if _is_same(old, new, shape) else _SET
    touched: dict[str, FieldSet] = {}
    removed: dict[str, FieldSet] = {}
    for element, (was, inner) in before.items():
        if element not in after:
            removed[element] = added(was, inner)
        else:
            was_set, was_removed = _changed(was, after[element][0], inner)
            if was_set is not NOTHING:
                touched[element] = was_set
            if was_removed is not NOTHING:
                removed[element] = was_removed
    for element, (now, inner) in after.items():
        if element not in before:
            touched[element] = added(now, inner)
    was_set = FieldSet.of(touched, member=False) if touched else NOTHING
    return was_set, FieldSet.of(removed, member=False) if removed else NOTHING


def added(value: Any, shape: Shape) -> FieldSet:
    """The fields at and below a value that was not there before, or is no more.

    Raises:
        TypedError: an element of a keyed list has no key.
    """
    if is_leaf(shape):
        return ONE_FIELD
    if type(shape) is StructShape and (type(value) is shape.type or isinstance(value, KubeStruct)):
        given, values = _given(shape), msgspec.structs.astuple(value)
        spelled = given[tuple(map(is_not, values, given.silent))]
        if not spelled.asked:
            return spelled.whole
        fields = dict(spelled.certain)
        for index, field in spelled.asked:
            item = values[index]
            if item or not field.omits(item):
                fields[field.element] = ONE_FIELD if field.is_leaf else added(item, field.shape)
        return FieldSet.of(fields, member=True)
    if type(value) is tuple and value and type(value[0]) is str and len(value) <= _FEW and is_short(*value):
        return _added_texts(value, shape)
    if type(value) is dict and type(shape) is MapShape and is_leaf(shape.value):
        return keys_of(value, member=True)
    if type(shape) is ListShape and type(value) is tuple:
        inner = shape.element
        if shape.keys == _OWN_KEYS and len(value) == 1:
            return FieldSet.of_one(_element(value[0], shape), added(value[0], inner))
        each = [ONE_FIELD] * len(value) if is_leaf(inner) else [added(item, inner) for item in value]
        below = dict(zip([_element(item, shape) for item in value], each, strict=True))
        return FieldSet(True, below) if shape.keys == _OWN_KEYS else FieldSet.of(below, member=True)
    return FieldSet.of({key: added(item, inner) for key, (item, inner) in _parts(value, shape)}, member=True)


@remembered("apiserver.ownership.structs.added_texts", size=512)
def _added_texts(texts: tuple[str, ...], shape: Shape) -> FieldSet:
    return FieldSet.of({key: ONE_FIELD for key, _ in _parts(texts, shape)}, member=True)


def _parts(value: Any, shape: Shape) -> Iterable[tuple[str, tuple[Any, Shape]]]:
    """The fields, keys or elements that a value which is no leaf has, with their shapes; nothing for an explicit null
    or no value at all."""
    if isinstance(value, KubeStruct) and isinstance(shape, StructShape):
        return [(field.element, (item, field.shape)) for item, field in _present(value, shape)]
    if isinstance(value, dict):
        return [(f"f:{key}", (item, field_shape(shape, key))) for key, item in value.items()]
    if isinstance(value, tuple) and isinstance(shape, ListShape):
        return [(_element(item, shape), (item, shape.element)) for item in value]
    return ()


def _present(value: KubeStruct, shape: StructShape) -> list[tuple[Any, Field]]:
    """The fields of a struct that are written, with their values."""
    return [
        (item, field)
        for item, field in zip(msgspec.structs.astuple(value), fields_of(shape), strict=True)
        if item is not field.default and (item or not field.omits(item))
    ]


def _element(item: Any, shape: ListShape) -> str:
    """The path element of a list's item."""
    kind: Any = type(item)
    found_by = _found_by(kind, shape.keys)
    if found_by is not None:
        key, read, field = found_by
        value = read(item)
        if type(value) is str and value is not field.default:  # as in most lists
            return element_of_text(key, value)
    return element_of(_keys(item, shape), shape)


@cache
def _found_by(kind: type[object], keys: tuple[str, ...]) -> tuple[str, Callable[[Any], Any], Field] | None:
    """JSON name, reader and field of the only one that structs of a type are found by."""
    return _key_fields(kind, keys)[0] if len(keys) == 1 and issubclass(kind, KubeStruct) else None


def _keys(item: Any, shape: ListShape) -> Any:
    """As much of a list's element as its path element needs, as plain values."""
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
    """JSON name, reader and field of those that elements are found by."""
    attributes = {name: attribute for attribute, name in json_names(kind).items()}
    fields = dict(zip(attributes, fields_of(StructShape(kind)), strict=True))
    return tuple((key, attrgetter(attributes[key]), fields[key]) for key in keys)


def _is_same(old: Any, new: Any, shape: Shape) -> bool:
    """Whether two values spell the same; texts and numbers are compared as they are."""
    if type(old) is type(new) and type(old) in _SCALARS:
        return bool(old == new)
    before, after = encode(old), encode(new)
    return before == after or outline(msgspec.json.decode(before), msgspec.json.decode(after), shape) is None
