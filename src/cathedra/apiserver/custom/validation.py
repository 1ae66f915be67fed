"""What is wrong with an instance, by its structural schema, in the words of Kubernetes' validator
(docs/spec/apimachinery.md §17)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from cathedra.api.field import ErrorList
from cathedra.api.jsonvalue import JSONObject
from cathedra.apiserver.custom.formats import FORMATS
from cathedra.apiserver.custom.patterns import compiled_pattern
from cathedra.apiserver.custom.schema import Schema, identity, read_schema

__all__ = ["validate"]

_NAMES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def validate(schema: Schema, value: Any, path: str) -> ErrorList:
    """Everything that is wrong with a value. Paths are as ``spec.list[0]``; "" is the object itself."""
    errors = ErrorList()
    _value(schema, value, path, errors)
    return errors


def _value(schema: Schema, value: Any, path: str, errors: ErrorList) -> None:
    if type(value) is schema.scalar:
        return
    if value is None:
        if not schema.nullable and schema.type:
            errors.invalid(path, "null", f'{path} in body must be of type {schema.type}: "null"')
        return
    if not _has_type(schema, value):
        kind = _NAMES.get(type(value), "null")
        errors.invalid(path, kind, f'{path} in body must be of type {schema.type or "integer,string"}: "{kind}"')
        return
    source = schema.source
    _combined(source, value, path, errors)
    if isinstance(value, str):
        _text(source, value, path, errors)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        _number(source, value, path, errors)
    elif isinstance(value, list):
        _list(schema, value, path, errors)
    elif isinstance(value, dict):
        _map(schema, value, path, errors)
    allowed = source.get("enum")
    if allowed is not None and not any(_same(value, one) for one in allowed):
        errors.string_not_among(
            path, value, sorted(one if isinstance(one, str) else json.dumps(one) for one in allowed)
        )


def _has_type(schema: Schema, value: Any) -> bool:
    if schema.int_or_string:
        return isinstance(value, (int, str)) and not isinstance(value, bool)
    kind = schema.type
    if kind == "integer":
        return (isinstance(value, int) and not isinstance(value, bool)) or (
            isinstance(value, float) and value.is_integer()
        )
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return not kind or _NAMES.get(type(value)) == kind


def _same(left: Any, right: Any) -> bool:
    return bool(left == right) and isinstance(left, bool) is isinstance(right, bool)


def _combined(source: Mapping[str, Any], value: Any, path: str, errors: ErrorList) -> None:
    shown = path or "<nil>"
    if "anyOf" in source and all(_wrong(one, value, path) for one in source["anyOf"]):
        errors.invalid(path, "", f'"{shown}" must validate at least one schema (anyOf)')
        errors.extend(_wrong(source["anyOf"][0], value, path))
    if "oneOf" in source:
        right = sum(not _wrong(one, value, path) for one in source["oneOf"])
        if right != 1:
            found = "Found none valid" if right == 0 else f"Found {right} valid alternatives"
            errors.invalid(path, "", f'"{shown}" must validate one and only one schema (oneOf). {found}')
    for one in source.get("allOf", ()):
        if found_errors := _wrong(one, value, path):
            errors.extend(found_errors)
    if "not" in source and not _wrong(source["not"], value, path):
        errors.invalid(path, "", f'"{shown}" must not validate the schema (not)')


def _wrong(source: Mapping[str, Any], value: Any, path: str) -> ErrorList:
    return validate(read_schema(source), value, path)


def _text(source: Mapping[str, Any], value: str, path: str, errors: ErrorList) -> None:
    size = len(value)
    if "maxLength" in source and size > source["maxLength"]:
        errors.too_long(path, source["maxLength"])
    if "minLength" in source and size < source["minLength"]:
        errors.invalid(path, value, f"{path} in body should be at least {source['minLength']} chars long")
    if "pattern" in source and not _matches(source["pattern"], value):
        errors.invalid(path, value, f"{path} in body should match '{source['pattern']}'")
    check = FORMATS.get(source.get("format", ""))
    if check is not None and not check(value):
        errors.invalid(path, value, f'{path} in body must be of type {source["format"]}: "{value}"')


def _matches(pattern: str, value: str) -> bool:
    compiled = compiled_pattern(pattern)
    # A pattern that was stored before patterns were checked fits nothing.
    return compiled is not None and compiled.search(value) is not None


def _number(source: Mapping[str, Any], value: float, path: str, errors: ErrorList) -> None:
    if "maximum" in source:
        limit, strict = source["maximum"], source.get("exclusiveMaximum", False)
        if value > limit or (strict and value == limit):
            words = "less than" if strict else "less than or equal to"
            errors.invalid(path, value, f"{path} in body should be {words} {_plain(limit)}")
    if "minimum" in source:
        limit, strict = source["minimum"], source.get("exclusiveMinimum", False)
        if value < limit or (strict and value == limit):
            words = "greater than" if strict else "greater than or equal to"
            errors.invalid(path, value, f"{path} in body should be {words} {_plain(limit)}")
    if "multipleOf" in source and not _is_multiple(value, source["multipleOf"]):
        errors.invalid(path, value, f"{path} in body should be a multiple of {_plain(source['multipleOf'])}")
    bits = {"int32": 31, "int64": 63}.get(source.get("format", ""))
    if bits is not None and isinstance(value, int) and not -(2**bits) <= value < 2**bits:
        form = source["format"]
        errors.invalid(path, value, f"Checked value must be of type integer with format {form} in {path}")


def _is_multiple(value: float, factor: float) -> bool:
    """As Kubernetes divides, in doubles; nothing is a multiple of zero."""
    try:
        quotient = value / factor if factor >= 1 else 1 / factor * value
        return float(quotient).is_integer()
    except (ZeroDivisionError, OverflowError):
        return False


def _plain(number: Any) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)


def _list(schema: Schema, value: list[Any], path: str, errors: ErrorList) -> None:
    source = schema.source
    if "maxItems" in source and len(value) > source["maxItems"]:
        errors.too_many(path, len(value), source["maxItems"])
    if "minItems" in source and len(value) < source["minItems"]:
        errors.invalid(path, len(value), f"{path} in body should have at least {source['minItems']} items")
    seen: set[Any] = set()
    for position, item in enumerate(value):
        where = f"{path}[{position}]"
        if schema.list_type == "set":
            if (found := identity(item)) in seen:
                errors.duplicate(where, item)
            seen.add(found)
        elif schema.list_type == "map" and isinstance(item, dict):
            keys = {key: item[key] for key in schema.keys if key in item}
            if (found := identity(keys)) in seen:
                errors.duplicate(where, keys)
            seen.add(found)
        if schema.items is not None:
            _value(schema.items, item, where, errors)


def _map(schema: Schema, value: JSONObject, path: str, errors: ErrorList) -> None:
    source = schema.source
    if "maxProperties" in source and len(value) > source["maxProperties"]:
        errors.too_many(path, len(value), source["maxProperties"])
    if "minProperties" in source and len(value) < source["minProperties"]:
        least = source["minProperties"]
        errors.invalid(path, len(value), f"{path} in body should have at least {least} properties")
    for name in source.get("required", ()):
        if name not in value:
            errors.required(f"{path}.{name}" if path else name)
    for name, item in value.items():
        inner = schema.properties.get(name) or schema.additional
        if inner is not None:
            _value(inner, item, f"{path}.{name}" if path else name, errors)
