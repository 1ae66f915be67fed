"""Codecs of single values, and of the schema of a custom resource as a protobuf message.

Our structs keep a schema as the JSON that was sent, so its codec works on plain values; it too is driven by the facts.
The few types that are one of several things in JSON (a schema or a list of them, a schema or a truth value) are
messages with a field for each.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import msgspec

from cathedra.api.nesting import TOO_DEEP, NestingError, check_nesting, load_json
from cathedra.api.protobuf.wire import FIXED64, LENGTH, VARINT, ProtobufError, delimited, fields, tag, varint
from cathedra.api.quantity import Quantity
from cathedra.api.struct import RawJSON
from cathedra.api.timestamp import MicroTime, Time
from cathedra.api.typeinfo import locate, type_info

_PACKAGE: Final = "apiextensions/v1"


# Values with a protobuf form of their own: encoding, decoding, and the value of an absent field.
#
# Kubernetes' encoders write every field that is no pointer, even an empty one; so each `Scalar` writes the value that
# it receives, and its caller decides about absence.

_MICROS: Final = 1_000_000
_DOUBLE: Final = struct.Struct("<d")
_FIRST_BYTES: Final = tag(1, LENGTH)
_FIRST_VARINT: Final = tag(1, VARINT)
_SECOND_VARINT: Final = tag(2, VARINT)
_THIRD_BYTES: Final = tag(3, LENGTH)


class Scalar(msgspec.Struct, frozen=True):
    """One kind of value. ``read`` gets an integer for varints, else the bytes without their length."""

    wire_type: int
    write: Callable[[Any], bytes]
    read: Callable[[Any], Any]
    zero: Any
    """Value of a non-pointer field that is absent from the message."""


def _signed(bits: int) -> Callable[[int], int]:
    mask, sign = (1 << bits) - 1, 1 << (bits - 1)
    return lambda value: ((value & mask) ^ sign) - sign


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _write_text(value: str) -> bytes:
    return delimited(value.encode("utf-8", "surrogatepass"))


def _single(data: bytes, message: str) -> bytes:
    """Field 1 of a message that has but one, of bytes."""
    found = b""
    for key, value in fields(data, message):
        if key == 1 << 3 | LENGTH:
            assert isinstance(value, bytes)
            found = value
    return found


def _write_time(value: Time | None) -> bytes:
    if value is None:
        return b"\0"
    seconds, micros = divmod(value.micros, _MICROS)
    return delimited(_FIRST_VARINT + varint(seconds) + _SECOND_VARINT + varint(micros * 1000))


def _read_time(kind: type[Time]) -> Callable[[bytes], Time | None]:
    def read(data: bytes) -> Time | None:
        if not data:
            return None
        seconds = nanos = 0
        for key, value in fields(data, "Timestamp"):
            if key == 1 << 3:
                seconds = INT64.read(value)
            elif key == 2 << 3:
                nanos = INT32.read(value)
        try:
            return kind.of_micros(seconds * _MICROS + nanos // 1000)
        except OverflowError:
            raise ProtobufError(f"{kind.__name__}: {seconds} seconds after 1970 is beyond the year 9999") from None

    return read


def _write_quantity(value: Quantity) -> bytes:
    return delimited(_FIRST_BYTES + _write_text(str(value)))


def _read_quantity(data: bytes) -> Quantity:
    text = _text(_single(data, "Quantity"))
    try:
        return Quantity.parse(text or "0")
    except ValueError as error:
        raise ProtobufError(str(error)) from None


def _read_quantity_without_large_suffix(data: bytes) -> Quantity:
    return _read_quantity(data).without_large_suffix


def _write_int_or_string(value: int | str) -> bytes:
    number, text = (0, value) if isinstance(value, str) else (value, "")
    kind = int(isinstance(value, str))
    return delimited(_FIRST_VARINT + varint(kind) + _SECOND_VARINT + varint(number) + _THIRD_BYTES + _write_text(text))


def _read_int_or_string(data: bytes) -> int | str:
    kind, number, text = 0, 0, ""
    for key, value in fields(data, "IntOrString"):
        if key == 1 << 3:
            kind = INT64.read(value)
        elif key == 2 << 3:
            number = INT32.read(value)
        elif key == 3 << 3 | LENGTH:
            text = _text(value)  # type: ignore[arg-type]  # the wire type of the key is that of bytes
    return text if kind else number


def _write_raw(value: RawJSON | None) -> bytes:
    return b"\0" if value is None else delimited(_FIRST_BYTES + delimited(value.data))


def _read_raw(data: bytes) -> RawJSON | None:
    raw = _single(data, "RawExtension")
    if not raw:
        return None
    try:
        load_json(raw)
    except (msgspec.DecodeError, ValueError) as error:
        raise ProtobufError(f"RawExtension: the bytes within are no JSON: {error}") from None
    return RawJSON(raw)


STRING: Final = Scalar(LENGTH, _write_text, _text, "")
BYTES: Final = Scalar(LENGTH, delimited, bytes, b"")
BOOL: Final = Scalar(VARINT, lambda value: b"\1" if value else b"\0", bool, False)
INT32: Final = Scalar(VARINT, varint, _signed(32), 0)
INT64: Final = Scalar(VARINT, varint, _signed(64), 0)
FLOAT: Final = Scalar(FIXED64, _DOUBLE.pack, lambda data: _DOUBLE.unpack(data)[0], 0.0)
TIME: Final = Scalar(LENGTH, _write_time, _read_time(Time), None)
MICRO_TIME: Final = Scalar(LENGTH, _write_time, _read_time(MicroTime), None)
QUANTITY: Final = Scalar(LENGTH, _write_quantity, _read_quantity, Quantity("0"))
QUANTITY_WITHOUT_LARGE_SUFFIX: Final = Scalar(
    LENGTH, _write_quantity, _read_quantity_without_large_suffix, Quantity("0")
)
"""The quantity of releases before `LARGE_QUANTITIES_KEPT`."""
INT_OR_STRING: Final = Scalar(LENGTH, _write_int_or_string, _read_int_or_string, 0)
RAW: Final = Scalar(LENGTH, _write_raw, _read_raw, None)
"""RawExtension and FieldsV1: JSON as bytes in a message of their own."""


_PLAIN: Final = {
    "string": STRING,
    "bool": BOOL,
    "int64": INT64,
    "float64": FLOAT,
}


@cache
def _named(go: str) -> Scalar:
    """Return the `Scalar` that writes and reads a Go type as plain values."""
    go = go.lstrip("*")
    special = _ONE_OF_SEVERAL.get(go)
    if special is not None:
        return special
    if go in _PLAIN:
        return _PLAIN[go]
    alias = type_info(_PACKAGE, go).alias
    if alias:
        return _named(alias)
    return Scalar(LENGTH, lambda value: delimited(_write(go, value)), lambda data: _read(go, data), {})


def _inside(go: str) -> tuple[str, str]:
    """Return whether a Go type is a ``list``, a ``map`` or neither, and the type of its elements."""
    go = go.lstrip("*")
    info = locate(_PACKAGE, go)
    go = info.alias if info is not None and info.alias else go
    if go.startswith("[]"):
        return "list", go[2:]
    if go.startswith("map["):
        return "map", go.partition("]")[2]
    return "", go


def _write(name: str, value: dict[str, Any]) -> bytes:
    parts: list[bytes] = []
    for field_info in sorted(type_info(_PACKAGE, name).declared, key=lambda one: one.number):
        json_name, number = field_info.name, field_info.number
        found = value.get(json_name)
        container, inner = _inside(field_info.go)
        if container == "list":
            form = _named(inner)
            parts += [tag(number, form.wire_type) + form.write(element) for element in found or ()]
        elif container == "map":
            parts += [tag(number, LENGTH) + _entry(inner, key, (found or {})[key]) for key in sorted(found or ())]
        elif found is not None or not field_info.is_pointer:
            form = _named(inner)
            parts.append(tag(number, form.wire_type) + form.write(form.zero if found is None else found))
    return b"".join(parts)


def _entry(inner: str, key: str, value: Any) -> bytes:
    form = _named(inner)
    return delimited(tag(1, LENGTH) + STRING.write(key) + tag(2, form.wire_type) + form.write(value))


def _read(name: str, data: bytes) -> dict[str, Any]:
    by_number = {one.number: one for one in type_info(_PACKAGE, name).declared}
    found: dict[str, Any] = {}
    for key, value in fields(data, name):
        if key >> 3 not in by_number:
            continue
        field_info = by_number[key >> 3]
        json_name = field_info.name
        container, inner = _inside(field_info.go)
        form = _named(inner)
        if key & 7 != (LENGTH if container == "map" else form.wire_type):
            raise ProtobufError(f"proto: wrong wireType = {key & 7} for field {json_name}")
        if container == "map":
            entry = dict(fields(value, "map entry"))  # type: ignore[arg-type]  # a map's entries are messages
            name_of = STRING.read(entry.get(1 << 3 | LENGTH, b""))
            found.setdefault(json_name, {})[name_of] = form.read(entry.get(2 << 3 | form.wire_type, b""))
        elif container == "list":
            found.setdefault(json_name, []).append(form.read(value))
        else:
            read = form.read(value)
            if field_info.is_pointer or read != form.zero or not field_info.omitempty:
                found[json_name] = read
    return found


def _write_json(value: Any) -> bytes:
    return delimited(tag(1, LENGTH) + delimited(msgspec.json.encode(value)))


def _read_json(data: bytes) -> Any:
    raw = RAW.read(data)
    return None if raw is None else raw.load()


def _first(data: bytes, name: str) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for key, value in fields(data, name):
        if key & 7 != (VARINT if (key >> 3, name) == (1, "JSONSchemaPropsOrBool") else LENGTH):
            raise ProtobufError(f"proto: wrong wireType = {key & 7} for field {key >> 3} of {name}")
        found.setdefault(key >> 3, []).append(value)
    return found


def _write_schema(value: dict[str, Any]) -> bytes:
    return delimited(_write("JSONSchemaProps", value))


def _read_schema(data: bytes) -> dict[str, Any]:
    return _read("JSONSchemaProps", data)


def _write_schema_or_array(value: Any) -> bytes:
    if isinstance(value, dict):
        return delimited(_FIRST + _write_schema(value))
    return delimited(b"".join([_SECOND + _write_schema(element) for element in value]))


def _read_schema_or_array(data: bytes) -> Any:
    found = _first(data, "JSONSchemaPropsOrArray")
    if 2 in found:
        return [_read_schema(element) for element in found[2]]
    return _read_schema(found[1][-1]) if 1 in found else None


def _write_schema_or_bool(value: Any) -> bytes:
    if isinstance(value, dict):
        return delimited(_ALLOWS + b"\1" + _SECOND + _write_schema(value))
    return delimited(_ALLOWS + BOOL.write(value))


def _read_schema_or_bool(data: bytes) -> Any:
    found = _first(data, "JSONSchemaPropsOrBool")
    return _read_schema(found[2][-1]) if 2 in found else bool(found.get(1, [0])[-1])


def _write_schema_or_texts(value: Any) -> bytes:
    if isinstance(value, dict):
        return delimited(_FIRST + _write_schema(value))
    return delimited(b"".join([_SECOND + STRING.write(element) for element in value]))


def _read_schema_or_texts(data: bytes) -> Any:
    found = _first(data, "JSONSchemaPropsOrStringArray")
    if 2 in found:
        return [STRING.read(element) for element in found[2]]
    return _read_schema(found[1][-1]) if 1 in found else None


_FIRST: Final = tag(1, LENGTH)
_SECOND: Final = tag(2, LENGTH)
_ALLOWS: Final = tag(1, VARINT)
_ONE_OF_SEVERAL: Final = {
    "JSON": Scalar(LENGTH, _write_json, _read_json, None),
    "JSONSchemaPropsOrArray": Scalar(LENGTH, _write_schema_or_array, _read_schema_or_array, None),
    "JSONSchemaPropsOrBool": Scalar(LENGTH, _write_schema_or_bool, _read_schema_or_bool, None),
    "JSONSchemaPropsOrStringArray": Scalar(LENGTH, _write_schema_or_texts, _read_schema_or_texts, None),
}


def _read_whole(data: bytes) -> RawJSON:
    """Decode a schema as JSON of bounded depth."""
    try:
        schema = RawJSON.of(_read_schema(data))
        check_nesting(schema.data)
    except (RecursionError, NestingError) as error:
        raise ProtobufError(TOO_DEEP) from error
    return schema


SCHEMA: Final = Scalar(LENGTH, lambda value: _write_schema(value.load()), _read_whole, None)
"""JSONSchemaProps, kept as JSON."""
