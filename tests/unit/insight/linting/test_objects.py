"""Findings of lint about an object equal the errors of the API server."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest
import yaml

from cathedra.allocation import InvalidInput
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.status import StatusError
from cathedra.api.struct import from_dict
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.transport import ResourceRef
from cathedra.clock import LoopClock, run_virtual
from cathedra.insight import lint
from cathedra.insight.reading.dumps import definition_of, read_object
from cathedra.releases import FeatureGates
from tests.unit.insight.linting.manifests import claim, counters, device_class, selecting, slices
from tests.unit.insight.linting.test_report import CASES

REFUSING = {"invalid-object", "all-with-count"}
EXPRESSIONS = {"cel-error", "quantity-as-literal"}
"""Rules whose compiler errors are reported one by one."""
BROKEN: list[dict[str, Any]] = [
    claim(selecting(), name="UPPER"),
    claim(selecting(), labels={"a b": "c"}),
    claim(selecting(), finalizers=["x"]),
    claim({"name": "a"}, {"name": "a", "exactly": {"deviceClassName": "-"}}),
    claim(selecting(count=-1), selecting(name="b", allocationMode="Some")),
    claim(selecting(tolerations=[{"operator": "Equal", "effect": "x"}])),
    claim({"name": "a", "firstAvailable": [{"name": "b"}], "exactly": {"deviceClassName": "c"}}),
    claim(*(selecting(name=f"r{n}") for n in range(40))),
    claim(selecting(*["true"] * 40)),
    claim(selecting("x" * 20000), selecting("[1].all(a, " * 9 + "true" + ")" * 9, name="b")),
    device_class(extendedResourceName="no"),
    device_class("device.driver"),
    *slices([{"name": "A"}, {"name": "A", "capacity": {"a/b/c": {"value": "1"}}}]),
    *slices([{"name": "a", "attributes": {"x": {"string": "y" * 100, "int": 1}, "y": {"version": "1"}}}]),
    *slices([{"name": f"d{n}"} for n in range(200)]),
    *slices([], sharedCounters=[{"name": "x", "counters": {}}]),
    counters(name="Not A Name")[1],
]


def objects_of_cases() -> list[dict[str, Any]]:
    """Every object of the rules' examples that decodes without a fault."""
    found = {}
    for bad, good in CASES.values():
        for text in (*bad, *good):
            try:
                documents = list(yaml.safe_load_all(text))
            except yaml.YAMLError:
                continue
            found |= {json.dumps(one, sort_keys=True): one for one in documents if _decodes(one)}
    return list(found.values())


def _decodes(one: Any) -> bool:
    try:
        decoded = read_object(one) if isinstance(one, dict) else None
    except InvalidInput:
        return False
    return decoded is not None and not decoded.problems


def refusals(objects: list[dict[str, Any]]) -> list[list[str]]:
    """The causes with which a server refuses to create each object; none if it accepts it."""

    async def ask() -> list[list[str]]:
        clock = LoopClock(asyncio.get_running_loop())
        config = ServerConfig(gates=FeatureGates.for_release())
        server = await APIServer.open(config, clock=clock, random=random.Random(1))
        client = Client(server.transport(), clock=clock)
        try:
            return [await _refusal(client, one) for one in objects]
        finally:
            await server.close()

    return run_virtual(ask())


async def _refusal(client: Client, one: dict[str, Any]) -> list[str]:
    gvk = GroupVersionKind.parse(one["apiVersion"], one["kind"])
    definition = definition_of(gvk.group, gvk.kind)
    assert definition is not None
    kind = definition.version(gvk.version).type
    ref = ResourceRef(gvk.group, gvk.version, definition.plural, gvk.kind, definition.namespaced, kind)
    resource = client.resource(ref, "default" if definition.namespaced else "")
    try:
        await resource.create(from_dict(kind, one), dry_run=True)
    except StatusError as error:
        details = error.status.details
        return [f"{cause.field}: {cause.message}" for cause in details.causes] if details else [error.status.message]
    return []


OBJECTS = [one for one in (*BROKEN, *objects_of_cases()) if one["apiVersion"] in ("v1", "resource.k8s.io/v1")]


@pytest.fixture(scope="module")
def judged() -> list[list[str]]:
    return refusals(OBJECTS)


def test_lint_and_server_refuse_the_same_for_the_same_reasons(judged: list[list[str]]) -> None:
    for one, causes in zip(OBJECTS, judged, strict=True):
        findings = lint(json.dumps(one)).findings
        said = [finding.message for finding in findings if finding.rule in REFUSING]
        compiling = [cause for cause in causes if ".expression: Invalid" in cause]
        assert sorted(said) == sorted(cause for cause in causes if cause not in compiling), one
        at_expressions = [finding for finding in findings if finding.path.endswith(".expression")]
        assert all(any(finding.message in cause for finding in at_expressions) for cause in compiling), one
        if any(finding.rule in EXPRESSIONS for finding in findings):
            assert compiling, one


def test_the_server_refuses_what_is_broken(judged: list[list[str]]) -> None:
    assert all(judged[: len(BROKEN)])
