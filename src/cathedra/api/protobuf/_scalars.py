"""Values with a protobuf form of their own: encoding, decoding, and the value of an absent field.

Kubernetes' encoders write every field that is no pointer, even an empty one; so each `Scalar` writes the value that it
receives, and its caller decides about absence.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import msgspec

from cathedra.api.nesting import load_json
from cathedra.api.protobuf.wire import FIXED64, LENGTH, VARINT, ProtobufError, delimited, fields, tag, varint
from cathedra.api.quantity import Quantity
from cathedra.api.struct import RawJSON
from cathedra.api.timestamp import MicroTime, Time

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
            text = _text(value)  # type: ignore[arg-type]  # the wire type in the key says that it is bytes
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
