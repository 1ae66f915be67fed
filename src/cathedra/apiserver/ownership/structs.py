"""How an object differs from an older state of itself, seen on the structs.

Two states of an object share nearly all their parts, and what is the very same is not looked into. So this is the way
of a write whose states are both structs; values that are not, as a custom resource's, are compared as JSON
(`cathedra.apiserver.ownership.views`). Both say the same, for a struct has the fields that its JSON has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

import msgspec

from cathedra.api.struct import KubeStruct, encode, json_names, to_dict
from cathedra.apiserver.ownership.comparison import ADDED, CHANGED, MODIFIED, REMOVED, Outline, outline
from cathedra.apiserver.ownership.typed import MISSING, elements, field_shape, is_leaf
from cathedra.apiserver.patches.schema import ListShape, Shape, StructShape

__all__ = ["Field", "became", "fields_of", "is_absent", "parts_of", "struct_differences"]

_SCALARS: Final = frozenset({str, int, bool})


class Field:
    """A field of a struct: its path element, its shape, the value with which it is left out, and whether it counts as
    one piece. There is one of each."""

    __slots__ = ("default", "element", "is_leaf", "shape")

    def __init__(self, element: str, shape: Shape, default: Any) -> None:
        self.element = element
        self.shape = shape
        self.default = default
        self.is_leaf = is_leaf(shape)


def struct_differences(old: KubeStruct, new: KubeStruct, shape: StructShape) -> dict[str, Outline]:
    """What differs from ``old`` to ``new``, by path element of the top level; as `views.differences` of both.

    Raises:
        TypedError: an element of a keyed list has no key.
    """
    found = {}
    for before, after, field in zip(*map(msgspec.structs.astuple, (old, new)), fields_of(shape), strict=True):
        if before is after:
            continue
        part = became(before, after, field)
        if part is not None:
            found[field.element] = part
    return found


def _changed_fields(old: KubeStruct, new: KubeStruct, shape: StructShape) -> Iterator[tuple[str, Outline]]:
    for before, after, field in zip(*map(msgspec.structs.astuple, (old, new)), fields_of(shape), strict=True):
        if before is not after:
            part = became(before, after, field)
            if part is not None:
                yield field.element, part


def became(before: Any, after: Any, field: Field) -> Outline | None:
    """What became of a field with these values.

    Raises:
        TypedError: an element of a keyed list has no key.
    """
    was = MISSING if is_absent(before, field.default) else before
    now = MISSING if is_absent(after, field.default) else after
    return _outline(was, now, field.shape)


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


def is_absent(value: Any, default: Any) -> bool:
    """Whether a field with this value is not written, as msgspec decides it: the default itself, or an empty map."""
    return value is default or (type(value) is dict and not value and getattr(default, "factory", None) is dict)


def _outline(old: Any, new: Any, shape: Shape) -> Outline | None:
    """What became of a value; `comparison.outline` of both as JSON."""
    if old is new:
        return None
    if old is MISSING:
        return ADDED, _spelled(new, shape)
    if is_leaf(shape):
        if new is MISSING:
            return REMOVED, ()
        return None if _same(old, new, shape) else MODIFIED
    if isinstance(shape, StructShape) and type(old) is type(new) and type(old) is shape.type:
        below = tuple(_changed_fields(old, new, shape))
        return (CHANGED, below) if below else None
    before, after = dict(parts_of(old, shape)), dict(parts_of(new, shape))
    if not before and not after:
        if new is MISSING:
            return REMOVED, ()
        return None if _same(old, new, shape) else MODIFIED
    below = tuple(_pairwise(before, after))
    if new is MISSING:
        return REMOVED, below
    return (CHANGED, below) if below else None


_Parts = dict[str, tuple[Any, Shape]]


def _pairwise(before: _Parts, after: _Parts) -> Iterator[tuple[str, Outline]]:
    for element, (was, shape) in before.items():
        now, _ = after.get(element, (MISSING, shape))
        part = _outline(was, now, shape)
        if part is not None:
            yield element, part
    for element, (now, shape) in after.items():
        if element not in before:
            yield element, (ADDED, _spelled(now, shape))


def _spelled(value: Any, shape: Shape) -> tuple[Any, ...]:
    if is_leaf(shape):
        return ()
    return tuple((element, _spelled(item, inner)) for element, (item, inner) in dict(parts_of(value, shape)).items())


def parts_of(value: Any, shape: Shape) -> Iterable[tuple[str, tuple[Any, Shape]]]:
    """The fields, keys or elements that a value which is no leaf has, with their shapes; nothing for an explicit null
    or no value at all."""
    if isinstance(value, KubeStruct) and isinstance(shape, StructShape):
        return [
            (field.element, (item, field.shape))
            for item, field in zip(msgspec.structs.astuple(value), fields_of(shape), strict=True)
            if not is_absent(item, field.default)
        ]
    if isinstance(value, dict):
        return [(f"f:{key}", (item, field_shape(shape, key))) for key, item in value.items()]
    if isinstance(value, tuple) and isinstance(shape, ListShape):
        inner = shape.element
        keys = [_keys(item, shape) for item in value]
        return [(element, (item, inner)) for (element, _), item in zip(elements(keys, shape), value, strict=True)]
    return ()


def _keys(item: Any, shape: ListShape) -> Any:
    """As much of a list's element as its path element needs, as plain values."""
    if not isinstance(item, KubeStruct):
        return item
    names, defaults = _key_fields(type(item), shape.keys)
    found = zip(names, (getattr(item, attribute) for attribute in names.values()), strict=True)
    return {
        name: value if type(value) in _SCALARS else to_dict(value)
        for name, value in found
        if not is_absent(value, defaults[name])
    }


@cache
def _key_fields(kind: type[KubeStruct], keys: tuple[str, ...]) -> tuple[dict[str, str], dict[str, Any]]:
    """JSON name → attribute of the fields that elements are found by, and JSON name → value with which they are left
    out."""
    attributes = {name: attribute for attribute, name in json_names(kind).items()}
    fields = dict(zip(attributes, fields_of(StructShape(kind)), strict=True))
    return {key: attributes[key] for key in keys}, {key: fields[key].default for key in keys}


def _same(old: Any, new: Any, shape: Shape) -> bool:
    """Whether two values spell the same; texts and numbers are compared as they are."""
    if type(old) is type(new) and type(old) in _SCALARS:
        return bool(old == new)
    return encode(old) == encode(new) or outline(to_dict(old), to_dict(new), shape) is None
