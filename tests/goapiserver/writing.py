"""JSON as Go's encoder writes the objects of kube-apiserver.

Which fields a type has, and which of them are left out when they are empty, comes from the wire facts of Kubernetes'
Go types. The order of fields is that of the Go structs. Nothing here reads or writes through the structs' own JSON
form, so that a decoder is tested against something else than itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Any, Final

from cathedra.api.facts import load
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.struct import json_names
from cathedra.api.typeinfo import FieldInfo, locate, package_of, type_info

__all__ = ["go_object", "to_json"]

_NUMBERS: Final = frozenset({"int", "int32", "int64", "float64", "byte", "uint8"})
_ZEROES: Final[Mapping[str, Any]] = {
    "string": "",
    "bool": False,
    "types.UID": "",
    "types.NodeName": "",
    "intstr.IntOrString": 0,
    "resource.Quantity": "0",
    "metav1.Duration": "0s",
    "v1.Duration": "0s",
    **dict.fromkeys(_NUMBERS, 0),
}
_TIMES: Final = frozenset({"metav1.Time", "v1.Time", "metav1.MicroTime", "v1.MicroTime"})
_MAP: Final = re.compile(r"map\[[^\]]+\](.+)")
_AS_IT_COMES: Final = frozenset(
    {
        "JSON",
        "JSONSchemaProps",
        "JSONSchemaPropsOrArray",
        "JSONSchemaPropsOrBool",
        "JSONSchemaPropsOrStringArray",
    }
)
"""Types that write themselves."""
_OMITTED: Final = object()


def go_object(value: Mapping[str, Any], gvk: GroupVersionKind, *, null_times: bool = True) -> dict[str, Any]:
    """``value`` as Go writes an object of the kind: kind and apiVersion first, nil slices and maps as null.

    Unknown fields, as those of a newer release, come after the known ones. ``null_times`` writes ``creationTimestamp:
    null`` where there is none, as releases before 1.34 do. An object of a kind without facts is written as it is.
    """
    try:
        package = package_of(gvk.api_version)
        load()[package][gvk.kind]
    except KeyError:
        return dict(value)
    written = _Writer(null_times=null_times).struct(value, package, gvk.kind)
    return {"kind": gvk.kind, "apiVersion": gvk.api_version, **written}


class _Writer:
    def __init__(self, *, null_times: bool) -> None:
        self._null_times = null_times

    def struct(self, value: Mapping[str, Any], package: str, name: str) -> dict[str, Any]:
        written: dict[str, Any] = {}
        for home, field in _fields(package, name):
            if field.name in ("kind", "apiVersion") and field.owner == "TypeMeta":
                continue
            shown = self._field(value.get(field.name), field, home)
            if shown is not _OMITTED:
                written[field.name] = shown
        known = {field.name for _, field in _fields(package, name)}
        return written | {key: item for key, item in value.items() if key not in known}

    def _field(self, value: Any, field: FieldInfo, package: str) -> Any:
        if field.is_pointer and value is None:
            return _OMITTED if field.omitempty else None
        if field.go in _TIMES or (package == "meta/v1" and field.go in ("Time", "MicroTime")):
            # A time is a struct, which omitempty never leaves out; creationTimestamp alone has got omitzero.
            zero = _OMITTED if field.name == "creationTimestamp" and not self._null_times else None
            return zero if value is None else value
        shown = self._value(value, field.go.removeprefix("*"), package)
        return _OMITTED if field.omitempty and _is_empty(shown, field, package) else shown

    def _value(self, value: Any, go: str, package: str) -> Any:
        if go in _ZEROES:
            return _ZEROES[go] if value is None else value
        if go.startswith("*"):
            return None if value is None else self._value(value, go[1:], package)
        if go == "[]byte":
            return value
        if go.startswith("[]"):
            return [self._value(item, go[2:], package) for item in value] if isinstance(value, list) else value
        if keyed := _MAP.fullmatch(go):
            return self._map(value, keyed[1], package)
        name = go.rpartition(".")[2]
        info = None if name in _AS_IT_COMES else locate(package, go)
        if info is None:
            return value
        if info.alias:
            return self._value(value, info.alias, info.package)
        if value is None:
            return self.struct({}, info.package, info.name)
        return self.struct(value, info.package, info.name) if isinstance(value, dict) else value

    def _map(self, value: Any, element: str, package: str) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: self._value(item, element, package) for key, item in sorted(value.items())}


def _is_empty(shown: Any, field: FieldInfo, package: str) -> bool:
    """Return True if Go's ``omitempty`` leaves the field out: never for a struct, for a pointer only if it is nil."""
    if field.is_pointer or field.go == "runtime.RawExtension":
        return False
    return not shown and (not isinstance(shown, dict) or _is_map(field.go, package))


@cache
def _is_map(go: str, package: str) -> bool:
    if go.startswith("map["):
        return True
    info = locate(package, go)
    return info is not None and bool(info.alias) and _is_map(info.alias, info.package)


@cache
def _fields(package: str, name: str) -> tuple[tuple[str, FieldInfo], ...]:
    """The fields of a type with the package that each is declared in, in the order in which Go writes them."""
    found: dict[str, tuple[str, FieldInfo]] = {}
    for field in type_info(package, name).declared:
        inner = locate(package, field.go) if field.embedded else None
        if inner is not None:
            found |= {one.name: (home, one) for home, one in _fields(inner.package, inner.name)}
        elif not field.embedded:
            found[field.name] = (package, field)
    order: dict[str, int] = {}
    for place, json_name in enumerate(_declared(package, name)):
        order.setdefault(json_name, place)
    return tuple(sorted(found.values(), key=lambda one: order.get(one[1].name, len(order))))


def _declared(package: str, name: str) -> tuple[str, ...]:
    # resource.k8s.io/v1beta2 has the fields of v1 in the same order, and no structs of its own.
    in_v1 = package in ("resource/v1", "resource/v1beta2")
    home = "cathedra.api.resource" if in_v1 else f"cathedra.api.core.{package.replace('/', '_')}"
    known = importlib.util.find_spec(home) is not None
    struct = getattr(importlib.import_module(home), name, None) if known else None
    found = () if struct is None else tuple(json_names(struct).values())
    return ("apiVersion", *found) if name == "OwnerReference" else found


_ESCAPED: Final = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def to_json(value: Any) -> bytes:
    """Plain values as ``encoding/json`` prints them: no blanks, fit for HTML, numbers in Go's shortest form."""
    return _text(value).encode("utf-8", "surrogatepass")


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_text(key)}:{_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_text, value)) + "]"
    if isinstance(value, float):
        return _number(value)
    return json.dumps(value, ensure_ascii=False).translate(_ESCAPED)


def _number(value: float) -> str:
    """A float64: without an exponent from 1e-6 up to 1e21, and with one of at least one digit beyond."""
    size = abs(value)
    if size and not 1e-6 <= size < 1e21:
        mantissa, _, exponent = repr(value).partition("e")
        return f"{mantissa}e{exponent[0]}{exponent[1:].lstrip('0')}"
    return format(Decimal(repr(value)), "f").removesuffix(".0")
