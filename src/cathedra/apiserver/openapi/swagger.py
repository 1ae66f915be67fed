"""OpenAPI v2: all documents of v3 in one, in the older form (docs/spec/apimachinery.md §3).

Older clients validate and explain with it; all others read v3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from cathedra.api.struct import encode
from cathedra.apiserver.openapi.schemas import OpenAPIObject

_PLAIN: dict[str, OpenAPIObject] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": "string", "format": "int-or-string"},
}
"""Schemas that v3 describes more exactly than v2 can."""
_BUILT_IN: Final = ("io.k8s.api.", "io.k8s.apimachinery.", "io.k8s.apiextensions-apiserver.", "io.k8s.kube-aggregator.")
"""Schemas of built-in types, whose defaults kube-apiserver prunes from version 2. Custom ones keep theirs."""


class SwaggerPart(msgspec.Struct, frozen=True):
    """The contribution of one document of version 3, in JSON.

    It is kept while that document is served, so that a change of one group costs only that group's part.
    """

    paths: dict[str, msgspec.Raw]
    definitions: dict[str, msgspec.Raw]


def swagger_part(document: OpenAPIObject, check: Callable[[], object] = bool) -> SwaggerPart:
    """Return the part of one document whose operations were made by `kept_path`.

    ``check`` is called between schemas, and may raise an exception.
    """
    paths: dict[str, msgspec.Raw] = document["paths"]
    definitions: dict[str, msgspec.Raw] = {}
    for name, schema in document["components"]["schemas"].items():
        check()
        made = _schema({**schema, **_PLAIN.get(name, {})}, top=True)
        made.pop("oneOf", None)  # version 2 has no alternatives
        if name.startswith(_BUILT_IN):
            made = _without_defaults(made)
        definitions[name] = msgspec.Raw(encode(made))
    return SwaggerPart(paths, definitions)


def _without_defaults(schema: OpenAPIObject) -> OpenAPIObject:
    made: OpenAPIObject = {key: value for key, value in schema.items() if key != "default"}
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), dict):
            made[key] = _without_defaults(made[key])
    if "properties" in made:
        made["properties"] = {name: _without_defaults(one) for name, one in made["properties"].items()}
    return made


def joined(parts: Iterable[SwaggerPart], release: str) -> bytes:
    """Return the document of version 2, in JSON."""
    paths: dict[str, msgspec.Raw] = {}
    definitions: dict[str, msgspec.Raw] = {}
    for part in parts:
        paths |= part.paths
        definitions |= part.definitions
    return encode(
        {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": f"v{release}.0"},
            "paths": dict(sorted(paths.items())),
            "definitions": dict(sorted(definitions.items())),
            "securityDefinitions": {
                "BearerToken": {
                    "description": "Bearer Token authentication",
                    "type": "apiKey",
                    "name": "authorization",
                    "in": "header",
                }
            },
            "security": [{"BearerToken": []}],
        }
    )


def kept_path(item: OpenAPIObject) -> msgspec.Raw:
    """Return the JSON of the operations on a path in version 2."""
    return msgspec.Raw(encode(_path(item)))


def _path(item: OpenAPIObject) -> OpenAPIObject:
    made: OpenAPIObject = {}
    for method, operation in item.items():
        if method == "parameters":
            made[method] = [_parameter(parameter) for parameter in operation]
        else:
            made[method] = _operation(operation)
    return made


def _operation(operation: OpenAPIObject) -> OpenAPIObject:
    made = {key: value for key, value in operation.items() if key not in {"requestBody", "responses", "parameters"}}
    parameters = [_parameter(parameter) for parameter in operation.get("parameters", ())]
    body = operation.get("requestBody")
    made["consumes"] = ["*/*"]
    if body is not None:
        content = body["content"]
        made["consumes"] = list(content)
        schema = next(iter(content.values()))["schema"]
        named = {"name": "body", "in": "body", "schema": _schema(schema)}
        parameters.insert(0, {**named, "required": True} if body.get("required") else named)
    made["parameters"] = parameters
    made["produces"] = sorted(
        {kind for answer in operation["responses"].values() for kind in answer.get("content", ())}
    )
    made["schemes"] = ["https"]
    made["responses"] = {code: _response(answer) for code, answer in operation["responses"].items()}
    return made


def _response(answer: OpenAPIObject) -> OpenAPIObject:
    made = {"description": answer["description"]}
    # Version 2 has one schema for all media types, and they all have the same here.
    for content in answer.get("content", {}).values():
        made["schema"] = _schema(content["schema"])
        break
    return made


def _parameter(parameter: OpenAPIObject) -> OpenAPIObject:
    made = {key: value for key, value in parameter.items() if key != "schema"}
    return {**made, **parameter["schema"]}


def _schema(schema: Any, *, top: bool = False) -> Any:
    if isinstance(schema, list):
        return [_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {"$ref": schema["$ref"].replace("#/components/schemas/", "#/definitions/")}
    made: OpenAPIObject = {}
    for key, value in schema.items():
        # Version 3 wraps a reference to give it a description; in version 2 a reference has neither.
        if key == "allOf" and len(value) == 1 and "$ref" in value[0]:
            made |= _schema(value[0])
        elif key in {"default", "nullable"} and not top:
            if value not in ({}, None) and key == "default" and "allOf" not in schema:
                made[key] = value
        elif key == "properties":
            made[key] = {name: _schema(item) for name, item in value.items()}
        elif key in {"items", "additionalProperties", "allOf", "anyOf", "oneOf", "not"}:
            made[key] = _schema(value)
        else:
            made[key] = value
    return made
