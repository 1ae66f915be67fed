"""The OpenAPI document of the tools over HTTP, derived from the tools and from the models of their answers."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

from cathedra import __version__
from cathedra.api.core.meta_v1 import Status
from cathedra.engine.schemas import schema_of
from cathedra.insight import (
    DeviceList,
    Explanation,
    ExplanationOverview,
    LintReport,
    SelectorMatch,
    Simulation,
    UsageReport,
)
from cathedra.insight.rendering import API_VERSION
from cathedra.mcp.tools import TOOLS, AgentTool

_ANSWERS: Final[dict[str, tuple[type[msgspec.Struct], ...]]] = {
    "explain": (Explanation, ExplanationOverview),
    "devices": (DeviceList,),
    "usage": (UsageReport,),
    "simulate": (Simulation,),
    "lint": (LintReport,),
    "match": (SelectorMatch,),
}
_ERRORS: Final = {
    "400": "An argument is wrong.",
    "401": "There is no valid token or certificate.",
    "403": "A right is missing, which the message names.",
    "404": "There is no such object.",
    "413": "The body is too long.",
    "429": "There are too many questions; Retry-After has the seconds.",
    "500": "A fault of the server.",
    "503": "The API server does not answer, or the cluster has not been read yet.",
    "504": "The answer takes too long.",
}
_REF: Final = "#/components/schemas/"


@cache
def document() -> bytes:
    """Return the document as JSON."""
    return msgspec.json.encode(_document())


def _document() -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "cathedra advisor",
            "version": __version__,
            "description": "Devices and claims of one cluster, read-only, within the rights of the user.",
        },
        "security": [{"bearer": []}],
        "paths": {f"/{tool.name}": _operations(tool) for tool in TOOLS},
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
        },
    }


def _operations(tool: AgentTool) -> dict[str, Any]:
    arguments = tool.schema()
    detail = {
        "name": "detail",
        "in": "query",
        "description": "the beginnings of long lists in at most 5,000 characters, or everything",
        "schema": {"type": "string", "enum": ["summary", "full"], "default": "summary"},
    }
    found: dict[str, Any] = {}
    for method in tool.methods:
        operation: dict[str, Any] = {
            "operationId": f"{method.lower()}_{tool.name}",
            "summary": tool.purpose,
            "parameters": [detail],
            "responses": _responses(tool),
        }
        if method == "GET":
            operation["parameters"] = [*_parameters(tool, arguments), detail]
        else:
            operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": arguments}}}
        found[method.lower()] = operation
    return found


def _parameters(tool: AgentTool, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    own = [
        {
            "name": name,
            "in": "query",
            "required": name in arguments["required"],
            "description": schema["description"],
            "schema": {key: value for key, value in schema.items() if key != "description"},
        }
        for name, schema in arguments["properties"].items()
    ]
    if tool.name != "explain":
        return own
    short = [
        {
            "name": kind,
            "in": "query",
            "description": f"a {kind}, as NAMESPACE/NAME, instead of subject and namespace",
            "schema": {"type": "string"},
        }
        for kind in ("pod", "claim")
    ]
    return [*short, *own]


def _responses(tool: AgentTool) -> dict[str, Any]:
    models = [{"$ref": f"{_REF}{one.__name__}"} for one in _ANSWERS[tool.name]]
    answer = {
        "type": "object",
        "required": ["apiVersion", "kind", "leftOut", "result"],
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": "Answer"},
            "leftOut": {
                "type": "array",
                "items": {"type": "string"},
                "description": "what is missing in the result, a sentence each",
            },
            "result": models[0] if len(models) == 1 else {"oneOf": models},
        },
    }
    status = {"application/json": {"schema": {"$ref": f"{_REF}Status"}}}
    return {
        "200": {"description": "The answer.", "content": {"application/json": {"schema": answer}}},
        **{code: {"description": text, "content": status} for code, text in _ERRORS.items()},
    }


def _schemas() -> dict[str, Any]:
    """Return the models by name. No field is required: empty ones are left out of a summary."""
    found: dict[str, Any] = {}
    for kinds in _ANSWERS.values():
        for kind in kinds:
            schema = schema_of(kind)
            definitions = schema["$defs"]
            head = {key: schema[key] for key in ("title", "type", "required", "properties")}
            definitions[kind.__name__]["properties"] |= head["properties"]
            found |= {name: _referring(one) for name, one in definitions.items()}
            found[kind.__name__]["required"] = ["apiVersion", "kind"]
    status = msgspec.json.schema_components([Status], ref_template=_REF + "{name}")[1]
    return {**found, **{name: _referring(one) for name, one in status.items()}}


def _referring(schema: Any) -> Any:
    """Return a schema whose references point into the document, without required fields."""
    if isinstance(schema, dict):
        kept = {
            key: _referring(value)
            for key, value in schema.items()
            if not (key == "required" and isinstance(value, list))
        }
        if isinstance(kept.get("$ref"), str):
            kept["$ref"] = kept["$ref"].replace("#/$defs/", _REF)
        return kept
    if isinstance(schema, list):
        return [_referring(one) for one in schema]
    return schema
