"""The document of OpenAPI v2 in protobuf, as gnostic's ``openapi.v2.Document``.

``kubectl explain --output=plaintext-openapiv2`` and kubectls before 1.27 read it. It has what they read: definitions,
and paths with their operations' parameters and extensions. Descriptions of answers are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from cathedra.api.struct import encode

JSON = Mapping[str, Any]
_VARINT: Final = 0
_BYTES: Final = 2
_EXTENSION: Final = "x-"
_METHODS: Final = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}
_PLACES: Final = {"header": 1, "query": 3, "path": 4}


def swagger_protobuf(document: JSON, check: Callable[[], object] = bool) -> bytes:
    """Return a document in protobuf. ``check`` is called between its parts, and may raise to interrupt."""
    info = document["info"]
    paths, definitions = [], []
    for name, item in document.get("paths", {}).items():
        check()
        paths.append(_message(2, _named(name, _path_item(item))))
    for name, schema in document.get("definitions", {}).items():
        check()
        definitions.append(_message(1, _named(name, _schema(schema))))
    return b"".join(
        (
            _text(1, document["swagger"]),
            _message(2, _text(1, info["title"]) + _text(2, info["version"])),
            _message(8, b"".join(paths)),
            _message(9, b"".join(definitions)),
        )
    )


def _path_item(item: JSON) -> bytes:
    operations = (_message(_METHODS[key], _operation(value)) for key, value in item.items() if key in _METHODS)
    return b"".join(operations) + b"".join(_message(9, _parameter(one)) for one in item.get("parameters", ()))


def _operation(operation: JSON) -> bytes:
    return b"".join(
        (
            _texts(1, operation.get("tags", ())),
            _text(3, operation.get("description", "")),
            _text(5, operation.get("operationId", "")),
            _texts(6, operation.get("produces", ())),
            _texts(7, operation.get("consumes", ())),
            *(_message(8, _parameter(one)) for one in operation.get("parameters", ())),
            _extensions(13, operation),
        )
    )


def _parameter(parameter: JSON) -> bytes:
    """Return a ParametersItem: a reference, the body, or a parameter of another place."""
    if "$ref" in parameter:
        return _message(2, _text(1, parameter["$ref"]))
    if parameter["in"] == "body":
        body = b"".join(
            (
                _text(1, parameter.get("description", "")),
                _text(2, parameter["name"]),
                _text(3, "body"),
                _flag(4, parameter.get("required", False)),
                # SchemaItem: the first of its alternatives is a schema.
                _message(5, _message(1, _schema(parameter.get("schema", {})))),
            )
        )
        return _message(1, _message(1, body))
    place = parameter["in"]
    shown = b"".join(
        (
            _flag(1, parameter.get("required", False)),
            _text(2, place),
            _text(3, parameter.get("description", "")),
            _text(4, parameter["name"]),
            # A query parameter has one field more before its type.
            _text(6 if place == "query" else 5, parameter.get("type", "")),
        )
    )
    return _message(1, _message(2, _message(_PLACES[place], shown)))


def _schema(schema: JSON) -> bytes:
    return b"".join(_SCHEMA_FIELDS[key](value) for key, value in schema.items() if key in _SCHEMA_FIELDS) + _extensions(
        31, schema
    )


def _additional(value: Any) -> bytes:
    """Return an AdditionalPropertiesItem: a schema or a boolean."""
    return _message(21, _flag(2, value) if isinstance(value, bool) else _message(1, _schema(value)))


def _types(value: Any) -> bytes:
    return _message(22, _texts(1, value if isinstance(value, list) else [value]))


def _properties(value: JSON) -> bytes:
    return _message(25, b"".join(_message(1, _named(name, _schema(one))) for name, one in value.items()))


_SCHEMA_FIELDS: Final[Mapping[str, Callable[[Any], bytes]]] = {
    "$ref": lambda value: _text(1, value),
    "format": lambda value: _text(2, value),
    "title": lambda value: _text(3, value),
    "description": lambda value: _text(4, value),
    "default": lambda value: _message(5, _any(value)),
    "maxLength": lambda value: _number(11, value),
    "minLength": lambda value: _number(12, value),
    "pattern": lambda value: _text(13, value),
    "maxItems": lambda value: _number(14, value),
    "minItems": lambda value: _number(15, value),
    "uniqueItems": lambda value: _flag(16, value),
    "maxProperties": lambda value: _number(17, value),
    "minProperties": lambda value: _number(18, value),
    "required": lambda value: _texts(19, value),
    "enum": lambda value: b"".join(_message(20, _any(one)) for one in value),
    "additionalProperties": _additional,
    "type": _types,
    "items": lambda value: _message(23, _message(1, _schema(value))),
    "allOf": lambda value: b"".join(_message(24, _schema(one)) for one in value),
    "properties": _properties,
}


def _extensions(number: int, holder: JSON) -> bytes:
    return b"".join(
        _message(number, _named(name, _any(value))) for name, value in holder.items() if name.startswith(_EXTENSION)
    )


def _any(value: Any) -> bytes:
    """Return an Any, whose second field is YAML: JSON is YAML."""
    return _message(2, encode(value))


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + _message(2, value)


def _texts(number: int, values: Iterable[str]) -> bytes:
    # Empty elements of a repeated field are written, unlike an empty single field.
    return b"".join(_message(number, value.encode()) for value in values)


def _text(number: int, value: str) -> bytes:
    return _message(number, value.encode()) if value else b""


def _flag(number: int, value: bool) -> bytes:
    return _varint(number << 3 | _VARINT) + b"\x01" if value else b""


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value) if value else b""


def _message(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
