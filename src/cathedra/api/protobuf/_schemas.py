"""The schema of a custom resource as a protobuf message.

Our structs keep it as the JSON that was sent, so this codec works on plain values; it too is driven by the facts. The
few types that are one of several things in JSON (a schema or a list of them, a schema or a truth value) are messages
with a field for each.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

from cathedra.api.nesting import TOO_DEEP, NestingError, check_nesting
from cathedra.api.protobuf import _scalars
from cathedra.api.protobuf._scalars import Scalar
from cathedra.api.protobuf.wire import LENGTH, VARINT, ProtobufError, delimited, fields, tag
from cathedra.api.struct import RawJSON
from cathedra.api.typeinfo import locate, type_info

_PACKAGE: Final = "apiextensions/v1"
_PLAIN: Final = {
    "string": _scalars.STRING,
    "bool": _scalars.BOOL,
    "int64": _scalars.INT64,
    "float64": _scalars.FLOAT,
}


@cache
def _named(go: str) -> Scalar:
    """The form of a Go type, on plain values."""
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
    """Return True if a Go type is a ``list``, a ``map`` or neither, and what it is made of."""
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
    return delimited(tag(1, LENGTH) + _scalars.STRING.write(key) + tag(2, form.wire_type) + form.write(value))


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
            name_of = _scalars.STRING.read(entry.get(1 << 3 | LENGTH, b""))
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
    raw = _scalars.RAW.read(data)
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
    return delimited(_ALLOWS + _scalars.BOOL.write(value))


def _read_schema_or_bool(data: bytes) -> Any:
    found = _first(data, "JSONSchemaPropsOrBool")
    return _read_schema(found[2][-1]) if 2 in found else bool(found.get(1, [0])[-1])


def _write_schema_or_texts(value: Any) -> bytes:
    if isinstance(value, dict):
        return delimited(_FIRST + _write_schema(value))
    return delimited(b"".join([_SECOND + _scalars.STRING.write(element) for element in value]))


def _read_schema_or_texts(data: bytes) -> Any:
    found = _first(data, "JSONSchemaPropsOrStringArray")
    if 2 in found:
        return [_scalars.STRING.read(element) for element in found[2]]
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
