"""JSON schemas of the models that ``kubectl dra -o json`` prints, and of the engine's messages.

They are derived from the structs, so documents, ``docs/schemas`` and the OpenAPI document of the advisor agree.
"""

from __future__ import annotations

import inspect
import json
import re
from typing import Any, Final

import msgspec

from cathedra.engine.messages import Answer, Completions, EvaluatedExpression, Question, ShownObject, Summary
from cathedra.insight import (
    Conversion,
    Defragmentation,
    DeviceList,
    Explanation,
    ExplanationOverview,
    LintReport,
    MovePlan,
    SelectorMatch,
    Simulation,
    UsageReport,
)
from cathedra.insight.inventory.clustermap import ClusterMap
from cathedra.insight.inventory.compactmap import CompactMap
from cathedra.insight.rendering import API_VERSION

MODELS: Final = (
    *(
        Explanation,
        ExplanationOverview,
        DeviceList,
        Simulation,
        LintReport,
        SelectorMatch,
        Conversion,
        MovePlan,
        Defragmentation,
        UsageReport,
    ),
    *(Answer, Summary, ClusterMap, CompactMap, EvaluatedExpression, Completions, ShownObject),
)
"""All models that have a schema of their own."""
_LEFT_OUT: Final = {"Change": ("set", "removed")}
"""Fields that are for the library alone."""
_ADDED: Final = {
    "Explanation": ("fits",),
    "ExplanationOverview": ("fits",),
    "Simulation": ("fits",),
    "LintReport": ("clean",),
    "MovePlan": ("fits",),
    "Defragmentation": ("better",),
}
"""Answers beside the fields."""


def _order_alternatives(value: Any) -> None:
    """Put null behind the other alternatives of each ``anyOf``: its place depends on the version of msgspec."""
    if isinstance(value, dict):
        if "anyOf" in value:
            value["anyOf"].sort(key=lambda one: one == {"type": "null"})
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            _order_alternatives(one)


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of one answer."""
    found: dict[str, Any] = msgspec.json.schema(kind, schema_hook=lambda _: {"type": "string"})
    definitions = found["$defs"]
    for name, fields in _LEFT_OUT.items():
        for field in fields:
            definitions.get(name, {"properties": {}})["properties"].pop(field, None)
    definitions = {name: definitions[name] for name in sorted(_used(kind.__name__, definitions))}
    for definition in definitions.values():
        # Python 3.13 takes the indentation out of docstrings itself.
        if "description" in definition:
            definition["description"] = inspect.cleandoc(definition["description"])
        _order_alternatives(definition)
    for name in _ADDED.get(kind.__name__, ()):
        definitions[kind.__name__]["properties"][name] = {"type": "boolean"}
    head = {"apiVersion": {"const": API_VERSION}, "kind": {"const": kind.__name__}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": kind.__name__,
        "type": "object",
        "required": ["apiVersion", "kind"],
        "properties": head,
        "allOf": [{"$ref": f"#/$defs/{kind.__name__}"}],
        "$defs": definitions,
    }


def question_schema() -> dict[str, Any]:
    """Return the schema of the questions to the engine."""
    found: dict[str, Any] = msgspec.json.schema(Question)
    for definition in found["$defs"].values():
        definition["description"] = inspect.cleandoc(definition["description"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Question", **found}


def _used(name: str, definitions: dict[str, Any]) -> set[str]:
    """Return the definitions that ``name`` refers to, directly or through others, with itself."""
    used: set[str] = set()
    pending = [name]
    while pending:
        one = pending.pop()
        if one in used:
            continue
        used.add(one)
        pending.extend(re.findall(r'"#/\$defs/(\w+)"', json.dumps(definitions[one])))
    return used
