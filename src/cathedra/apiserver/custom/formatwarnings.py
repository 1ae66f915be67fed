"""Formats in the schemas of a definition that mean nothing here: they are accepted, and nothing checks them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cathedra.api.core.apiextensions_v1 import CustomResourceDefinition
from cathedra.apiserver.custom.formats import FORMATS
from cathedra.apiserver.custom.schema import MAX_DEPTH, deeper_than

__all__ = ["unrecognized_formats"]

_KNOWN: Final = frozenset(name.replace("-", "") for name in FORMATS) | {"quantity"}
"""Formats of texts. Kubernetes forgets the type when it looks for others, so those of numbers are among them."""
_LISTS: Final = ("allOf", "oneOf", "anyOf")
_SINGLE: Final = ("items", "not", "additionalProperties")


def unrecognized_formats(definition: CustomResourceDefinition) -> list[str]:
    """The formats that are not known, in the order of versions and fields, each as often as it is there."""
    found: list[str] = []
    for version in definition.spec.versions:
        if version.schema is None or version.schema.open_apiv3_schema is None:
            continue
        try:
            source = version.schema.open_apiv3_schema.load()
        except RecursionError:
            continue  # refused by validation
        if isinstance(source, Mapping) and not deeper_than(MAX_DEPTH, source):
            found.extend(_in_schema(source))
    return found


def _in_schema(source: Mapping[str, Any]) -> Iterator[str]:
    name = source.get("format")
    if isinstance(name, str) and name and name.replace("-", "") not in _KNOWN:
        yield name
    for key in _SINGLE:
        if isinstance(source.get(key), Mapping):
            yield from _in_schema(source[key])
    for key in _LISTS:
        for inner in source.get(key) or ():
            if isinstance(inner, Mapping):
                yield from _in_schema(inner)
    properties = source.get("properties")
    if isinstance(properties, Mapping):
        for _, inner in sorted(properties.items()):
            if isinstance(inner, Mapping):
                yield from _in_schema(inner)
