"""Patches as values: ``Object{…}`` for apply configurations and ``JSONPatch{…}`` for operations of JSON patch, as
mutating admission policies write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from cathedra.cel import _trampoline
from cathedra.cel._trampoline import Descent
from cathedra.cel.checking import types
from cathedra.cel.checking.types import Type
from cathedra.cel.errors import CostLimitExceeded
from cathedra.cel.library.costs import REWRITTEN
from cathedra.cel.library.messages import json_value
from cathedra.cel.library.overload import Functions, declare
from cathedra.cel.values import CELValue, Duration, Failure, Opaque, Timestamp, decode_key, equal, type_name

OBJECT: Final = "Object"
JSON_PATCH: Final = "JSONPatch"
_TEXTS: Final = ("op", "path", "from")
_MOST_PARTS: Final = 1_000_000
"""Number of values that a patch may have."""


class NotJSON(ValueError):
    """A value has no form in JSON."""


class _AnyField(Mapping[str, Type]):
    """The fields of an ``Object…`` type: every name, of any type, since no schema is known when it is compiled."""

    def __getitem__(self, name: str) -> Type:
        return types.DYN

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


_ANY_FIELD: Final = _AnyField()
_OPERATION_FIELDS: Final[Mapping[str, Type]] = {**dict.fromkeys(_TEXTS, types.STRING), "value": types.DYN}


def field_types(name: str) -> Mapping[str, Type] | None:
    """Return the fields of the patch type of that name; None if it is none."""
    if name == JSON_PATCH:
        return _OPERATION_FIELDS
    return _ANY_FIELD if name == OBJECT or name.startswith(f"{OBJECT}.") else None


class ObjectValue(Opaque):
    """A part of an apply configuration, with the name of its type: ``Object.spec``."""

    __slots__ = ("fields", "type_name")
    equality_is_unit = False

    def __init__(self, type_name: str, fields: Mapping[str, CELValue]) -> None:
        self.type_name, self.fields = type_name, dict(fields)

    def same(self, other: CELValue) -> bool:
        """Return True if the names of the types and the fields are equal."""
        return bool(self.type_name == other.type_name and equal(self.fields, other.fields) is True)

    def misnamed(self) -> str:
        """Return the types within that are not named by the path to them, one line each."""
        return "\n".join(_misnamed(self))

    def plain(self) -> CELValue:
        """Return the value as JSON.

        Raises:
            NotJSON: something in it has no such form.
            CostLimitExceeded: it is too large.
        """
        return _trampoline.run(_Conversion(safe=False).convert(self))


class PatchOperation(Opaque):
    """One operation of a JSON patch."""

    __slots__ = ("fields",)
    type_name = JSON_PATCH
    equality_is_unit = False

    def __init__(self, fields: Mapping[str, CELValue]) -> None:
        self.fields = dict(fields)

    def same(self, other: CELValue) -> bool:
        """Return True if both have equal fields."""
        return equal(self.fields, other.fields) is True

    def plain(self) -> dict[str, CELValue]:
        """Return the value as JSON patches write it.

        Raises:
            NotJSON: its value has no such form, or the types in it are named wrongly.
            CostLimitExceeded: it is too large.
        """
        shown: dict[str, CELValue] = {"op": self.fields.get("op", ""), "path": self.fields.get("path", "")}
        if self.fields.get("from"):
            shown["from"] = self.fields["from"]
        if "value" not in self.fields:
            return shown
        value = self.fields["value"]
        if isinstance(value, ObjectValue) and (problem := value.misnamed()):
            raise NotJSON(f"type mismatch: {problem}")
        try:
            shown["value"] = _trampoline.run(_Conversion(safe=True).convert(value))
        except NotJSON as error:
            raise NotJSON(
                f"JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}"
            ) from None
        return shown


def _misnamed(root: ObjectValue) -> Iterator[str]:
    waiting: list[tuple[CELValue, str]] = [(root, root.type_name)]
    for _ in range(_MOST_PARTS):
        if not waiting:
            return
        value, path = waiting.pop()
        if isinstance(value, ObjectValue):
            if value.type_name != path:
                yield (
                    f'unexpected type name "{value.type_name}", expected "{path}", '
                    "which matches field name path from root Object type"
                )
            waiting.extend((inner, f"{path}.{name}") for name, inner in reversed(value.fields.items()))
        elif isinstance(value, list):
            waiting.extend((inner, path) for inner in reversed(value))
        elif isinstance(value, dict):
            waiting.extend((inner, path) for inner in reversed(value.values()))
    raise CostLimitExceeded


class _Conversion:
    """A value on its way to JSON, its parts counted: lists that share their parts are small until they are written."""

    def __init__(self, *, safe: bool) -> None:
        """``safe``: integers that a double cannot hold become texts, as in protobuf's JSON values."""
        self.safe = safe
        self.parts = 0

    def convert(self, value: CELValue) -> Descent[CELValue]:
        self.parts += 1
        if self.parts > _MOST_PARTS:
            raise CostLimitExceeded
        if isinstance(value, ObjectValue):
            value = value.fields
        if isinstance(value, list):
            made = []
            for one in value:
                made.append((yield self.convert(one)))
            return made
        if isinstance(value, dict):
            entries = {}
            for key, one in value.items():
                name = decode_key(key)
                if not isinstance(name, str):
                    raise NotJSON(f'map key "{name}" is of type {type_name(name)}, not string')
                entries[name] = yield self.convert(one)
            return entries
        return self.scalar(value)

    def scalar(self, value: CELValue) -> CELValue:
        if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(int(value)) if self.safe and abs(value) >= 2**53 else int(value)
        if value is None or isinstance(value, (str, bool, float)):
            return value
        if isinstance(value, (bytes, Duration, Timestamp)):
            return json_value(value)
        raise NotJSON(f"unsupported conversion from {type_name(value)} to JSON")


def build(name: str, fields: Mapping[str, CELValue]) -> CELValue:
    """Return the value of a literal of a patch type; None if it is of another type."""
    if name == JSON_PATCH:
        for text in _TEXTS:
            if not isinstance(fields.get(text, ""), str):
                return Failure(f"unexpected type for JSONPatchType '{text}' field")
        return PatchOperation(fields)
    return ObjectValue(name, fields) if field_types(name) is not None else None


def escape_key(key: str) -> str:
    """Return a key as a part of a path in a JSON patch: ``a/b`` is written ``a~1b``."""
    return key.replace("~", "~0").replace("/", "~1")


OVERLOADS: Final[Functions] = {
    "jsonpatch.escapeKey": (declare("string_jsonpatch_escapeKey_string: string -> string", escape_key, REWRITTEN),),
}
