"""Expressions, schemas and values that are made to keep the server busy, or to overflow its stack."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import cathedra
from tests.costs import costs_less_than
from tests.unit.apiserver.asgi import Answer, ASGIClient, open_asgi

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/d.x/v1/namespaces/default/things"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
SECONDS = 6.0
"""Of processor time, which one request may take: what CEL's budget allows takes up to two, what is refused, minutes."""


def definition(spec: dict[str, Any]) -> dict[str, Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.d.x"},
        "spec": {
            "group": "d.x",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version],
        },
    }


def ruled(rule: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "x-kubernetes-validations": [{"rule": rule}]}


def thing(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "d.x/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec}


def selecting(expression: str) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "c"},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


@pytest.fixture
async def asgi() -> AsyncIterator[ASGIClient]:
    async with open_asgi() as made:
        yield made


async def timed(asgi: ASGIClient, method: str, path: str, body: Any) -> Answer:
    with costs_less_than(SECONDS):
        answer = await asgi(method, path, body)
    assert answer.status != 500, answer.body
    return answer


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 249 + "true" + ")" * 249,
        "device.driver == 'a' && (" * 249 + "true" + ")" * 249,
        "[" * 5000 + "]" * 5000,
        "{" * 10_000,
        "!" * 10_000 + "true",
        "1" + "+1" * 5000 + " == 1",
        "[1].all(a, " * 249 + "true" + ")" * 249,
        "optional.none()" + ".optMap(x, x)" * 200 + ".hasValue()",
    ],
    ids=lambda one: one[:16],
)
async def test_no_selector_touches_the_recursion_limit(asgi: ASGIClient, expression: str) -> None:
    before = sys.getrecursionlimit()
    answer = await timed(asgi, "POST", CLASSES, selecting(expression))
    assert answer.status in (201, 422)
    assert sys.getrecursionlimit() == before


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (ruled("self.l.all(x, self.l.exists(y, x == y))", l={"type": "array", "items": {"type": "string"}}), "rule"),
        (ruled("self.s.findAll(self.s).size() == 0", s={"type": "string"}), "rule"),
        ({"type": "object", "properties": {"s": {"type": "string", "pattern": "+"}}}, "pattern"),
        ({"type": "object", "properties": {"s": {"type": "string", "pattern": r"(a)\1"}}}, "pattern"),
        ({"type": "object", "properties": {"s": {"type": "string", "not": {"pattern": "("}}}}, "pattern"),
        ({"type": "object", "properties": {"n": {"type": "integer", "multipleOf": 0}}}, "multipleOf"),
        ({"type": "object", "properties": {"n": {"type": "number", "multipleOf": -1.5}}}, "multipleOf"),
    ],
)
async def test_definitions_that_would_harm_every_write_are_refused(
    asgi: ASGIClient, spec: dict[str, Any], field: str
) -> None:
    answer = await timed(asgi, "POST", CRDS, definition(spec))
    assert answer.status == 422, answer.body
    assert any(cause["field"].endswith(field) for cause in answer.json["details"]["causes"])
    assert (await asgi("GET", CRDS)).json["items"] == []


@pytest.mark.parametrize("levels", [101, 400, 3000])
async def test_schemas_thousands_of_levels_deep_are_refused(asgi: ASGIClient, levels: int) -> None:
    inner = '{"type":"object","properties":{"a":'
    schema = inner * levels + '{"type":"string"}' + "}}" * levels
    made = definition({"type": "object"})
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = "HERE"
    body = json.dumps(made).replace('"HERE"', schema).encode()
    answer = await timed(asgi, "POST", CRDS, body)
    assert answer.status in (400, 422)


async def test_schemas_a_hundred_levels_deep_are_served(asgi: ASGIClient) -> None:
    schema: dict[str, Any] = {"type": "string"}
    value: Any = "x"
    for _ in range(95):
        schema, value = {"type": "object", "properties": {"a": schema}}, {"a": value}
    assert (await asgi("POST", CRDS, definition(schema))).status == 201
    await asgi.settle()
    assert (await timed(asgi, "POST", THINGS, thing(**value))).status == 201


@pytest.mark.parametrize(
    ("rule", "properties", "spec"),
    [
        ("self.s.findAll('').size() >= 0", {"s": {"type": "string"}}, {"s": "a" * 1_000_000}),
        (
            "self.l.all(x, x != 0) && self.l.all(x, x != 1) && self.l.all(x, x != 2)",
            {"l": {"type": "array", "items": {"type": "integer"}, "maxItems": 600_000}},
            {"l": list(range(5, 300_000))},
        ),
        (
            "self.s.lastIndexOf(self.t) < 0",
            {"s": {"type": "string"}, "t": {"type": "string"}},
            {"s": "a" * 1_000_000, "t": "a" * 400_000 + "b" + "a" * 400_000},
        ),
    ],
    ids=["findAll", "all", "lastIndexOf"],
)
async def test_no_write_takes_longer_than_its_share(
    asgi: ASGIClient, rule: str, properties: dict[str, Any], spec: dict[str, Any]
) -> None:
    assert (await asgi("POST", CRDS, definition(ruled(rule, **properties)))).status == 201
    await asgi.settle()
    # A dry run, since the store takes 1.5 MiB.
    answer = await timed(asgi, "POST", f"{THINGS}?dryRun=All", thing(**spec))
    assert answer.status in (201, 422)


async def test_lists_of_many_items_are_compared_in_linear_time(asgi: ASGIClient) -> None:
    items = {"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "set"}
    assert (await asgi("POST", CRDS, definition({"type": "object", "properties": {"l": items}}))).status == 201
    await asgi.settle()
    answer = await timed(asgi, "POST", f"{THINGS}?dryRun=All", thing(l=list(range(100_000))))
    assert answer.status == 201


def test_nothing_sets_the_recursion_limit_of_the_process() -> None:
    source = Path(cathedra.__file__).parent
    assert [str(path) for path in source.rglob("*.py") if "setrecursionlimit" in path.read_text(encoding="utf-8")] == []
