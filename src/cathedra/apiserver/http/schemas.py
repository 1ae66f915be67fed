"""Component schemas of an OpenAPI document: collected as they are referred to, each once."""

from __future__ import annotations

import re
import types
import typing
from typing import Any, Final

from cathedra.api.core.meta_v1 import Status
from cathedra.api.struct import KubeStruct, MicroTime, Quantity, RawJSON, Time, json_names
from cathedra.apiserver.patches.schema import facts_of

__all__ = ["SchemaCollector"]

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_PATCH: Final = f"{_META}.Patch"
_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_RAW: Final = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_SCALARS: Final[dict[type, dict[str, Any]]] = {
    str: {"type": "string", "default": ""},
    bool: {"type": "boolean", "default": False},
    int: {"type": "integer", "format": "int64", "default": 0},
    float: {"type": "number", "format": "double", "default": 0},
    bytes: {"type": "string", "format": "byte"},
}
_VALUE_TYPES: Final[dict[type, tuple[str, dict[str, Any]]]] = {
    Quantity: (_QUANTITY, {"type": "string"}),
    Time: (f"{_META}.Time", {"type": "string", "format": "date-time"}),
    MicroTime: (f"{_META}.MicroTime", {"type": "string", "format": "date-time"}),
    RawJSON: (_RAW, {"type": "object"}),
}


class SchemaCollector:
    """Schemas of one document."""

    def __init__(self) -> None:
        self._schemas: dict[str, dict[str, Any]] = {}

    def definitions(self) -> dict[str, Any]:
        """All schemas referred to, by name."""
        return dict(sorted(self._schemas.items()))

    def reference(self, kind: type[KubeStruct], gvk: dict[str, str] | None = None) -> dict[str, Any]:
        """A reference to a struct's schema, which is made on the way."""
        name = schema_name(kind)
        if name not in self._schemas:
            self._schemas[name] = {}
            self._schemas[name] = self._struct(kind)
        if gvk is not None:
            self._schemas[name]["x-kubernetes-group-version-kind"] = [gvk]
        return {"$ref": f"#/components/schemas/{name}"}

    def list_reference(self, kind: type[KubeStruct], gvk: dict[str, str]) -> dict[str, Any]:
        """A reference to the schema of a list of these objects."""
        from cathedra.api.core.meta_v1 import ListMeta

        name = f"{schema_name(kind)}List"
        item = self.reference(kind)
        self._schemas[name] = {
            "type": "object",
            "description": f"A list of {gvk['kind']} objects.",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "items": {"type": "array", "items": {"allOf": [item], "default": {}}},
                "kind": {"type": "string"},
                "metadata": {"allOf": [self.reference(ListMeta)], "default": {}},
            },
            "x-kubernetes-group-version-kind": [{**gvk, "kind": f"{gvk['kind']}List"}],
        }
        return {"$ref": f"#/components/schemas/{name}"}

    def status(self) -> dict[str, Any]:
        """A reference to the schema of Status."""
        return self.reference(Status)

    def patch(self) -> dict[str, Any]:
        """A reference to the schema of any patch."""
        self._schemas[_PATCH] = {"type": "object", "description": "A patch in one of the four forms."}
        return {"$ref": f"#/components/schemas/{_PATCH}"}

    def _struct(self, kind: type[KubeStruct]) -> dict[str, Any]:
        hints = typing.get_type_hints(kind)
        facts = facts_of(kind)
        properties: dict[str, Any] = {}
        required: list[str] = []
        for attribute, name in json_names(kind).items():
            known = facts.get(name, {})
            properties[name] = self._property(hints[attribute], known)
            if known.get("required"):
                required.append(name)
        schema: dict[str, Any] = {"type": "object", "properties": dict(sorted(properties.items()))}
        if kind.__doc__:
            schema["description"] = re.sub(r"\s+", " ", kind.__doc__.strip())
        if required:
            schema["required"] = sorted(required)
        return schema

    def _property(self, hint: Any, facts: dict[str, Any]) -> dict[str, Any]:
        schema = self._of(hint)
        if "$ref" in schema:
            schema = {"allOf": [schema]}
            if not facts.get("type", "").startswith("*"):
                schema["default"] = {}
        if (facts.get("optional") or facts.get("omitempty")) and schema.get("default") != {}:
            schema.pop("default", None)
        for fact, extension in (("listType", "list-type"), ("listMapKeys", "list-map-keys"), ("mapType", "map-type")):
            if fact in facts:
                schema[f"x-kubernetes-{extension}"] = facts[fact]
        if "patchStrategy" in facts:
            schema["x-kubernetes-patch-strategy"] = facts["patchStrategy"]
        if "patchMergeKey" in facts:
            schema["x-kubernetes-patch-merge-key"] = facts["patchMergeKey"]
        return schema

    def _of(self, hint: Any) -> dict[str, Any]:
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in {typing.Union, types.UnionType}:
            inner = [argument for argument in arguments if argument is not type(None)]
            return self._of(inner[0]) if len(inner) == 1 else {"type": "string", "format": "int-or-string"}
        if origin is tuple:
            return {"type": "array", "items": self._item(arguments[0])}
        if origin is dict:
            return {"type": "object", "additionalProperties": self._item(arguments[1])}
        if isinstance(hint, type):
            if issubclass(hint, KubeStruct):
                return self.reference(hint)
            if hint in _VALUE_TYPES:
                name, schema = _VALUE_TYPES[hint]
                self._schemas[name] = dict(schema)
                return {"$ref": f"#/components/schemas/{name}"}
            if hint in _SCALARS:
                return dict(_SCALARS[hint])
        return {"type": "object"}

    def _item(self, hint: Any) -> dict[str, Any]:
        schema = self._of(hint)
        return {"allOf": [schema], "default": {}} if "$ref" in schema else schema


def schema_name(kind: type[KubeStruct]) -> str:
    """``io.k8s.api.<group>.<version>.<Kind>``."""
    module = kind.__module__.rpartition(".")[2]
    if module == "meta_v1":
        return f"{_META}.{kind.__name__}"
    group, _, version = "resource_v1".rpartition("_") if module == "resource" else module.rpartition("_")
    return f"io.k8s.api.{group}.{version}.{kind.__name__}"
