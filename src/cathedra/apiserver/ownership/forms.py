"""The form of an applied configuration: everything about it but its texts.

A controller applies the same fields to object after object, and nothing but names differs. The form alone decides
whether a configuration fits its kind, which fields it spells, and which of them an object gains that lacks them. So
what was found out about one configuration holds for all of its form, and merging another needs a look at no shape.

Only what is made of structs, keyed lists and texts has a form here; all else is worked out anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeVar

import msgspec

from cathedra.api.goform import go_values
from cathedra.api.jsonvalue import JSONValue
from cathedra.api.struct import KubeStruct, from_dict, json_names, replace, to_dict
from cathedra.apiserver.ownership.comparison import ADDED, CHANGED, MODIFIED, Outline, outline, spelled
from cathedra.apiserver.ownership.fieldset import FieldSet
from cathedra.apiserver.ownership.structs import fields_of
from cathedra.apiserver.ownership.typed import check, field_set, field_shape, is_leaf, merge
from cathedra.apiserver.ownership.views import doubtful_fields, is_plain
from cathedra.apiserver.patches.schema import Leaf, ListShape, Shape, StructShape, without_nulls

__all__ = ["Forms", "StructForm"]

S = TypeVar("S", bound=KubeStruct)

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

    __slots__ = ("_doubtful", "_held", "_inner", "_keys", "_parts", "_said", "_texts", "shape", "spelled")

    def __init__(self, shape: StructShape, parts: Mapping[str, _Form], spelled: tuple[Any, ...]) -> None:
        self.shape = shape
        self.spelled = spelled
        names = json_names(shape.type).items()
        places = {
            key: (attribute, index, field)
            for index, ((attribute, key), field) in enumerate(zip(names, fields_of(shape), strict=True))
        }
        self._parts = {key: (*places[key], part) for key, part in parts.items()}
        self._keys = self._parts.keys()
        self._texts = [key for key, part in parts.items() if part is _TEXT]
        self._inner = [(key, part) for key, part in parts.items() if part is not _TEXT]
        is_flat = len(self._texts) > 1 and not self._inner
        self._held = attrgetter(*(places[key][0] for key in self._texts)) if is_flat else None
        self._said = itemgetter(*self._texts) if is_flat else None
        """How texts are read of an object and of a configuration, if there is nothing else."""
        doubtful = doubtful_fields(shape).items()
        # Who owns what is worked out beside what is applied.
        self._doubtful = [
            (*places[key][1:], inner) for key, inner in doubtful if key not in parts and key != "managedFields"
        ]

    def fits(self, value: JSONValue) -> bool:
        """Whether a value has this form."""
        if type(value) is not dict or value.keys() != self._keys:
            return False
        for key in self._texts:
            if type(value[key]) is not str:
                return False
        for key, part in self._inner:  # noqa: SIM110  # a generator costs as much as the rest
            if not part.fits(value[key]):
                return False
        return True

    def doubts(self, ignored: FieldSet) -> list[str]:
        """The fields that a configuration of this form leaves alone and that might be spelled otherwise if they were
        read again, but for those that are reset as a whole, whatever is written to them."""
        reset = {element for element, found in ignored.children.items() if found.member}
        return [key for key in doubtful_fields(self.shape) if key not in self._parts and f"f:{key}" not in reset]

    def applied(self, live: S, configuration: Mapping[str, Any]) -> tuple[S, Outline | None] | None:
        """What a configuration of this form makes of ``live`` when it is merged into it, and the `outline` of the
        difference; what is left alone stays the very same. None: a part that is left alone is not plain, so that all
        would have to be read again.

        Raises:
            msgspec.ValidationError, ValueError: what is new cannot be read.
        """
        if self._held is not None and self._said is not None:
            held = self._held(live)
            if held == self._said(configuration) and all(held):
                return live, None
        changes: dict[str, Any] = {}
        texts: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        below: list[tuple[str, Outline]] = []
        values = msgspec.structs.astuple(live)
        for key, item in configuration.items():
            attribute, index, field, part = self._parts[key]
            held = values[index]
            if held is field.default or (not held and field.omits(held)):
                texts[key] = item
                below.append((f"f:{key}", (ADDED, part.spelled)))
                continue
            if part is _TEXT and type(held) is str:
                differs = None if held == item else MODIFIED
                if differs is not None:
                    texts[key] = item
            elif type(part) is StructForm and type(held) is part.shape.type:
                made = part.applied(held, item) if part._leaves_plain(msgspec.structs.astuple(held)) else None
                if made is None:
                    return None
                changes[attribute], differs = made
            else:
                shape, was = self.shape.fields[key], to_dict(held)
                now = item if part is _TEXT else merge(was, item, shape)
                differs = outline(was, now, shape)
                if differs is not None:
                    merged[key] = now
                elif not is_plain(was, shape):
                    return None
            if differs is not None:
                below.append((f"f:{key}", differs))
        if not below:
            return live, None
        if merged:
            texts |= go_values(without_nulls(merged, self.shape))
        if texts:
            read = from_dict(type(live), texts)
            for key in texts:
                attribute = self._parts[key][0]
                changes[attribute] = getattr(read, attribute)
        return replace(live, **changes), (CHANGED, tuple(below))

    def _leaves_plain(self, live: tuple[Any, ...]) -> bool:
        """Whether what a configuration of this form leaves alone would be spelled the same if it were read again."""
        for index, field, shape in self._doubtful:
            held = live[index]
            # What is empty is plain, whether it is spelled or not.
            if held and held is not field.default and not is_plain(to_dict(held), shape):
                return False
        return True


class _ListForm:
    """The form of a keyed list's value: the keys are part of it."""

    __slots__ = ("_found_by", "_items", "spelled")

    def __init__(self, keys: tuple[str, ...], items: list[tuple[Any, StructForm]], spelled: Any) -> None:
        self.spelled = spelled
        self._found_by: Callable[[Any], Any] = itemgetter(*keys)
        self._items = [(self._found_by(item), form) for item, form in items]

    def fits(self, value: JSONValue) -> bool:
        if type(value) is not list or len(value) != len(self._items):
            return False
        for item, (found_by, form) in zip(value, self._items, strict=True):
            if not form.fits(item) or self._found_by(item) != found_by:
                return False
        return True


_Form = _Text | StructForm | _ListForm


class Forms:
    """The forms of the configurations that appliers have applied lately."""

    def __init__(self) -> None:
        self._known: dict[object, list[tuple[StructForm, FieldSet, list[str]]]] = {}

    def find(
        self, applier: str, configuration: JSONValue, shape: Shape, ignored: FieldSet
    ) -> tuple[StructForm, FieldSet, list[str]] | None:
        """The form of a configuration that fits its kind, the fields that it spells without the ignored ones, and its
        `StructForm.doubts`; None if it has no form or does not fit."""
        key = (applier, shape, ignored.number or ignored.raw.data)
        known = self._known.get(key, ())
        for one in known:
            if one[0].fits(configuration):
                return one
        form = None if check(configuration, shape) else _form(configuration, shape)
        if type(form) is not StructForm:
            return None
        found = form, field_set(configuration, shape).without_subtrees(ignored), form.doubts(ignored)
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
    if (
        shape.list_type != "map"
        or not shape.keys
        or not all(type(item) is dict and item.keys() >= set(shape.keys) for item in value)
    ):
        return None
    items = []
    for item in value:
        form = _form(item, shape.element)
        if type(form) is not StructForm:
            return None
        items.append((item, form))
    return _ListForm(shape.keys, items, spelled(value, shape))
