"""One OpenAPI v3 document per group version: a path per resource and sub-resource, and the schemas they use.

Made when first asked for. Schemas come from the object structs (`cathedra.api.openapi`); paths from the definitions
(spec: apimachinery.md, section 3).
"""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.definition import ResourceDefinition, VersionDefinition
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.http.schemas import SchemaCollector

__all__ = ["document"]

PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_BODY_TYPES: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


def document(catalog: Catalog, group: str, version: str, release: str) -> dict[str, Any]:
    """The document of one group version."""
    schemas = SchemaCollector()
    paths: dict[str, Any] = {}
    prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
    for definition in sorted(catalog, key=lambda d: d.plural):
        served = next((v for v in definition.versions if v.name == version), None)
        if definition.group == group and served is not None:
            paths |= _resource_paths(prefix, definition, served, schemas)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": release},
        "paths": paths,
        "components": {"schemas": schemas.definitions()},
    }


def _resource_paths(
    prefix: str, definition: ResourceDefinition[Any], version: VersionDefinition, schemas: SchemaCollector
) -> dict[str, Any]:
    kind = {"group": definition.group, "kind": definition.kind, "version": version.name}
    reference = schemas.reference(version.type, kind)
    listed = schemas.list_reference(version.type, kind)
    where = (
        f"{prefix}/namespaces/{{namespace}}/{definition.plural}"
        if definition.namespaced
        else (f"{prefix}/{definition.plural}")
    )
    verbs = definition.verbs
    scope = [_parameter("namespace", "string", "path")] if definition.namespaced else []
    collection: dict[str, Any] = {}
    if "list" in verbs:
        collection["get"] = _operation("list", kind, listed, _list_parameters())
    if "create" in verbs:
        collection["post"] = _operation("post", kind, reference, _write_parameters(), reference)
    if "deletecollection" in verbs:
        collection["delete"] = _operation("deletecollection", kind, schemas.status(), _list_parameters())
    single: dict[str, Any] = {}
    if "get" in verbs:
        single["get"] = _operation("get", kind, reference, [])
    if "update" in verbs:
        single["put"] = _operation("put", kind, reference, _write_parameters(), reference)
    if "delete" in verbs:
        single["delete"] = _operation("delete", kind, schemas.status(), _delete_parameters())
    if "patch" in verbs:
        single["patch"] = _patch_operation(kind, reference, schemas)
    paths = {where: {**collection, "parameters": [*scope, _parameter("pretty", "string", "query")]}}
    named = [_parameter("name", "string", "path"), *scope, _parameter("pretty", "string", "query")]
    paths[f"{where}/{{name}}"] = {**single, "parameters": named}
    if definition.namespaced and "list" in verbs:
        paths[f"{prefix}/{definition.plural}"] = {
            "get": _operation("list", kind, listed, []),
            "parameters": _list_parameters(),
        }
    for subresource in definition.subresources:
        if version.subresources is None or subresource in version.subresources:
            paths[f"{where}/{{name}}/{subresource}"] = {
                "get": _operation("get", kind, reference, []),
                "put": _operation("put", kind, reference, _write_parameters(), reference),
                "patch": _patch_operation(kind, reference, schemas),
                "parameters": named,
            }
    return paths


def _parameter(name: str, kind: str, where: str) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "in": where, "schema": {"type": kind, "uniqueItems": True}}
    if where == "path":
        made["required"] = True
    return made


def _list_parameters() -> list[dict[str, Any]]:
    kinds = {
        "allowWatchBookmarks": "boolean",
        "continue": "string",
        "fieldSelector": "string",
        "labelSelector": "string",
        "limit": "integer",
        "resourceVersion": "string",
        "resourceVersionMatch": "string",
        "sendInitialEvents": "boolean",
        "timeoutSeconds": "integer",
        "watch": "boolean",
    }
    return [_parameter(name, kind, "query") for name, kind in kinds.items()]


def _write_parameters() -> list[dict[str, Any]]:
    return [_parameter(name, "string", "query") for name in ("dryRun", "fieldManager", "fieldValidation")]


def _delete_parameters() -> list[dict[str, Any]]:
    kinds = {
        "dryRun": "string",
        "gracePeriodSeconds": "integer",
        "ignoreStoreReadErrorWithClusterBreakingPotential": "boolean",
        "orphanDependents": "boolean",
        "propagationPolicy": "string",
    }
    return [_parameter(name, kind, "query") for name, kind in kinds.items()]


def _content(reference: dict[str, Any], types: tuple[str, ...] = _BODY_TYPES) -> dict[str, Any]:
    return {kind: {"schema": reference} for kind in types}


def _operation(
    action: str,
    kind: dict[str, str],
    answer: dict[str, Any],
    parameters: list[dict[str, Any]],
    body: dict[str, Any] | None = None,
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "responses": {
            "200": {"description": "OK", "content": _content(answer)},
            "401": {"description": "Unauthorized"},
        },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": kind,
    }
    if parameters:
        made["parameters"] = parameters
    if body is not None:
        made["requestBody"] = {"content": _content(body, ("*/*",)), "required": True}
    if action == "post":
        made["responses"]["201"] = {"description": "Created", "content": _content(answer)}
        made["responses"]["202"] = {"description": "Accepted", "content": _content(answer)}
    if action == "put":
        made["responses"]["201"] = {"description": "Created", "content": _content(answer)}
    return made


def _patch_operation(kind: dict[str, str], reference: dict[str, Any], schemas: SchemaCollector) -> dict[str, Any]:
    made = _operation(
        "patch", kind, reference, [*_write_parameters(), _parameter("force", "boolean", "query")], reference
    )
    made["requestBody"] = {"content": _content(schemas.patch(), PATCHES), "required": True}
    made["responses"]["201"] = {"description": "Created", "content": _content(reference)}
    return made
