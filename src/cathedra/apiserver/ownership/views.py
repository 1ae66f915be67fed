"""An object in one version as ownership sees it, and how it differs from an older state of itself.

Two states of an object have most of their fields in common, and new objects of one kind spell much the same. So both
are compared as JSON first, field by field of the top level: what has the same bytes is not read at all, and what
follows from two spellings is remembered.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from cathedra.api.decoding import has_known_fields
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.struct import encode
from cathedra.apiserver.names import SUFFIX_ALPHABET
from cathedra.apiserver.ownership.comparison import Outline, outline
from cathedra.apiserver.ownership.typed import MISSING, field_shape
from cathedra.apiserver.patches.schema import Leaf, ListShape, MapShape, Shape, StructShape
from cathedra.remembering import remembered

__all__ = ["View", "differences", "doubtful_fields", "is_plain"]

REMEMBERED_PART: Final = 4 * 1024
"""Bytes of both spellings of a field up to which it is remembered how they differ."""
_MADE_UP: Final = re.compile(rb'-[%s]{5}"(?!:)' % SUFFIX_ALPHABET.encode())
_READ_PARTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class View:
    """An object in one version: its JSON and the shape of it. The values must not be changed."""

    __slots__ = ("_parts", "_value", "body", "shape")

    def __init__(self, body: bytes, shape: Shape) -> None:
        self.body = body
        self.shape = shape
        self._value: dict[str, Any] | None = None
        self._parts: dict[str, bytes] | None = None

    @staticmethod
    def of(value: Any, shape: Shape) -> View:
        """Plain values, or an object, as a view."""
        return View(encode(value), shape)

    @property
    def value(self) -> dict[str, Any]:
        """The object as plain values; read once."""
        if self._value is None:
            value: dict[str, Any] = msgspec.json.decode(self.body)
            self._value = value
        return self._value

    def parts(self) -> dict[str, bytes]:
        """The JSON of every field of the top level; taken apart once."""
        if self._parts is None:
            self._parts = {key: bytes(part) for key, part in _READ_PARTS.decode(self.body).items()}
        return self._parts

    def is_plain(self, key: str) -> bool:
        """Whether a field of the top level holds nothing opaque and no map out of order: then it would be spelled the
        same if it were read and written as plain values, as what is applied is."""
        part = _form(self.parts()[key])
        return (
            _plain(part, self.shape, key)
            if len(part) <= REMEMBERED_PART
            else is_plain(self.value[key], field_shape(self.shape, key))
        )

    def has_known_fields(self, key: str, gvk: GroupVersionKind, release: str) -> bool:
        """Whether a release knows all that is in a field of the top level: what a later one stored may say more."""
        part = _form(self.parts()[key])
        check = _kept_known if len(part) <= REMEMBERED_PART else _known
        return check(part, key, gvk, release)


def _form(part: bytes) -> bytes:
    """What stands for all parts that differ in the ends of names that the server has made up, keys aside, as the specs
    of a template's pods do: of what a part holds no text matters."""
    return _MADE_UP.sub(b'"', part)


def differences(old: View, new: View) -> dict[str, Outline]:
    """What differs from ``old`` to ``new``, by path element of the top level; the parts of `outline` of both."""
    before, after = _READ_PARTS.decode(old.body), _READ_PARTS.decode(new.body)
    found = {}
    for key in dict.fromkeys((*before, *after)):
        was, now = before.get(key), after.get(key)
        if was == now:
            continue
        part = _difference(b"" if was is None else bytes(was), b"" if now is None else bytes(now), new.shape, key)
        if part is not None:
            found[f"f:{key}"] = part
    return found


def _difference(was: bytes, now: bytes, shape: Shape, key: str) -> Outline | None:
    if len(was) + len(now) > REMEMBERED_PART:
        return outline(_read(was), _read(now), field_shape(shape, key))
    return _remembered(was, now, shape, key)


@remembered("apiserver.ownership.views.remembered", size=512)
def _remembered(was: bytes, now: bytes, shape: Shape, key: str) -> Outline | None:
    return outline(_read(was), _read(now), field_shape(shape, key))


@remembered("apiserver.ownership.views.plain", size=512)
def _plain(part: bytes, shape: Shape, key: str) -> bool:
    return is_plain(_read(part), field_shape(shape, key))


def _known(part: bytes, key: str, gvk: GroupVersionKind, release: str) -> bool:
    return has_known_fields({key: _read(part)}, gvk, release)


_kept_known: Final = remembered("apiserver.ownership.views.known", size=512)(_known)


def is_plain(value: Any, shape: Shape) -> bool:
    """Whether a value holds nothing opaque and no map out of order."""
    if type(shape) is StructShape and type(value) is dict:
        return _plain_struct(value, shape)
    if isinstance(shape, Leaf):
        return shape.typed
    if isinstance(shape, ListShape):
        return not isinstance(value, list) or all(is_plain(item, shape.element) for item in value)
    if not isinstance(value, dict):
        return True
    if isinstance(shape, StructShape):
        return _plain_struct(value, shape)
    if isinstance(shape, MapShape) and list(value) != sorted(value):
        return False
    return all(is_plain(item, field_shape(shape, name)) for name, item in value.items())


def _plain_struct(value: dict[str, Any], shape: StructShape) -> bool:
    doubtful = doubtful_fields(shape)
    return value.keys() <= shape.fields.keys() and all(
        is_plain(value[name], doubtful[name]) for name in value.keys() & doubtful.keys()
    )


@remembered("apiserver.ownership.views.doubtful_fields", size=1024)
def doubtful_fields(shape: StructShape) -> dict[str, Shape]:
    """The fields of a struct whose values may not be `is_plain`; most are texts and numbers, which always are."""
    return {name: inner for name, inner in shape.fields.items() if not _is_always_plain(inner, (shape,))}


def _is_always_plain(shape: Shape, above: tuple[Shape, ...]) -> bool:
    if isinstance(shape, Leaf):
        return shape.typed
    if isinstance(shape, ListShape):
        return _is_always_plain(shape.element, above)
    if not isinstance(shape, StructShape) or shape in above:
        return False
    return all(_is_always_plain(inner, (*above, shape)) for inner in shape.fields.values())


def _read(part: bytes) -> Any:
    return msgspec.json.decode(part) if part else MISSING
