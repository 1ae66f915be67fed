"""The protobuf wire format: tags, variable-length integers, and a message cut into its fields.

Errors have the words of Go's generated decoders, because clients get to see them.
"""

from __future__ import annotations

from typing import Final

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
_GROUP: Final = 3
_GROUP_END: Final = 4
FIXED32: Final = 5

_BITS_64: Final = 2**64 - 1
_LONGEST_VARINT: Final = 10
_ONE_BYTE: Final = tuple(bytes((n,)) for n in range(128))

Field = tuple[int, int | bytes]
"""Number and wire type together (``number << 3 | type``), and what stands there: an integer for varints, else bytes."""


class ProtobufError(ValueError):
    """Bytes that are no protobuf message of the requested type."""


def varint(value: int) -> bytes:
    """Return an integer of 64 bits; a negative one takes ten bytes."""
    if 0 <= value < 128:
        return _ONE_BYTE[value]
    if 0 < value < 1 << 14:  # most lengths of messages: in two thirds of the time of the loop
        return bytes((value & 0x7F | 0x80, value >> 7))
    value &= _BITS_64
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, wire_type: int) -> bytes:
    """Return the bytes that begin a field: its number and wire type."""
    return varint(number << 3 | wire_type)


def delimited(data: bytes) -> bytes:
    """Return bytes after their length."""
    return varint(len(data)) + data


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return an unsigned integer and the position after it.

    Raises:
        ProtobufError: the bytes end within it, or it has more than 64 bits.
    """
    value = shift = 0
    for index in range(position, position + _LONGEST_VARINT):
        try:
            byte = data[index]
        except IndexError:
            raise ProtobufError("unexpected EOF") from None
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _BITS_64, index + 1
        shift += 7
    raise ProtobufError("proto: integer overflow")


def fields(data: bytes, message: str) -> list[Field]:
    """Return the fields of a message, in the order in which they stand; groups are passed over.

    ``message`` is its name in errors. Short tags and lengths, which are nearly all, are read in place: decoding spends
    most of its time here.

    Raises:
        ProtobufError: the bytes are broken.
    """
    found: list[Field] = []
    position, end = 0, len(data)
    while position < end:
        key = data[position]
        position += 1
        if key >= 0x80:
            key, position = read_varint(data, position - 1)
        wire_type = key & 7
        if key < 8:
            raise ProtobufError(f"proto: {message}: illegal tag {key >> 3} (wire type {wire_type})")
        if wire_type == LENGTH:
            size = data[position] if position < end else 0x80
            if size < 0x80:
                position += 1
            else:
                size, position = read_varint(data, position)
            stop = position + size
            if stop > end:
                raise ProtobufError("unexpected EOF")
            found.append((key, data[position:stop]))
            position = stop
        elif wire_type == VARINT:
            value = data[position] if position < end else 0x80
            if value < 0x80:
                position += 1
            else:
                value, position = read_varint(data, position)
            found.append((key, value))
        else:
            position = _rare(data, position, key, message, found)
    return found


def _rare(data: bytes, position: int, key: int, message: str, found: list[Field]) -> int:
    wire_type = key & 7
    if wire_type in (FIXED32, FIXED64):
        stop = position + (4 if wire_type == FIXED32 else 8)
        if stop > len(data):
            raise ProtobufError("unexpected EOF")
        found.append((key, data[position:stop]))
        return stop
    if wire_type == _GROUP:
        return _after_group(data, position)
    if wire_type == _GROUP_END:
        raise ProtobufError(f"proto: {message}: wiretype end group for non-group")
    raise ProtobufError(f"proto: illegal wireType {wire_type}")


def _after_group(data: bytes, position: int) -> int:
    depth = 1
    while depth:
        key, position = read_varint(data, position)
        wire_type = key & 7
        if wire_type == VARINT:
            _, position = read_varint(data, position)
        elif wire_type == FIXED64:
            position += 8
        elif wire_type == FIXED32:
            position += 4
        elif wire_type == LENGTH:
            size, position = read_varint(data, position)
            position += size
        elif wire_type == _GROUP:
            depth += 1
        elif wire_type == _GROUP_END:
            depth -= 1
        else:
            raise ProtobufError(f"proto: illegal wireType {wire_type}")
        if position > len(data):
            raise ProtobufError("unexpected EOF")
    return position
