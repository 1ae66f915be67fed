"""Values as Kubernetes prints them in error messages: Go's form of its internal types.

Messages such as «Invalid value: {"Devices":{"Requests":null,…}}: field is immutable» show the value with upper-case
field names and every field present. Types that Kubernetes keeps in their wire form inside, too, are shown in that form.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from cathedra.api.jsonvalue import JSONValue
from cathedra.api.quantity import Quantity
from cathedra.api.struct import RawJSON, json_names, to_dict
from cathedra.api.timestamp import Time
from cathedra.releases.fields import ONLY_IN, is_new_in_v1

_WIRE_FORM: Final = ("cathedra.api.core.meta_v1", "cathedra.api.core.scheduling_")
"""Modules of types that have one form inside and outside."""

_SHOWN_WHERE_SET: Final = frozenset(key for key in ONLY_IN if is_new_in_v1(*key))
"""(type, field) that not every release with resource.k8s.io/v1 knows: empty ones are left out."""

_NAMES: Final[Mapping[str, str]] = {
    "apiGroup": "APIGroup",
    "apiVersion": "APIVersion",
    "cel": "CEL",
    "ips": "IPs",
    "uid": "UID",
}
_ATTRIBUTE: Final[Mapping[str, str]] = {
    "int": "IntValue",
    "bool": "BoolValue",
    "string": "StringValue",
    "version": "VersionValue",
    "ints": "IntValues",
    "bools": "BoolValues",
    "strings": "StringValues",
    "versions": "VersionValues",
}


def go_values(value: JSONValue) -> Any:
    """Return plain values in the form in which Go encodes maps: keys sorted, whole numbers without a fraction."""
    if isinstance(value, dict):
        # Most values are texts.
        return {key: item if type(item) is str else go_values(item) for key, item in sorted(value.items())}
    if isinstance(value, list):
        return [go_values(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXPONENT_FROM:
        return int(value)
    return value


_EXPONENT_FROM: Final = 1e21


def go_form(value: JSONValue) -> str:
    """The JSON that Go prints for the value."""
    return go_json(_plain(value))


def go_json(value: JSONValue, indent: int | None = None) -> str:
    """Plain values as Go's ``encoding/json`` writes them: fit for HTML, and without separators of lines in texts."""
    separators = (",", ":") if indent is None else None
    return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators).translate(_ESCAPED)


# None of these characters occurs in JSON but in texts.
_ESCAPED: Final = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def _plain(value: JSONValue) -> Any:
    if isinstance(value, msgspec.Struct):
        module = type(value).__module__
        if module.startswith(_WIRE_FORM):
            return to_dict(value)
        return dict(_fields(value))
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value] if value or isinstance(value, list) else _empty(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (Quantity, Time)):
        return str(value)
    if isinstance(value, RawJSON):
        return value.load()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def _empty(items: tuple[Any, ...]) -> list[Any] | None:
    """Absent lists are null; those that were spelled out are empty."""
    return None if type(items) is tuple else []


def _fields(value: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    kind = type(value)
    names = _ATTRIBUTE if kind.__name__ == "DeviceAttribute" else _NAMES
    in_order = sorted(json_names(kind).items(), key=lambda item: item[1] == "opaque")
    for attribute, name in in_order:
        item = getattr(value, attribute)
        if kind.__name__ == "ResourceClaimTemplateSpec" and name == "metadata":
            # Embedded in Go's struct: its fields stand directly beside the others.
            yield from _plain(item).items()
            continue
        if (kind.__name__, name) in _SHOWN_WHERE_SET and item in (None, (), {}) and name not in _ATTRIBUTE:
            continue
        shown = None if isinstance(item, dict) and not item else _plain(item)
        yield names.get(name, name[:1].upper() + name[1:]), shown
