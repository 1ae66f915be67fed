"""Attribute values as constraints compare them (docs/spec/allocation.md §10).

A value is a pair: the type, and something hashable that is equal exactly when Kubernetes calls the values equal. With
lists on it is a set; without, a single value. None means: missing, or of no known type.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from cathedra.allocation.features import Features
from cathedra.allocation.supply.caches import CacheSlot
from cathedra.allocation.supply.devices import Signature
from cathedra.api.resource import DeviceAttribute

__all__ = ["Missing", "Value", "constraint_value", "scalar_or_set"]

Value: TypeAlias = tuple[str, object]
Missing: Final = None

_SEMVER: Final = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)


_VALUES: Final[CacheSlot[dict[tuple[str, bool, str, bool], Value | None]]] = CacheSlot("constraint values", dict)


def constraint_value(signature: Signature, name: str, features: Features, *, distinct: bool) -> Value | None:
    """The value of the attribute ``name`` as a constraint sees it; computed once per signature.

    Only matchAttribute knows the precedence of versions; ``distinct`` compares their texts.
    """
    cache = signature.caches.of(_VALUES)
    key = (name, features.list_type_attributes, features.behaviour.name, distinct)
    if key not in cache:
        attribute = signature.attribute(name)
        value = None if attribute is None else scalar_or_set(attribute, features, distinct=distinct)
        if value is None and attribute is not None and features.behaviour.unknown_value_may_come_first:
            value = None if features.list_type_attributes else ("unknown", None)
        cache[key] = value
    return cache[key]


def scalar_or_set(attribute: DeviceAttribute, features: Features, *, distinct: bool) -> Value | None:
    """The comparable form of an attribute's value."""
    scalar = _scalar(attribute)
    if features.list_type_attributes:
        if scalar is not None:
            return scalar[0], frozenset((scalar[1],))
        return _list(attribute)
    if scalar is None:
        return None
    kind, value = scalar
    if kind == "version" and not distinct and features.behaviour.versions_match_by_precedence:
        return kind, _precedence(str(value))
    return kind, value


def _scalar(attribute: DeviceAttribute) -> Value | None:
    for kind, value in (
        ("int", attribute.int_),
        ("bool", attribute.bool_),
        ("string", attribute.string),
        ("version", attribute.version),
    ):
        if value is not None:
            return kind, value
    return None


def _list(attribute: DeviceAttribute) -> Value | None:
    for kind, values in (
        ("int", attribute.ints),
        ("bool", attribute.bools),
        ("string", attribute.strings),
        ("version", attribute.versions),
    ):
        if values:
            return kind, frozenset(values)
    return None


def _precedence(version: str) -> object:
    """What semantic versioning compares: everything but the build metadata."""
    shape = _SEMVER.fullmatch(version)
    return shape.group(1, 2, 3, 4) if shape else version
