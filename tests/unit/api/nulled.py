"""Objects of any type as Go may write them: nulls wherever Go has nil, and the same objects with nothing there."""

from __future__ import annotations

import random
import types
import typing
from typing import Any, Final

import msgspec

from cathedra.api.struct import KubeStruct, MicroTime, Quantity, RawJSON, Time

__all__ = ["Nulled", "nulled"]

_DEEPEST: Final = 7
_SAMPLES: Final[dict[Any, Any]] = {
    str: "x",
    bool: True,
    int: 1,
    float: 1.5,
    bytes: "eA==",
    Quantity: "1",
    Time: "2026-01-01T00:00:00Z",
    MicroTime: "2026-01-01T00:00:00.000001Z",
    RawJSON: {"opaque": None, "list": [None, {"a": None}]},
}
_ZEROES: Final[dict[Any, Any]] = {
    str: "",
    bool: False,
    int: 0,
    float: 0.0,
    bytes: "",
    Quantity: "0",
    Time: "0001-01-01T00:00:00Z",
}


class Nulled(typing.NamedTuple):
    """Plain values with nulls, and the same with their meaning written out: absent fields and zero elements."""

    written: Any
    meant: Any


def nulled(kind: type[KubeStruct], chance: random.Random) -> Nulled:
    """An object of a type in which each field is null, or filled down to its last element, by chance."""
    return _struct(kind, chance, 0)


def _struct(kind: type[KubeStruct], chance: random.Random, depth: int) -> Nulled:
    written: dict[str, Any] = {}
    meant: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name in ("kind", "apiVersion"):
            continue
        if chance.random() < 0.4 or (depth > _DEEPEST and not _is_scalar(field.type)):
            written[field.encode_name] = None
            continue
        value = _value(field.type, chance, depth + 1)
        written[field.encode_name], meant[field.encode_name] = value
    return Nulled(written, meant)


def _is_scalar(hint: Any) -> bool:
    return _plain(hint) in _SAMPLES


def _plain(hint: Any) -> Any:
    """The type of a field without ``None`` and bounds."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(one for one in typing.get_args(hint) if one is not types.NoneType)
    return typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint


def _value(hint: Any, chance: random.Random, depth: int) -> Nulled:
    hint = _plain(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        items = [_element(arguments[0], chance, depth) for _ in range(chance.randrange(3))]
        return Nulled([one.written for one in items], [one.meant for one in items])
    if origin is dict:
        entries = {key: _element(arguments[1], chance, depth) for key in "ab"[: chance.randrange(3)]}
        return Nulled(
            {key: one.written for key, one in entries.items()}, {key: one.meant for key, one in entries.items()}
        )
    if isinstance(hint, type) and issubclass(hint, KubeStruct):
        return _struct(hint, chance, depth)
    return Nulled(_SAMPLES[hint], _SAMPLES[hint])


def _element(hint: Any, chance: random.Random, depth: int) -> Nulled:
    """An element of a list or a map: null stands for its zero value."""
    if chance.random() > 0.2:
        return _value(hint, chance, depth)
    plain = _plain(hint)
    if plain is RawJSON or types.NoneType in typing.get_args(hint):
        return Nulled(None, None)
    if plain in _ZEROES:
        return Nulled(None, _ZEROES[plain])
    return Nulled(None, [] if typing.get_origin(plain) is tuple else {})
