"""Fields in which two JSON documents of one kind differ, seen along the shape of the kind.

Custom resources have no structs, and an applied configuration is a document, too. Two states of an object have most of
their fields in common, so both are first cut at the fields of the top level: fields with equal bytes are not decoded,
and what follows from two spellings of a field is remembered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from cathedra.api.decoding import has_known_fields
from cathedra.api.jsonvalue import JSONValue
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.struct import encode
from cathedra.apiserver.names import SUFFIX_ALPHABET
from cathedra.apiserver.ownership.fieldset import (
    NOTHING,
    ONE_FIELD,
    SET,
    UNCHANGED,
    Changes,
    FieldSet,
    changes_of,
)
from cathedra.apiserver.ownership.typed import MISSING, elements, field_shape, is_leaf
from cathedra.apiserver.patches.schema import Leaf, ListShape, MapShape, Shape, StructShape
from cathedra.remembering import remembered

REMEMBERED_PART: Final = 4 * 1024
"""Bytes of both spellings of a field up to which their difference is remembered."""
_READ_PARTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class View:
    """An object in one version: its JSON and the shape of its kind. The values must not be changed."""

    __slots__ = ("_parts", "_value", "body", "shape")

    def __init__(self, body: bytes, shape: Shape) -> None:
        self.body = body
        self.shape = shape
        self._value: dict[str, Any] | None = None
        self._parts: dict[str, bytes] | None = None

    @staticmethod
    def of(value: Any, shape: Shape) -> View:
        """Return the view of plain values or of an object."""
        return View(encode(value), shape)

    @property
    def value(self) -> dict[str, Any]:
        """The object as plain values, decoded once."""
        if self._value is None:
            value: dict[str, Any] = msgspec.json.decode(self.body)
            self._value = value
        return self._value

    def parts(self) -> dict[str, bytes]:
        """Return the JSON of every field of the top level."""
        if self._parts is None:
            self._parts = {key: bytes(part) for key, part in _READ_PARTS.decode(self.body).items()}
        return self._parts

    def is_plain(self, key: str) -> bool:
        """Return True if a field of the top level has no opaque value and no map out of order.

        Such a field keeps its JSON if it is decoded to plain values and encoded again, as an apply does.
        """
        part = _without_suffixes(self.parts()[key])
        if len(part) <= REMEMBERED_PART:
            return _is_plain(part, self.shape, key)
        return is_plain(self.value[key], field_shape(self.shape, key))

    def has_known_fields(self, key: str, gvk: GroupVersionKind, release: str) -> bool:
        """Return True if ``release`` has every field within a field of the top level.

        A server of a later release may have stored more than an earlier one knows.
        """
        part = _without_suffixes(self.parts()[key])
        check = _remembered_known if len(part) <= REMEMBERED_PART else _has_known
        return check(part, key, gvk, release)


_SUFFIX: Final = re.compile(rb'-[%s]{5}"(?!:)' % SUFFIX_ALPHABET.encode())


def _without_suffixes(part: bytes) -> bytes:
    # Pods of one template differ in names that the server generated. Neither check reads texts other than keys, so
    # without the suffixes all these pods share one entry of the memo.
    return _SUFFIX.sub(b'"', part)


@remembered("apiserver.ownership.documents.is_plain", size=512)
def _is_plain(part: bytes, shape: Shape, key: str) -> bool:
    return is_plain(_read(part), field_shape(shape, key))


def _has_known(part: bytes, key: str, gvk: GroupVersionKind, release: str) -> bool:
    return has_known_fields({key: _read(part)}, gvk, release)


_remembered_known: Final = remembered("apiserver.ownership.documents.known", size=512)(_has_known)


# --- differences --------------------------------------------------------------------------------------------------


def differences(old: View, new: View) -> Changes:
    """Return the fields in which ``new`` differs from ``old``.

    Raises:
        TypedError: an element of a keyed list has no key.
    """
    before, after = _READ_PARTS.decode(old.body), _READ_PARTS.decode(new.body)
    touched: dict[str, FieldSet] = {}
    removed: dict[str, FieldSet] = {}
    for key in dict.fromkeys((*before, *after)):
        was, now = before.get(key), after.get(key)
        if was == now:
            continue
        found = _difference(b"" if was is None else bytes(was), b"" if now is None else bytes(now), new.shape, key)
        _note(f"f:{key}", found, touched, removed)
    return changes_of(touched, removed)


def _difference(was: bytes, now: bytes, shape: Shape, key: str) -> Changes:
    compare = _remembered_difference if len(was) + len(now) <= REMEMBERED_PART else _compared
    return compare(was, now, shape, key)


def _compared(was: bytes, now: bytes, shape: Shape, key: str) -> Changes:
    return changes(_read(was), _read(now), field_shape(shape, key))


_remembered_difference: Final = remembered("apiserver.ownership.documents.difference", size=512)(_compared)


def _read(part: bytes) -> Any:
    return msgspec.json.decode(part) if part else MISSING


def _note(element: str, found: Changes, touched: dict[str, FieldSet], removed: dict[str, FieldSet]) -> None:
    """Add what changed at and below a path element to what changed around it."""
    was_set, was_removed = found
    if was_set is not NOTHING:
        touched[element] = was_set
    if was_removed is not NOTHING:
        removed[element] = was_removed


def changes(old: Any, new: Any, shape: Shape) -> Changes:
    """Return what changed from ``old`` to ``new``, at and below a value; `MISSING` stands for no value.

    Raises:
        TypedError: an element of a keyed list has no key.
    """
    if old is new or (old is not MISSING and old == new and (isinstance(shape, StructShape) or _is_same(old, new))):
        return UNCHANGED
    if old is MISSING:
        return added(new, shape), NOTHING
    if new is MISSING:
        return NOTHING, added(old, shape)
    if is_leaf(shape):
        return SET
    pairs = _list_pairs(old, new, shape) if isinstance(shape, ListShape) else _field_pairs(old, new, shape)
    touched: dict[str, FieldSet] = {}
    removed: dict[str, FieldSet] = {}
    is_empty = True
    for element, inner, before, after in pairs:
        is_empty = False
        _note(element, changes(before, after, inner), touched, removed)
    # Where both are empty, as null and [], the value itself counts as one field: structured-merge-diff keeps the
    # difference between empty and absent so.
    return SET if is_empty else changes_of(touched, removed)


_Pair = tuple[str, Shape, Any, Any]
"""Path element, shape, and both values of a field or element."""


def _field_pairs(old: Any, new: Any, shape: Shape) -> Iterator[_Pair]:
    before = old if isinstance(old, dict) else {}
    after = new if isinstance(new, dict) else {}
    for key in dict.fromkeys((*before, *after)):
        yield f"f:{key}", field_shape(shape, key), before.get(key, MISSING), after.get(key, MISSING)


def _list_pairs(old: Any, new: Any, shape: ListShape) -> Iterator[_Pair]:
    before = dict(elements(old if isinstance(old, list) else [], shape))
    after = dict(elements(new if isinstance(new, list) else [], shape))
    for element in dict.fromkeys((*before, *after)):
        yield element, shape.element, before.get(element, MISSING), after.get(element, MISSING)


def added(value: JSONValue, shape: Shape) -> FieldSet:
    """Return the fields at and below a value that was not there before, or is no longer there.

    Raises:
        TypedError: an element of a keyed list has no key.
    """
    if is_leaf(shape):
        return ONE_FIELD
    if isinstance(shape, ListShape):
        if not isinstance(value, list):
            return ONE_FIELD
        below = {element: added(item, shape.element) for element, item in elements(value, shape)}
    elif isinstance(value, dict):
        below = {f"f:{key}": added(item, field_shape(shape, key)) for key, item in value.items()}
    else:
        return ONE_FIELD
    return FieldSet.of(below, member=True) if below else ONE_FIELD


def _is_same(old: Any, new: Any) -> bool:
    """Return True if values that are equal in Python are equal as JSON: 1 is not true."""
    if isinstance(old, dict):
        return all(_is_same(value, new[key]) for key, value in old.items())
    if isinstance(old, list):
        return all(map(_is_same, old, new))
    return isinstance(old, bool) is isinstance(new, bool)


# --- values that keep their JSON ----------------------------------------------------------------------------------


def is_plain(value: Any, shape: Shape) -> bool:
    """Return True if a value has no opaque part and no map out of order."""
    if type(shape) is StructShape and type(value) is dict:
        return _is_plain_struct(value, shape)
    if isinstance(shape, Leaf):
        return shape.typed
    if isinstance(shape, ListShape):
        return not isinstance(value, list) or all(is_plain(item, shape.element) for item in value)
    if not isinstance(value, dict):
        return True
    if isinstance(shape, StructShape):
        return _is_plain_struct(value, shape)
    if isinstance(shape, MapShape) and list(value) != sorted(value):
        return False
    return all(is_plain(item, field_shape(shape, name)) for name, item in value.items())


def _is_plain_struct(value: dict[str, Any], shape: StructShape) -> bool:
    doubtful = doubtful_fields(shape)
    return value.keys() <= shape.fields.keys() and all(
        is_plain(value[name], doubtful[name]) for name in value.keys() & doubtful.keys()
    )


@remembered("apiserver.ownership.documents.doubtful_fields", size=1024)
def doubtful_fields(shape: StructShape) -> dict[str, Shape]:
    """Return the fields of a struct whose values may not be `is_plain`; texts and numbers always are."""
    return {name: inner for name, inner in shape.fields.items() if not _is_always_plain(inner, (shape,))}


def _is_always_plain(shape: Shape, above: tuple[Shape, ...]) -> bool:
    if isinstance(shape, Leaf):
        return shape.typed
    if isinstance(shape, ListShape):
        return _is_always_plain(shape.element, above)
    if not isinstance(shape, StructShape) or shape in above:
        return False
    return all(_is_always_plain(inner, (*above, shape)) for inner in shape.fields.values())
