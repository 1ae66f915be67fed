"""The messages of protobuf that CEL knows by name: wrappers, JSON values, durations, timestamps.

Kubernetes never needs them, but its environment has them, so they can be named (``google.protobuf.Duration``) and
written (``google.protobuf.Int64Value{value: 5}``). The checker sees the CEL type that a message stands for; what a
literal gives at run time is in `cathedra.cel.library.messages`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cathedra.cel.checking import types
from cathedra.cel.checking.types import Type

__all__ = ["CONSTANTS", "MESSAGES", "fields_of"]

_PREFIX: Final = "google.protobuf."
_VALUES: Final = types.list_of(types.DYN)
_STRUCT: Final = types.map_of(types.STRING, types.DYN)

MESSAGES: Final[Mapping[str, Type]] = {
    _PREFIX + name: stands_for
    for name, stands_for in {
        "Any": types.ANY,
        "BoolValue": types.nullable(types.BOOL),
        "BytesValue": types.nullable(types.BYTES),
        "DoubleValue": types.nullable(types.DOUBLE),
        "Duration": types.DURATION,
        "Empty": types.struct("google.protobuf.Empty"),
        "FloatValue": types.nullable(types.DOUBLE),
        "Int32Value": types.nullable(types.INT),
        "Int64Value": types.nullable(types.INT),
        "ListValue": _VALUES,
        "StringValue": types.nullable(types.STRING),
        "Struct": _STRUCT,
        "Timestamp": types.TIMESTAMP,
        "UInt32Value": types.nullable(types.UINT),
        "UInt64Value": types.nullable(types.UINT),
        "Value": types.DYN,
    }.items()
}
"""Name → the CEL type that the message stands for."""

CONSTANTS: Final[Mapping[str, tuple[Type, int]]] = {"google.protobuf.NullValue.NULL_VALUE": (types.INT, 0)}
"""Values of enumerations."""

_MOMENT: Final = {"seconds": types.INT, "nanos": types.INT}
_FIELDS: Final[Mapping[str, Mapping[str, Type]]] = {
    "Any": {"type_url": types.STRING, "value": types.BYTES},
    "Duration": _MOMENT,
    "Empty": {},
    "ListValue": {"values": _VALUES},
    "Struct": {"fields": _STRUCT},
    "Timestamp": _MOMENT,
    "Value": {
        "null_value": types.INT,
        "number_value": types.DOUBLE,
        "string_value": types.STRING,
        "bool_value": types.BOOL,
        "struct_value": _STRUCT,
        "list_value": _VALUES,
    },
}


def fields_of(message: str) -> Mapping[str, Type] | None:
    """The fields that a literal of ``message`` may have, by type; None if it is no such message."""
    stands_for = MESSAGES.get(message)
    if stands_for is None:
        return None
    known = _FIELDS.get(message.removeprefix(_PREFIX))
    return known if known is not None else {"value": types.plain(stands_for)}
