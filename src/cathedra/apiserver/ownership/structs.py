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
from functools import cache, cached_property, partial
from operator import attrgetter, itemgetter, ne
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from cathedra.api.boundedcache import LONGEST_KEY
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
    FieldSets,
    changes_of,
    keep_set,
    known_set,
)
from cathedra.apiserver.ownership.typed import MISSING, element_of, element_of_text, field_shape, is_leaf
from cathedra.apiserver.patches.schema import STRING, ListShape, MapShape, Shape, StructShape, struct_shape
from cathedra.remembering import IDENTITY, TEMPLATES, remembered

REMEMBERED_PART: Final = 4 * 1024
"""Bytes of a field's JSON up to which the fields of a new object in it are remembered."""
KNOWN: Final = 1024
"""Number of such fields that are remembered."""
_SCALARS: Final = frozenset({str, int, bool})
_UID_KEYS: Final = ("uid",)
"""The key of lists whose elements are other objects: each object has other elements."""
_FEW: Final = 8
"""Texts of a list, or keys of a map, up to which their path elements are remembered."""


class Field:
    """A field of a struct; there is one object for each.

    ``default`` is the value with which the field is not written. ``is_leaf`` is true if the field counts as one piece,
    ``is_flat`` if it is a map whose values do.
    """

    def __init__(self, element: str, shape: Shape, default: Any) -> None:
        self.element = element
        self.shape = shape
        self.default = default
        self.is_leaf = is_leaf(shape)
        self._is_map = getattr(default, "factory", None) is dict
        self.is_flat = self._is_map and type(shape) is MapShape and not self.is_leaf and is_leaf(shape.value)
        self.absent: Any = {} if self._is_map else default if type(default) in _PLAIN else MISSING
        """The field is stored with all values but those equal to this one; `MISSING` if `omits` has to decide."""
        is_struct = type(shape) is StructShape and not self.is_leaf and not isinstance(default, KubeStruct)
        self.of_parts: type | None = shape.type if is_struct and type(shape) is StructShape else None
        """The type of the field's values, if they are structs that are compared field by field."""

    @cached_property
    def parts(self) -> Places:
        """The fields of the field's values, if they are structs."""
        return places_of(self.shape) if type(self.shape) is StructShape else ()

    @cached_property
    def added(self) -> Added:
        """The function that returns the fields at and below a value that was not there before, or is no longer."""
        return added_below(self.shape)

    def omits(self, value: Any) -> bool:
        """Return True if the field is not stored with this value: the default, an empty map, or a written ``[]``."""
        return value is self.default or value is EMPTY_LIST or (self._is_map and type(value) is dict and not value)

    @property
    def may_omit(self) -> bool:
        """True if `absent` is not all that `omits` is about: a list that is always written, a struct as default."""
        return self.absent is MISSING and (type(self.shape) is ListShape or isinstance(self.default, KubeStruct))


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


Places = tuple[tuple[int, Field], ...]
"""Fields of a struct, each with its position among all of them."""


@cache
def places_of(shape: StructShape) -> Places:
    """Return all fields of a struct with their positions."""
    return tuple(enumerate(fields_of(shape)))


Added = Callable[[Any], FieldSet]
"""Value → the fields at and below it, if it was not there before, or is no longer there."""
Owned = Callable[[Any], FieldSet]
"""Value of a field → its paths at and below that field; `NOTHING` if it has none."""


class PresentFields(msgspec.Struct, frozen=True, eq=False):
    """The fields of structs in which the same fields are present."""

    certain: FieldSets
    """Fields that are one path whatever their value is."""
    parts: tuple[tuple[int, Owned], ...]
    """The positions of the others."""
    paths: tuple[tuple[str, ...], ...]
    """Their paths."""
    whole: FieldSet
    """The certain fields as a set."""
    read_absent: Callable[[tuple[Any, ...]], Any]
    absent: Any
    read_present: Callable[[tuple[Any, ...]], Iterable[Any]]
    """A struct has these fields if ``read_absent`` returns ``absent`` for its values, and ``read_present`` returns no
    empty one. This shows it in most cases, and with fewer steps than the mask."""


class PresentByMask(dict[tuple[bool, ...], PresentFields]):
    """The fields of structs of one type, by which of the fields differ from the values of an absent one.

    Most structs of a type set one of a few groups of fields, so this is worked out once for each group.
    """

    __slots__ = ("_absent", "_last", "_member", "_owned", "_places")

    def __init__(
        self,
        places: Iterable[tuple[tuple[str, ...], Field] | None],
        absent: Iterable[Any],
        owned: Callable[[Field], Owned | None],
        *,
        member: bool,
    ) -> None:
        """``places`` has path and field of each value, None for those that are left out of account; ``absent`` the
        values of absent ones. ``owned`` returns None for a field that is one path whatever its value is. With
        ``member`` the struct itself belongs to its fields."""
        self._places = tuple(places)
        self._absent = tuple(absent)
        self._owned = owned
        self._member = member
        self._last: PresentFields | None = None

    def fields(self, values: tuple[Any, ...]) -> FieldSet:
        """Return the fields of a struct with these values."""
        present = self._last  # most structs have the same fields as the one before
        if present is None or present.read_absent(values) != present.absent or not all(present.read_present(values)):
            present = self._last = self[tuple(map(ne, values, self._absent))]
        if not present.parts:
            return present.whole
        key: list[object] = [present]
        filled = ""
        for index, owned in present.parts:
            below = owned(values[index])
            key.append(below.number)
            filled = filled or below.element
        return known_set(tuple(key), filled) or keep_set(tuple(key), self._together(present, values))

    def _together(self, present: PresentFields, values: tuple[Any, ...]) -> FieldSet:
        below = [owned(values[index]) for index, owned in present.parts]
        parts = {path: found for path, found in zip(present.paths, below, strict=True) if found is not NOTHING}
        return FieldSet.at_paths(present.certain | parts, member=self._member)

    def added(self, value: Any) -> FieldSet:
        """Return a struct and its fields."""
        return ONE_FIELD if value is None else self.fields(astuple(value))

    def __missing__(self, mask: tuple[bool, ...]) -> PresentFields:
        fields = [(index, *place) for index, place in enumerate(self._places) if place is not None and mask[index]]
        owned = [(index, path, self._owned(field)) for index, path, field in fields]
        certain = {path: ONE_FIELD for _, path, below in owned if below is None}
        parts = tuple([(index, below) for index, _, below in owned if below is not None])
        paths = tuple([path for _, path, below in owned if below is not None])
        others_at = [index for index, place in enumerate(self._places) if place is not None and not mask[index]]
        certain_at = [index for index, _, _ in fields if self._absent[index] is not MISSING]
        absent = _values_at(others_at)(self._absent)
        if any(_values_at(certain_at)(self._absent)):
            absent = MISSING  # a value that is not empty may be the absent one, so the mask has to decide
        whole = FieldSet.at_paths(certain, member=self._member)
        read_absent, read_present = _values_at(others_at), _values_at(certain_at)
        found = PresentFields(certain, parts, paths, whole, read_absent, absent, read_present)
        # A client chooses which fields it sends, so the number of masks is bounded.
        if len(self) < _MOST_MASKS:
            self[mask] = found
        return found


def _values_at(places: list[int]) -> Callable[[tuple[Any, ...]], Any]:
    """Return the function that reads the values at these places of a tuple, as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    return itemgetter(slice(places[0], places[0] + 1) if places else slice(0))


_PLAIN: Final = frozenset({type(None), bool, int, str, bytes, tuple})
"""Types of default values that are equal to no value with which the field is stored."""
_MOST_MASKS: Final = 256


@cache
def _present_in(shape: StructShape) -> PresentByMask:
    fields = fields_of(shape)
    places = [((field.element,), field) for field in fields]
    return PresentByMask(places, [field.absent for field in fields], _owned_of, member=True)


def _owned_of(field: Field) -> Owned | None:
    if field.may_omit:
        return lambda value: NOTHING if field.omits(value) else field.added(value)
    return None if field.is_leaf else field.added


# --- changes ------------------------------------------------------------------------------------------------------


def struct_changes(old: KubeStruct, new: KubeStruct, places: Places) -> Changes:
    """Return the changes of the fields at ``places`` between two structs of a type.

    Raises:
        TypedError: an element of a keyed list has no key.
    """
    touched: FieldSets = {}
    removed: FieldSets = {}
    _note_changes((), places, astuple(old), astuple(new), touched, removed)
    return FieldSet.at_paths(touched) if touched else NOTHING, FieldSet.at_paths(removed) if removed else NOTHING


@cache
def tracked_places(shape: StructShape) -> Places:
    """Return the fields of an object without those that have no owner in any object."""
    return _places_without(shape, UNTRACKED)


def _places_without(shape: StructShape, untracked: FieldSet) -> Places:
    places = []
    for index, field in places_of(shape):
        known = untracked.children.get(field.element)
        if known is None:
            places.append((index, field))
        elif known.children and type(field.shape) is StructShape:
            kept = Field(field.element, field.shape, field.default)
            kept.parts = _places_without(field.shape, known)
            places.append((index, kept))
    return tuple(places)


def _note_changes(
    path: tuple[str, ...],
    places: Places,
    befores: tuple[Any, ...],
    afters: tuple[Any, ...],
    touched: FieldSets,
    removed: FieldSets,
) -> None:
    """Add what changed in the fields below a path, from the values of their struct before and after."""
    for index, field in places:
        before, after = befores[index], afters[index]
        # Identity first: a write shares all parts but one or two with the state before it.
        if before is after:
            continue
        at = path + (field.element,)  # noqa: RUF005  # to unpack the path would make a list first
        if field.of_parts is type(before) is type(after):
            _note_changes(at, field.parts, astuple(before), astuple(after), touched, removed)  # type: ignore[arg-type]  # `of_parts`
        elif field.is_flat and not before and not after:
            continue
        elif after is field.default or (not after and field.omits(after)):
            if before or not field.omits(before):
                removed[at] = field.added(before)
        elif before is field.default or (not before and field.omits(before)):
            touched[at] = field.added(after)
        else:
            was_set, was_removed = _changed_parts(before, after, field)
            if was_set is not NOTHING:
                touched[at] = was_set
            if was_removed is not NOTHING:
                removed[at] = was_removed


def _changed_parts(before: Any, after: Any, field: Field) -> Changes:
    """Return the changes at and below a field that is stored with both values."""
    shape = field.shape
    if field.is_leaf:
        return UNCHANGED if _is_same(before, after, shape) else SET
    if field.is_flat and type(shape) is MapShape:
        return _changed_keys(before, after, shape.value)
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
        return struct_changes(old, new, places_of(shape))
    before, after = dict(_parts(old, shape)), dict(_parts(new, shape))
    if not before and not after:
        return UNCHANGED if _is_same(old, new, shape) else SET
    touched: dict[str, FieldSet] = {}
    removed: dict[str, FieldSet] = {}
    for element, (was, inner) in before.items():
        if element not in after:
            removed[element] = added_below(inner)(was)
        else:
            was_set, was_removed = _changes(was, after[element][0], inner)
            if was_set is not NOTHING:
                touched[element] = was_set
            if was_removed is not NOTHING:
                removed[element] = was_removed
    for element, (now, inner) in after.items():
        if element not in before:
            touched[element] = added_below(inner)(now)
    return changes_of(touched, removed)


@cache
def added_below(shape: Shape) -> Added:
    """Return the function for the values of a shape."""
    if is_leaf(shape):
        return lambda _: ONE_FIELD
    if type(shape) is StructShape:
        return _present_in(shape).added
    if type(shape) is ListShape:
        if shape.keys == _UID_KEYS and type(shape.element) is StructShape:
            return partial(_added_by_uid, shape, added_below(shape.element))
        return partial(_added_texts if shape.element is STRING else _added_items, shape)
    if type(shape) is MapShape and is_leaf(shape.value):
        return partial(_keys, member=True)
    return partial(_added_parts, shape)


# Functions of their own: comprehensions make cells of the variables that they share with a function, for each call.
def _added_items(shape: ListShape, items: tuple[Any, ...] | None) -> FieldSet:
    if not items:
        return ONE_FIELD
    below = dict(zip([_element(item, shape) for item in items], map(added_below(shape.element), items), strict=True))
    return FieldSet(True, below) if shape.keys == _UID_KEYS else FieldSet.of(below, member=True)


def _added_by_uid(shape: ListShape, added: Added, items: tuple[Any, ...] | None) -> FieldSet:
    if items and len(items) == 1 and items[0].uid:
        return FieldSet.of_one(element_of_text("uid", items[0].uid), added(items[0]))
    return _added_items(shape, items)


def _added_texts(shape: ListShape, texts: tuple[str, ...] | None) -> FieldSet:
    if not texts:
        return ONE_FIELD
    few = len(texts) <= _FEW and sum(map(len, texts)) <= LONGEST_KEY
    return (_remembered_texts if few else _set_of_texts)(texts, shape)


def _set_of_texts(texts: tuple[str, ...], shape: ListShape) -> FieldSet:
    return FieldSet.of({element_of(text, shape): ONE_FIELD for text in texts}, member=True)


_remembered_texts: Final = remembered("apiserver.ownership.structs.added_texts", size=512)(_set_of_texts)


def _added_parts(shape: Shape, value: Any) -> FieldSet:
    return FieldSet.of({key: added_below(inner)(item) for key, (item, inner) in _parts(value, shape)}, member=True)


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
        for item, field in zip(astuple(value), fields_of(shape), strict=True)
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


def created_fields(new: KubeStruct, ignored: FieldSet) -> FieldSet:
    """Return the fields of a new object that its creator owns; ``ignored`` are whole fields of the top level.

    They are those in which it differs from an object without anything (`struct_changes`).
    A new object shares no part with that one, so the comparison would look into every field. But most objects have the
    same fields as the one created before them: each field of the top level and of the metadata is worked out by itself
    and remembered by its JSON. Owner references alone are different in every object. Of maps of scalars, as labels and
    the data of a config map, only the keys matter.

    Raises:
        TypedError: an element of a keyed list has no key.
    """
    kind, values = _created(type(new), tuple(ignored.children)), astuple(new)
    return kind.present.fields(values + astuple(values[kind.metadata]))


class _Created(msgspec.Struct, frozen=True):
    """The fields of new objects of a kind."""

    present: PresentByMask
    """By the values of the object, followed by those of its metadata."""
    metadata: int
    """Position of the metadata."""


@remembered("apiserver.ownership.structs.created", size=256)
def _created(kind: type[KubeStruct], ignored: tuple[str, ...]) -> _Created:
    shape = struct_shape(kind)
    assert type(shape) is StructShape
    fields = fields_of(shape)
    without = dict(zip(fields, astuple(kind()), strict=True))
    position = [field.element for field in fields].index(METADATA)
    inner = fields[position].shape
    assert type(inner) is StructShape

    def owned(field: Field) -> Owned | None:
        if field not in without:
            return _owned_in_metadata(field)
        value = without[field]
        if not field.is_leaf:
            return _owned_part(field, value)
        return None if _is_certain(field, value) else partial(_leaf_beside, field, value, encode(value))

    untracked = {"f:kind", "f:apiVersion", METADATA, *ignored}
    places: list[tuple[tuple[str, ...], Field] | None] = [
        None if field.element in untracked else ((field.element,), field) for field in fields
    ]
    absent = [
        value if field.is_leaf and (value is None or _is_certain(field, value)) else field.absent
        for field, value in without.items()
    ]
    untracked = set(UNTRACKED.children[METADATA].children)
    for field in fields_of(inner):
        places.append(None if field.element in untracked else ((METADATA, field.element), field))
        absent.append(field.absent)
    return _Created(PresentByMask(places, absent, owned, member=False), position)


def _is_certain(field: Field, without: Any) -> bool:
    """Return True if a leaf belongs to the creator with all values but that of an object without anything."""
    return type(without) in _SCALARS or field.absent is not MISSING


def _leaf_beside(field: Field, without: Any, body: bytes, leaf: Any) -> FieldSet:
    """Return what the creator owns of a leaf that is written without any value, too; ``body`` is its JSON then."""
    if not leaf and field.omits(leaf):
        return NOTHING
    differs = encode(leaf) != body if body in _EMPTY_JSON else not _is_same(without, leaf, field.shape)
    return ONE_FIELD if differs else NOTHING


_EMPTY_JSON: Final = frozenset({b"null", b"{}"})
"""Values with only one spelling."""


def _owned_in_metadata(field: Field) -> Owned | None:
    return _owned_of(field) if field.is_leaf or field.element == _OWNERS else _owned_part(field, field.default)


_OWNERS: Final = "f:ownerReferences"
_SPEC: Final = "f:spec"


def _owned_part(field: Field, without: Any) -> Owned:
    """Return what finds the fields that the creator owns of a field that is no leaf; ``without`` is its value in an
    object without anything."""
    if field.is_flat:  # its values are different in every object, and do not matter
        return field.added
    return partial(_part_of_shared if field.element == _SPEC else _part_by_json, field, without)


def _new_part(field: Field, before: Any, after: Any) -> FieldSet:
    touched: FieldSets = {}
    _note_changes((), ((0, field),), (before,), (after,), touched, {})
    return FieldSet.at_paths(touched).children.get(field.element, NOTHING)


def _json_key(field: Field, before: Any, after: Any) -> tuple[Field, bytes] | None:
    # ``before`` is always the same for a field, so it is not in the key.
    body = encode(after)
    return (field, body) if len(body) <= REMEMBERED_PART else None


_part_by_json: Final = remembered("apiserver.ownership.structs.part", size=KNOWN, key=_json_key)(_new_part)
# Objects of one template have the same object as their spec, which need not be encoded for the key.
_part_of_shared: Final = remembered("apiserver.ownership.structs.shared part", size=TEMPLATES, key=IDENTITY)(
    _part_by_json
)
