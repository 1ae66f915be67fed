"""The OpenAPI document is valid, describes every path, and fits the answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cathedra.mcp import TOOLS
from cathedra.mcp.openapi import document
from tests.running import run_with
from tests.unit.mcp.asked import ADMIN, Asking, asking

DOCUMENT = json.loads(document())


def test_a_validator_accepts_the_document() -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is missing: pip install schemathesis")
    schemathesis.openapi.from_dict(DOCUMENT).validate()


def test_every_tool_has_its_methods_and_every_argument_is_described() -> None:
    for tool in TOOLS:
        operations = DOCUMENT["paths"][f"/{tool.name}"]
        assert sorted(operations) == sorted(method.lower() for method in tool.methods)
        if "get" in operations:
            names = {one["name"] for one in operations["get"]["parameters"]}
            assert names >= {*tool.arguments, "detail"}
            assert all(one["description"] for one in operations["get"]["parameters"])
        for operation in operations.values():
            assert {"200", "401", "403", "429", "503"} <= set(operation["responses"])


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/explain", {}),
        ("/explain", {"pod": "team-a/next-a"}),
        ("/devices", {}),
        ("/usage", {}),
        ("/match", {"expression": "true"}),
    ],
)
@pytest.mark.parametrize("detail", ["summary", "full"])
@run_with(asking)
async def test_answers_are_as_the_document_describes_them(
    asked: Asking, *, path: str, query: dict[str, str], detail: str
) -> None:
    validators = pytest.importorskip("jsonschema_rs", reason="jsonschema-rs is missing: pip install jsonschema-rs")
    status, found = await asked.get(path, ADMIN, detail=detail, **query)
    assert status == 200
    answer: Any = DOCUMENT["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    validators.Draft202012Validator({**answer, "components": DOCUMENT["components"]}).validate(found)
