"""The types that expressions know objects by, from the OpenAPI schemas of their kinds.

What a schema does not say is not there for the checker: values of any type, maps and lists of such values, and
quantities, which are texts or numbers. So it is in Kubernetes (``SchemaDeclType`` of k8s.io/apiserver/pkg/cel/common).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from cathedra.cel.checking import types
from cathedra.cel.checking.types import Type
from cathedra.cel.fieldnames import escaped, is_writable

__all__ = ["ObjectTypes"]

_REFERENCE: Final = "#/components/schemas/"
_TEXT: Final = {"type": "string"}
_METADATA: Final = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}
_SCALARS: Final = {"boolean": types.BOOL, "number": types.DOUBLE, "integer": types.INT}
_TEXTS: Final = {
    "byte": types.BYTES,
    "duration": types.DURATION,
    "date": types.TIMESTAMP,
    "date-time": types.TIMESTAMP,
}

Schema = Mapping[str, Any]


class ObjectTypes(msgspec.Struct, frozen=True):
    """Collects the object types of one environment, by name."""

    objects: dict[str, dict[str, Type]] = msgspec.field(default_factory=dict)

    def of_kind(self, schema: Schema, components: Mapping[str, Schema], name: str) -> Type | None:
        """The type of a kind's objects, under that name; ``components`` are what references lead to. None if
        expressions cannot know it."""
        return self._of(schema, components, name, frozenset(), root=True)

    def _of(
        self, schema: Schema, components: Mapping[str, Schema], name: str, seen: frozenset[str], *, root: bool
    ) -> Type | None:
        schema, seen = _resolved(schema, components, seen)
        if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
            return types.DYN
        properties: Mapping[str, Schema] = schema.get("properties") or {}
        if root:
            properties = _with_metadata(properties, components)
        kind = schema.get("type", "")
        if kind == "string":
            return _TEXTS.get(schema.get("format", ""), types.STRING)
        if kind == "array":
            element = self._inner(schema.get("items"), components, f"{name}.@idx", seen)
            return types.list_of(element) if element is not None else None
        if kind != "object":
            return _SCALARS.get(kind)
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping):
            value = self._inner(values, components, f"{name}.@elem", seen)
            return types.map_of(types.STRING, value) if value is not None else None
        self.objects[name] = {
            escaped(one): found
            for one, inner in properties.items()
            if is_writable(one)
            and (found := self._inner(inner, components, f"{name}.{escaped(one)}", seen)) is not None
        }
        return types.struct(name)

    def _inner(
        self, schema: Schema | None, components: Mapping[str, Schema], name: str, seen: frozenset[str]
    ) -> Type | None:
        if schema is None:
            return None
        return self._of(schema, components, name, seen, root=bool(schema.get("x-kubernetes-embedded-resource")))


def _resolved(schema: Schema, components: Mapping[str, Schema], seen: frozenset[str]) -> tuple[Schema, frozenset[str]]:
    """The schema itself, and the references that lead to it; a reference that leads back to one of them is an object
    of which nothing more is known."""
    while reference := _reference(schema):
        if reference in seen:
            return {"type": "object"}, seen
        seen |= {reference}
        schema = components.get(reference.removeprefix(_REFERENCE), {})
    return schema, seen


def _reference(schema: Schema) -> str:
    """The reference that a schema is, also one that is wrapped to carry a description; "" if it is none."""
    if "$ref" in schema:
        return str(schema["$ref"])
    return next((found for one in schema.get("allOf") or () if (found := _reference(one))), "")


def _with_metadata(properties: Mapping[str, Schema], components: Mapping[str, Schema]) -> Mapping[str, Schema]:
    """The fields with those that every object has: kind, apiVersion, and in metadata name and generateName."""
    metadata, _ = _resolved(properties.get("metadata") or {}, components, frozenset())
    known: Mapping[str, Schema] = metadata.get("properties") or {}
    if {"kind", "apiVersion"} <= set(properties) and {"name", "generateName"} <= set(known):
        return properties
    return {**properties, "kind": _TEXT, "apiVersion": _TEXT, "metadata": _METADATA}
