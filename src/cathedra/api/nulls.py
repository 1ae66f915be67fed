"""Null in JSON, with the meaning that it has in Go.

Go writes a nil slice or map as ``null`` unless the field's tag has ``omitempty``, and decodes ``null`` into any field
as its zero value. Our structs do not accept null everywhere, because then every reader of an object would have to
handle None. A body that msgspec refuses for a null is corrected by type and decoded again
(`cathedra.api.struct.decode`).
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, Final, TypeVar

import msgspec

from cathedra.api.quantity import Quantity
from cathedra.api.timestamp import MicroTime, Time

S = TypeVar("S")

_NO_TIME: Final = "0001-01-01T00:00:00Z"
_ZEROES: Final[dict[Any, Any]] = {
    str: "",
    bytes: "",
    bool: False,
    int: 0,
    float: 0,
    Quantity: "0",
    Time: _NO_TIME,
    MicroTime: _NO_TIME,
}
"""Zero values of scalars; opaque JSON has none, for it may be null itself."""


def convert(value: Any, kind: type[S], dec_hook: Callable[[type, Any], Any] | None = None) -> S:
    """Make an object of type ``kind`` of plain values, mended where null stands in a place that has none.

    Raises:
        msgspec.ValidationError: a value has the wrong type; the text names the path.
    """
    try:
        return msgspec.convert(value, kind, dec_hook=dec_hook)
    except msgspec.ValidationError:
        return msgspec.convert(without_nulls(value, kind), kind, dec_hook=dec_hook)


def without_nulls(value: Any, hint: Any) -> Any:
    """Return plain ``value`` with each null as Go reads it into the type ``hint``.

    A field of a struct that is null is left out. A null in a list or map becomes the zero value of its element, or
    stays where elements are pointers. A whole ``value`` of null stays too, for it is no object. Opaque JSON and fields
    that the type has not are left alone. ``value`` itself is not changed.
    """
    return _type_of(hint).below(value)


class _Type:
    """Rules for reading null into a type and the types below it; this one has none below it."""

    def __init__(self, zero: Any, *, is_pointer: bool = False) -> None:
        self._zero = zero
        self._is_pointer = is_pointer

    @property
    def is_leaf(self) -> bool:
        """True if values of this type are not searched for nulls."""
        return type(self) is _Type

    def read(self, value: Any) -> Any:
        """Return ``value``, which may be null itself, without nulls."""
        if value is not None:
            return self.below(value)
        return None if self._is_pointer else self.zero()

    def zero(self) -> Any:
        """Return the zero value."""
        return self._zero

    def below(self, value: Any) -> Any:
        """Return ``value`` without nulls in it."""
        return value


class _Elements(_Type):
    """A list or a map."""

    def __init__(self, element: Any, zero: type, *, is_pointer: bool) -> None:
        super().__init__(None, is_pointer=is_pointer)
        self._hint = element
        self._make = zero

    @cached_property
    def _element(self) -> _Type:
        return _type_of(self._hint)

    def zero(self) -> Any:
        return self._make()

    def below(self, value: Any) -> Any:
        element = self._element
        if type(value) is list:
            if element.is_leaf and None not in value:
                return value
            return [element.read(item) for item in value]
        if type(value) is dict:
            if element.is_leaf and None not in value.values():
                return value
            return {key: element.read(item) for key, item in value.items()}
        return value


class _Struct(_Type):
    """A struct or a dataclass."""

    def __init__(self, kind: type[Any], *, is_pointer: bool) -> None:
        super().__init__(None, is_pointer=is_pointer)
        self._kind = kind

    @cached_property
    def _fields(self) -> dict[str, _Type]:
        """JSON name → type, of the fields below which there may be nulls."""
        if issubclass(self._kind, msgspec.Struct):
            hints = {field.encode_name: field.type for field in msgspec.structs.fields(self._kind)}
        else:
            hints = typing.get_type_hints(self._kind, include_extras=True)
        found = {name: _type_of(hint) for name, hint in hints.items()}
        return {name: one for name, one in found.items() if not one.is_leaf}

    def zero(self) -> Any:
        return {}

    def below(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        fields = self._fields
        return {
            name: item if (inner := fields.get(name)) is None else inner.below(item)
            for name, item in value.items()
            if item is not None
        }


@cache
def _type_of(hint: Any) -> _Type:
    """Return the rules for the type of a field's annotation."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    is_pointer = False
    if origin is typing.Annotated:
        return _type_of(arguments[0])
    if origin in (typing.Union, types.UnionType):
        is_pointer = types.NoneType in arguments
        hint = next(one for one in arguments if one is not types.NoneType)
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            hint = arguments[0]
    if origin in (tuple, list):
        return _Elements(arguments[0], list, is_pointer=is_pointer)
    if origin is dict:
        return _Elements(arguments[1], dict, is_pointer=is_pointer)
    if isinstance(hint, type) and (issubclass(hint, msgspec.Struct) or dataclasses.is_dataclass(hint)):
        return _Struct(hint, is_pointer=is_pointer)
    return _Type(_ZEROES.get(hint), is_pointer=is_pointer)
