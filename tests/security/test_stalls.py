"""Requests of one user do not stall those of others: custom resources, expressions, large documents."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.security.stalls import RunningServer, running_server

pytestmark = pytest.mark.timeout(600)

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
STALL = 1.0
"""Seconds that another client waits at most, on a busy machine; each of these inputs once took from 2 s to minutes."""
GROWTH = 150 * 1024 * 1024
QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("server")) as made:
        yield made


def listed(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A schema of objects with a list."""
    return {"type": "object", "properties": {"l": {"type": "array", "items": items, **more}}}


def definition(plural: str, spec: dict[str, Any], **version: Any) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.d.x"},
        "spec": {
            "group": "d.x",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema, **version}],
        },
    }


def define(server: RunningServer, plural: str, spec: dict[str, Any], **version: Any) -> str:
    """Define a kind, and return the path of its objects."""
    assert server("POST", CRDS, definition(plural, spec, **version))[0] == 201
    path = f"/apis/d.x/v1/namespaces/default/{plural}"
    server.until(path)
    return path


def instance(plural: str, name: str = "t", **spec: Any) -> bytes:
    body = {"apiVersion": "d.x/v1", "kind": plural.capitalize(), "metadata": {"name": name}, "spec": spec}
    return json.dumps(body, separators=(",", ":")).encode()


STRING = {"type": "string"}
OBJECTS: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "quantities": (
        listed(
            {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, STRING],
                "pattern": QUANTITY,
            }
        ),
        {"l": [f"{number}" for number in range(300_000)]},
        201,
    ),
    "alternatives": (
        listed(STRING | {"anyOf": [{"pattern": f"^x{number}$"} for number in range(400)]}),
        {"l": ["y"] * 100_000},
        422,
    ),
    "names": (listed(STRING | {"enum": [f"v{n:05}" for n in range(50_000)]}), {"l": ["y"] * 100_000}, 422),
    "defaults": (
        listed({"type": "object", "properties": {"p": STRING | {"default": "x" * 20_000}}}),
        {"l": [{}] * 10_000},
        500,
    ),
    "unknowns": (
        {"type": "object", "additionalProperties": {"type": "object", "properties": {}}},
        {"k" * 1_000_000: {f"a{number}": 1 for number in range(100_000)}},
        201,
    ),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_a_hard_custom_object_does_not_stall_other_requests(server: RunningServer, name: str) -> None:
    schema, spec, status = OBJECTS[name]
    path, body = define(server, name, schema), instance(name, **spec)
    before = server.memory
    answers: list[tuple[int, bytes]] = []
    stall = server.longest_stall(lambda: answers.append(server("POST", f"{path}?dryRun=All", body)))
    assert [answer[0] for answer in answers] == [status]
    assert len(answers[0][1]) < 2 * len(body) + 1_000_000
    assert stall < STALL
    assert server.memory - before < GROWTH


def test_a_large_keyed_list_that_is_applied_does_not_stall_other_requests(server: RunningServer) -> None:
    items = {"type": "object", "required": ["a"], "properties": {"a": STRING, "b": {"type": "integer"}}}
    more = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}
    path = define(server, "keyeds", listed(items, **more))
    body = instance("keyeds", l=[{"a": f"{number}", "b": number} for number in range(12_000)])
    apply = partial(server, "PATCH", f"{path}/t?fieldManager=m", body, content_type="application/apply-patch+yaml")
    assert server.longest_stall(apply) < STALL
    assert server("GET", f"{path}/t")[0] == 200
    assert server.longest_stall(apply) < STALL


def test_policies_that_take_long_do_not_stall_other_requests(server: RunningServer) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "object.data.all(k, object.data.all(j, k != '' && j != 'y'))"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": ["Deny"]},
    }
    assert server("POST", f"{ADMISSION}/validatingadmissionpolicies", policy)[0] == 201
    assert server("POST", f"{ADMISSION}/validatingadmissionpolicybindings", binding)[0] == 201
    maps = "/api/v1/namespaces/default/configmaps?dryRun=All"
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x"},
        "data": {f"k{number}": "v" for number in range(3000)},
    }
    deadline = time.monotonic() + 60
    while server("POST", maps, {**body, "data": {"y": "v"}})[0] == 201:
        assert time.monotonic() < deadline
    answers: list[tuple[int, bytes]] = []
    attack = lambda: answers.append(server("POST", maps, body))  # noqa: E731  # ten times the same
    stall = server.longest_stall(*[attack] * 10)
    assert {answer[0] for answer in answers} == {422}
    assert stall < STALL
    server("DELETE", f"{ADMISSION}/validatingadmissionpolicybindings/b")


def test_a_policy_of_many_expressions_does_not_stall_other_requests(server: RunningServer) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "long"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [
                {"expression": f"object.metadata.name != 'x{n}' || [1].all(x, x > {n})"} for n in range(3000)
            ],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "long"},
        "spec": {"policyName": "long", "validationActions": ["Deny"]},
    }
    answers: list[tuple[int, bytes]] = []
    create = lambda: answers.append(server("POST", f"{ADMISSION}/validatingadmissionpolicies", policy))  # noqa: E731
    assert server.longest_stall(create) < STALL
    answers.append(server("POST", f"{ADMISSION}/validatingadmissionpolicybindings", binding))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    write = lambda: answers.append(server("POST", "/api/v1/namespaces/default/secrets", secret))  # noqa: E731
    assert server.longest_stall(write) < STALL
    assert [answer[0] for answer in answers] == [201, 201, 201]
    server("DELETE", f"{ADMISSION}/validatingadmissionpolicybindings/long")


def test_documents_about_many_definitions_do_not_stall_other_requests(server: RunningServer) -> None:
    for number in range(150):
        fields = {f"a{field}": STRING for field in range(20)}
        assert server("POST", CRDS, definition(f"many{number}", {"type": "object", "properties": fields}))[0] == 201
    server.until("/apis/d.x/v1/namespaces/default/many149")
    assert server.longest_stall(partial(server, "GET", "/openapi/v2")) < STALL
    assert server.longest_stall(partial(server, "GET", "/openapi/v3/apis/d.x/v1")) < STALL


def test_tables_of_many_columns_do_not_stall_other_requests(server: RunningServer) -> None:
    columns = [{"name": f"c{n}", "type": "string", "jsonPath": f".spec.a{n}"} for n in range(2000)]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    path = define(server, "wides", schema, additionalPrinterColumns=columns)
    for number in range(1000):
        assert server("POST", path, instance("wides", f"t{number}", a1="x"))[0] == 201
    table = partial(server, "GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert server.longest_stall(table) < STALL
    status, body = table()
    assert (status, json.loads(body)["rows"][7]["cells"][:3]) == (200, ["t104", None, "x"])


def test_lists_in_yaml_do_not_stall_other_requests(server: RunningServer) -> None:
    path = define(server, "plains", {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    large = {f"k{number}": "v" for number in range(60_000)}
    assert server("POST", path, instance("plains", **large))[0] == 201
    assert server.longest_stall(partial(server, "GET", path, accept="application/yaml")) < STALL
    assert server.longest_stall(partial(server, "GET", f"{path}/t", accept="application/yaml")) < STALL
