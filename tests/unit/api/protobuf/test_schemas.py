"""Schemas of custom resources in protobuf: what does not fit is refused, and depth is bounded."""

from __future__ import annotations

import pytest

from cathedra.api.nesting import MAX_DEPTH
from cathedra.api.protobuf._schemas import SCHEMA
from cathedra.api.protobuf.wire import LENGTH, VARINT, ProtobufError, delimited, read_varint, tag, varint
from cathedra.api.struct import RawJSON

TYPE, NOT = 5, 28


def message(schema: object) -> bytes:
    written = SCHEMA.write(RawJSON.of(schema))
    size, start = read_varint(written, 0)
    assert len(written) == start + size
    return written[start:]


def test_what_is_written_is_read_back() -> None:
    schema = {
        "type": "object",
        "required": ["a"],
        "properties": {"a": {"type": "array", "items": {"type": "string"}}, "b": {"additionalProperties": True}},
        "default": {"x": [1]},
    }
    read = SCHEMA.read(message(schema)).load()
    assert {name: read[name] for name in schema} == schema


@pytest.mark.parametrize(
    "odd", [tag(TYPE, VARINT) + varint(1), tag(NOT, VARINT) + varint(1), tag(NOT, LENGTH) + b"\x01"]
)
def test_fields_of_another_wire_type_are_refused(odd: bytes) -> None:
    with pytest.raises(ProtobufError, match=r"wireType|EOF"):
        SCHEMA.read(odd)


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 3_000])
def test_schemas_nested_too_deeply_are_refused(levels: int) -> None:
    nested = b""
    for _ in range(levels):
        nested = tag(NOT, LENGTH) + delimited(nested)
    with pytest.raises(ProtobufError, match="exceeded max depth"):
        SCHEMA.read(nested)
