"""Empty lists of built-in types in JSON, as Go writes them.

Go writes a nil slice as ``null`` unless the field's tag has ``omitempty``. kube-apiserver stores objects in protobuf,
which cannot distinguish an empty list from an absent one: both are nil when they are read again. Our objects have an
empty tuple there, so that their readers need not handle None. The wire facts know the fields without ``omitempty``.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

import msgspec

from cathedra.api.struct import KubeStruct
from cathedra.api.typeinfo import TypeInfo, info_of, locate

__all__ = ["with_nil_lists", "with_nil_lists_in"]

_EMPTY: Final = b":[]"


def with_nil_lists(kind: type[KubeStruct], body: bytes) -> bytes:
    """Return the JSON of an object of a built-in type with null for each list that is nil in Go; else the same."""
    # Fast path: every object that is read passes here, and few have an empty list at all.
    if _EMPTY not in body or (info := info_of(kind)) is None:
        return body
    value = msgspec.json.decode(body)
    changed = _of_struct(info, value)
    return body if changed is value else msgspec.json.encode(changed)


def with_nil_lists_in(kind: type[KubeStruct], value: dict[str, Any]) -> dict[str, Any]:
    """Return the plain values of an object with null for each list that is nil in Go. ``value`` is not changed."""
    info = info_of(kind)
    return value if info is None else _of_struct(info, value)


def _of_struct(info: TypeInfo, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    changes: dict[str, Any] = {}
    for name, (go, is_nil_if_empty) in _lists_below(info.package, info.name).items():
        found = value.get(name)
        if found == [] and is_nil_if_empty:
            changes[name] = None
        elif found:
            changed = _of_value(info.package, go, found)
            if changed is not found:
                changes[name] = changed
    return {**value, **changes} if changes else value


def _of_value(package: str, go: str, value: Any) -> Any:
    go = go.lstrip("*")
    if go.startswith("[]") and isinstance(value, list):
        items = [_of_value(package, go[2:], item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if (keyed := _MAP.fullmatch(go)) is not None and isinstance(value, dict):
        entries = {key: _of_value(package, keyed[1], item) for key, item in value.items()}
        return entries if any(entries[key] is not item for key, item in value.items()) else value
    info = locate(package, go)
    return value if info is None or info.alias else _of_struct(info, value)


_MAP: Final = re.compile(r"map\[[^\]]+\](.+)")


@cache
def _lists_below(package: str, name: str) -> dict[str, tuple[str, bool]]:
    """Return the fields of a type that are such lists or lead to one: JSON name → Go type, and True for the former."""
    return _found_below(package, name, frozenset())


def _found_below(package: str, name: str, around: frozenset[tuple[str, str]]) -> dict[str, tuple[str, bool]]:
    info = locate(package, name)
    if info is None or info.alias or (package, name) in around:
        return {}
    found: dict[str, tuple[str, bool]] = {}
    for field in info.fields.values():
        if field.name == "-":
            continue  # JSON leaves it out
        is_list = field.go.startswith("[]") and field.go != "[]byte"
        element = field.go.lstrip("*[]").rpartition("]")[2]
        inner = locate(info.package, element)
        leads = inner is not None and bool(_found_below(inner.package, inner.name, around | {(package, name)}))
        if (is_list and not field.omitempty) or leads:
            found[field.name] = (field.go, is_list and not field.omitempty)
    return found
