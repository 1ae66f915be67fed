"""Values of protobuf message literals (`cathedra.cel.checking.types`)."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from typing import Final

from cathedra.cel import _trampoline
from cathedra.cel._trampoline import Descent
from cathedra.cel.library.operators import timestamp_of
from cathedra.cel.library.times import duration_text, timestamp_text
from cathedra.cel.values import MAX_INT, MIN_INT, CELValue, Duration, Failure, Opaque, Timestamp, UInt, type_name

Fields = Mapping[str, CELValue]


class Empty(Opaque):
    """``google.protobuf.Empty{}``, which holds nothing."""

    __slots__ = ()
    type_name = "google.protobuf.Empty"
    equality_is_unit = False

    def same(self, other: CELValue) -> bool:
        """Return True: all are the same."""
        return True


def build(message: str, fields: Fields) -> CELValue:
    """Return the value of ``message{…fields}``."""
    maker = _MAKERS.get(message)
    if maker is None:
        return Failure(f"unknown type '{message}'")
    for name, value in fields.items():
        container = _CONTAINERS.get(f"{message}.{name}")
        if container is not None and not isinstance(value, container):
            return Failure(f"unsupported field type for {message}.{name}: {type_name(value)}")
        wrong = _unfit(message, name, value)
        if wrong:
            return Failure(f"field type conversion error for {message}.{name} value type: {wrong}")
    return maker(fields)


_INT32: Final = (-(2**31), 2**31 - 1)
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "google.protobuf.Int32Value.value": _INT32,
    "google.protobuf.UInt32Value.value": (0, 2**32 - 1),
    "google.protobuf.Duration.nanos": _INT32,
    "google.protobuf.Timestamp.nanos": _INT32,
    "google.protobuf.Value.null_value": _INT32,
}
_CONTAINERS: Final[Mapping[str, type]] = {
    "google.protobuf.ListValue.values": list,
    "google.protobuf.Struct.fields": dict,
}
_CLASSES: Final[Mapping[str, tuple[type, str]]] = {
    "google.protobuf.BoolValue.value": (bool, "bool"),
    "google.protobuf.BytesValue.value": (bytes, "[]uint8"),
    "google.protobuf.DoubleValue.value": (float, "float64"),
    "google.protobuf.FloatValue.value": (float, "float32"),
    "google.protobuf.Int32Value.value": (int, "int32"),
    "google.protobuf.Int64Value.value": (int, "int64"),
    "google.protobuf.StringValue.value": (str, "string"),
    "google.protobuf.UInt32Value.value": (UInt, "uint32"),
    "google.protobuf.UInt64Value.value": (UInt, "uint64"),
    "google.protobuf.Duration.seconds": (int, "int64"),
    "google.protobuf.Duration.nanos": (int, "int32"),
    "google.protobuf.Timestamp.seconds": (int, "int64"),
    "google.protobuf.Timestamp.nanos": (int, "int32"),
    "google.protobuf.Any.type_url": (str, "string"),
    "google.protobuf.Any.value": (bytes, "[]uint8"),
    "google.protobuf.Value.null_value": (int, "int32"),
    "google.protobuf.Value.number_value": (float, "float64"),
    "google.protobuf.Value.string_value": (str, "string"),
    "google.protobuf.Value.bool_value": (bool, "bool"),
}


def _unfit(message: str, name: str, value: CELValue) -> str:
    place = f"{message}.{name}"
    wanted = _CLASSES.get(place)
    if wanted is None:
        return ""
    if value.__class__ is not wanted[0]:
        return f"unsupported native conversion from {type_name(value)} to '{wanted[1]}'"
    limits = _RANGES.get(place)
    if limits is not None and isinstance(value, int) and not limits[0] <= value <= limits[1]:
        return "unsigned integer overflow" if value.__class__ is UInt else "integer overflow"
    return ""


def _wrapped(default: CELValue) -> Callable[[Fields], CELValue]:
    return lambda fields: fields.get("value", default)


def _float(fields: Fields) -> CELValue:
    value = fields.get("value", 0.0)
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _duration(fields: Fields) -> CELValue:
    nanos = fields.get("seconds", 0) * 10**9 + fields.get("nanos", 0)
    return Duration(min(max(nanos, MIN_INT), MAX_INT))


def _timestamp(fields: Fields) -> CELValue:
    return timestamp_of(fields.get("seconds", 0) * 10**9 + fields.get("nanos", 0))


def _any(_: Fields) -> CELValue:
    return Failure("unsupported conversion to ref.Val: (*dynamicpb.Message)")


def _json_value(fields: Fields) -> CELValue:
    value = None
    for name, given in fields.items():
        value = None if name == "null_value" else json_value(given)
    return value


def json_value(value: CELValue) -> CELValue:
    """Return a value as JSON has it: integers become doubles, or texts where a double cannot hold them."""
    return _trampoline.run(_as_json(value))


def _as_json(value: CELValue) -> Descent[CELValue]:
    kind = value.__class__
    if kind is int or kind is UInt:
        return float(value) if -(2**53) < value < 2**53 else str(int(value))
    if isinstance(value, list):
        elements = []
        for one in value:
            elements.append((yield _as_json(one)))
        return elements
    if isinstance(value, dict):
        entries = {}
        for key, one in value.items():
            entries[key] = yield _as_json(one)
        return entries
    if kind is bytes:
        return base64.b64encode(value).decode()
    if kind is Duration:
        return duration_text(value)
    return timestamp_text(value) if kind is Timestamp else value


_MAKERS: Final[Mapping[str, Callable[[Fields], CELValue]]] = {
    "google.protobuf.Any": _any,
    "google.protobuf.BoolValue": _wrapped(False),
    "google.protobuf.BytesValue": _wrapped(b""),
    "google.protobuf.DoubleValue": _wrapped(0.0),
    "google.protobuf.Duration": _duration,
    "google.protobuf.Empty": lambda _: Empty(),
    "google.protobuf.FloatValue": _float,
    "google.protobuf.Int32Value": _wrapped(0),
    "google.protobuf.Int64Value": _wrapped(0),
    "google.protobuf.ListValue": lambda fields: json_value(fields.get("values", [])),
    "google.protobuf.StringValue": _wrapped(""),
    "google.protobuf.Struct": lambda fields: json_value(fields.get("fields", {})),
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.UInt32Value": _wrapped(UInt(0)),
    "google.protobuf.UInt64Value": _wrapped(UInt(0)),
    "google.protobuf.Value": _json_value,
}
