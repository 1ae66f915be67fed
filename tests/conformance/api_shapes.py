"""The reduced forms in which ``vectors/api`` records discovery and OpenAPI."""

from __future__ import annotations

import re
from typing import Any

GROUPS = frozenset({"", "apps", "batch", "resource.k8s.io"})


def shaped(shape: str, value: Any) -> Any:
    """``value`` reduced to what the vectors keep."""
    return {
        "openapi": openapi,
        "aggregated": aggregated,
        "groups": groups,
        "index": index,
        "index_root": index_root,
    }[shape](value)


def aggregated(value: Any) -> Any:
    items = [item for item in value.get("items", []) if item["metadata"].get("name", "") in GROUPS]
    return {**value, "items": items}


def groups(value: Any) -> Any:
    return {**value, "groups": [group for group in value.get("groups", []) if group["name"] in GROUPS]}


def index(value: Any) -> Any:
    return {"paths": {path: item for path, item in value["paths"].items() if _kept(path)}}


def index_root(value: Any) -> Any:
    return {**value, "paths": [path for path in value["paths"] if _kept(path.strip("/"))]}


def _kept(path: str) -> bool:
    return bool(re.fullmatch(r"|api(/v1)?|apis(/(apps|batch|resource\.k8s\.io)(/.*)?)?|version|openapi/.*", path))


METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


def openapi(value: Any) -> Any:
    """Schemas and paths without descriptions; references as names."""
    own = {path.split("/")[2] for path in value["paths"] if path.startswith("/apis/")} | {""}
    schemas = {name: _schema(schema) for name, schema in value["components"]["schemas"].items()}
    for schema in schemas.values():
        if len(schema.get("x-kubernetes-group-version-kind", ())) > 1:
            versions = {path.split("/")[3] for path in value["paths"] if path.startswith("/apis/")}
            schema["x-kubernetes-group-version-kind"] = [
                gvk
                for gvk in schema["x-kubernetes-group-version-kind"]
                if gvk["group"] == "" or (gvk["group"] in own and gvk["version"] in versions)
            ]
    return {"schemas": schemas, "paths": {path: _path(item) for path, item in value["paths"].items()}}


def _schema(schema: Any) -> Any:
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "allOf" in schema:
        name = schema["allOf"][0]["$ref"].rpartition("/")[2]
        return {"ref": name, "default": schema["default"]} if "default" in schema else name
    kept = {key: schema[key] for key in ("type", "format", "default", "enum", "oneOf", "required") if key in schema}
    kept |= {key: item for key, item in schema.items() if key.startswith("x-")}
    if "properties" in schema:
        kept["properties"] = {name: _schema(item) for name, item in schema["properties"].items()}
    if "items" in schema:
        kept["items"] = _inner(schema["items"])
    if "additionalProperties" in schema:
        kept["values"] = _inner(schema["additionalProperties"])
    return kept


def _inner(schema: Any) -> Any:
    reduced = _schema(schema)
    if isinstance(reduced, dict):
        reduced.pop("default", None)
        return reduced["ref"] if set(reduced) == {"ref"} else reduced
    return reduced


def _path(item: Any) -> Any:
    reduced: dict[str, Any] = {"parameters": sorted(one["name"] for one in item.get("parameters", ()))}
    for method in METHODS:
        if method in item:
            operation = item[method]
            reduced[method] = {
                "operationId": operation["operationId"],
                "action": operation.get("x-kubernetes-action"),
                "gvk": operation.get("x-kubernetes-group-version-kind"),
                "parameters": sorted(one["name"] for one in operation.get("parameters", ())),
            }
    return reduced
