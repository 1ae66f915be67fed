"""A small custom kind for tests: things with a size, and a status."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.apiextensions_v1 import CustomResourceDefinition
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import from_dict
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.custom.kinds import kind_of_definition
from cathedra.apiserver.custom.objects import with_content
from cathedra.apiserver.request import Call
from cathedra.kinds.definition import RequestContext, ResourceDefinition
from cathedra.releases import FeatureGates

__all__ = ["call", "context", "kind", "thing", "version"]

SIZE = {"type": "integer", "default": 1, "maximum": 9}
STATUS = {"type": "object", "properties": {"ready": {"type": "boolean"}}}


def version(name: str = "v1", *, status: bool = True, rules: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """A version whose spec has a size; ``rules`` are the CEL rules of the spec."""
    spec = {"type": "object", "properties": {"size": SIZE}, "x-kubernetes-validations": list(rules)}
    schema = {"type": "object", "properties": {"spec": spec, "status": STATUS}}
    made: dict[str, Any] = {"name": name, "served": True, "storage": False, "schema": {"openAPIV3Schema": schema}}
    return {**made, "subresources": {"status": {}}} if status else made


def kind(*versions: dict[str, Any]) -> ResourceDefinition[Any]:
    """The kind of a definition with these versions, of which the first is stored."""
    first, *others = versions or (version(),)
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
        "versions": [{**first, "storage": True}, *others],
    }
    body = {"metadata": {"name": "things.example.com"}, "spec": spec}
    return kind_of_definition(from_dict(CustomResourceDefinition, body))


def thing(definition: ResourceDefinition[Any], generation: int = 0, **values: Any) -> Any:
    """An instance with these fields."""
    return with_content(definition.type, ObjectMeta(name="a", generation=generation), values)


def context(version: str = "v1") -> RequestContext:
    """A request in a version."""
    return RequestContext(gates=FeatureGates.for_release(), now=0.0, api_version=f"example.com/{version}")


def call(definition: ResourceDefinition[Any], **options: Any) -> Call:
    """A write of an instance in the preferred version."""
    return Call.on(definition, definition.versions[0], user=UserInfo("ada"), verb="create", **options)
