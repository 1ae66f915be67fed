"""The form of an applied configuration: everything about it but its texts.

A controller applies the same fields to object after object, and nothing but names differs. The form alone decides
whether a configuration fits its kind, which fields it spells, and which of them an object gains that lacks them. So
what was found out about one configuration holds for all of its form, and merging another needs a look at no shape.

Only what is made of structs, keyed lists and texts has a form here; all else is worked out anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cathedra.api.jsonvalue import JSONValue
from cathedra.apiserver.ownership.comparison import ADDED, CHANGED, MODIFIED, Outline, outline, spelled
from cathedra.apiserver.ownership.fieldset import FieldSet
from cathedra.apiserver.ownership.typed import MISSING, check, field_set, field_shape, is_leaf, merge
from cathedra.apiserver.patches.schema import Leaf, ListShape, Shape, StructShape

__all__ = ["Forms", "StructForm"]

_REMEMBERED: Final = 256
"""Appliers of which forms are remembered."""
_FORMS_EACH: Final = 4
"""Forms that are remembered of one of them."""
_SIZE: Final = 4 * 1024
"""Bytes of the fields that a form spells up to which it is remembered."""


class _Text:
    """The form of a text, whatever it says."""

    spelled: tuple[Any, ...] = ()

    def fits(self, value: JSONValue) -> bool:
        return type(value) is str


_TEXT: Final = _Text()


class StructForm:
    """The form of a struct's value."""

    __slots__ = ("_names", "_parts", "shape", "spelled")

    def __init__(self, shape: StructShape, parts: Mapping[str, _Form], spelled: tuple[Any, ...]) -> None:
        self.shape = shape
        self.spelled = spelled
        self._parts = dict(parts)
        self._names = self._parts.keys()

    def fits(self, value: JSONValue) -> bool:
        """Whether a value has this form."""
        if type(value) is not dict or value.keys() != self._names:
            return False
        parts = self._parts
        for key, item in value.items():
            part = parts[key]
            if not (type(item) is str if part is _TEXT else part.fits(item)):
                return False
        return True

    def merged(self, live: Mapping[str, Any], applied: Mapping[str, Any]) -> tuple[Any, Outline | None]:
        """What `merge` makes of a live value and one of this form, and the `outline` of the difference; ``live`` itself
        if nothing differs."""
        changes: dict[str, Any] = {}
        below: list[tuple[str, Outline]] = []
        for key, item in applied.items():
            part, was = self._parts[key], live.get(key, MISSING)
            if was is MISSING:
                changes[key] = item
                below.append((f"f:{key}", (ADDED, part.spelled)))
                continue
            if part is _TEXT:
                now, differs = item, None if was == item else MODIFIED
            elif type(part) is StructForm and type(was) is dict:
                now, differs = part.merged(was, item)
            else:
                shape = field_shape(self.shape, key)
                now = merge(was, item, shape)
                differs = outline(was, now, shape)
            if differs is not None:
                changes[key] = now
                below.append((f"f:{key}", differs))
        return ({**live, **changes}, (CHANGED, tuple(below))) if below else (live, None)


class _ListForm:
    """The form of a keyed list's value: the keys are part of it."""

    __slots__ = ("_items", "_keys", "spelled")

    def __init__(self, keys: tuple[str, ...], items: list[tuple[list[Any], StructForm]], spelled: Any) -> None:
        self.spelled = spelled
        self._keys = keys
        self._items = items

    def fits(self, value: JSONValue) -> bool:
        if type(value) is not list or len(value) != len(self._items):
            return False
        for item, (found_by, form) in zip(value, self._items, strict=True):
            if not form.fits(item) or _texts(item, self._keys) != found_by:
                return False
        return True


def _texts(item: Any, keys: tuple[str, ...]) -> list[Any]:
    return [item[key] for key in keys]


_Form = _Text | StructForm | _ListForm


class Forms:
    """The forms of the configurations that appliers have applied lately."""

    def __init__(self) -> None:
        self._known: dict[object, list[tuple[StructForm, FieldSet]]] = {}

    def find(
        self, applier: str, configuration: JSONValue, shape: Shape, ignored: FieldSet
    ) -> tuple[StructForm, FieldSet] | None:
        """The form of a configuration that fits its kind, and the fields that it spells without the ignored ones; None
        if it has no form or does not fit."""
        key = (applier, shape, ignored.raw.data)
        known = self._known.get(key, ())
        for one in known:
            if one[0].fits(configuration):
                return one
        form = _form(configuration, shape)
        if type(form) is not StructForm or check(configuration, shape):
            return None
        found = form, field_set(configuration, shape).without_subtrees(ignored)
        if len(found[1].raw.data) <= _SIZE:
            if key not in self._known and len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[key] = [found, *known[: _FORMS_EACH - 1]]
        return found


def _form(value: JSONValue, shape: Shape) -> _Form | None:
    if isinstance(shape, Leaf):
        return _TEXT if type(value) is str else None
    if not value or is_leaf(shape):
        return None
    if isinstance(shape, ListShape):
        return _list_form(value, shape) if type(value) is list else None
    if type(value) is not dict or not isinstance(shape, StructShape):
        return None
    parts = {}
    for key, item in value.items():
        part = _form(item, field_shape(shape, key))
        if part is None:
            return None
        parts[key] = part
    return StructForm(shape, parts, spelled(value, shape))


def _list_form(value: list[Any], shape: ListShape) -> _ListForm | None:
    if shape.list_type != "map" or not all(type(item) is dict and item.keys() >= set(shape.keys) for item in value):
        return None
    items = []
    for item in value:
        form = _form(item, shape.element)
        if type(form) is not StructForm:
            return None
        items.append((_texts(item, shape.keys), form))
    return _ListForm(shape.keys, items, spelled(value, shape))
