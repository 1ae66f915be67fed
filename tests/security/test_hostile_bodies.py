"""Hostile bodies at each decoder of the server: answered in Kubernetes' words, quickly, and without much memory."""

from __future__ import annotations

import base64
import json
import resource
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.costs import costs_less_than
from tests.unit.apiserver.asgi import Answer, ASGIClient, open_asgi

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
PATCHES = {name: f"application/{name}-patch+json" for name in ("json", "merge", "strategic-merge")}
APPLY = "application/apply-patch+yaml"
SECONDS, BYTES = 2.0, 512 * 1024 * 1024
DEPTHS = (250, 9_000, 60_000, 1_500_000)


@pytest.fixture
async def asgi() -> AsyncIterator[ASGIClient]:
    async with open_asgi() as asgi:
        await asgi("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
        yield asgi


async def sent(asgi: ASGIClient, method: str, path: str, body: bytes, content_type: str = JSON) -> Answer:
    """The answer to a hostile body, which must be a refusal or a success within the budget, and never a failure."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with costs_less_than(SECONDS):
        answer = await asgi(method, path, body, content_type=content_type)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < BYTES
    return answer


def nested(depth: int, inner: bytes = b"1", *, arrays: bool) -> bytes:
    opening, closing = (b"[", b"]") if arrays else (b'{"a":', b"}")
    depth = min(depth, 3 * 1024 * 1024 // (len(opening) + 1) - 1000)
    return opening * depth + inner + closing * depth


async def definition(asgi: ASGIClient) -> None:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    assert (await asgi("POST", DEFINITIONS, body)).status == 201
    await asgi.settle()


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("arrays", [True, False])
async def test_deep_bodies_are_refused_at_every_decoder(asgi: ASGIClient, depth: int, arrays: bool) -> None:
    await definition(asgi)
    deep = nested(depth, arrays=arrays)
    map_ = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":%s}' % deep
    thing = b'{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"t"},"spec":{"x":%s}}' % deep
    schema = b'{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{"x":%s}}' % deep
    managed = b'{"metadata":{"name":"m","managedFields":[{"fieldsV1":%s}]}}' % deep
    await asgi("POST", MAPS, {"metadata": {"name": "m"}})
    await asgi("POST", THINGS, {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}})
    sends = [
        ("POST", MAPS, deep, JSON),
        ("POST", MAPS, map_, JSON),
        ("POST", MAPS, managed, JSON),
        ("POST", MAPS, map_, YAML),
        ("PUT", f"{MAPS}/m", map_, JSON),
        ("POST", THINGS, thing, JSON),
        ("POST", THINGS, thing, YAML),
        ("POST", DEFINITIONS, schema, JSON),
        ("POST", REVIEWS, b'{"spec":%s}' % deep, JSON),
        ("DELETE", f"{MAPS}/m", b'{"preconditions":%s}' % deep, JSON),
        ("PATCH", f"{MAPS}/m", b'[{"op":"add","path":"/data","value":%s}]' % deep, PATCHES["json"]),
        ("PATCH", f"{MAPS}/m", map_, PATCHES["merge"]),
        ("PATCH", f"{MAPS}/m", map_, PATCHES["strategic-merge"]),
        ("PATCH", f"{THINGS}/t", thing, PATCHES["merge"]),
        ("PATCH", f"{MAPS}/m?fieldManager=a", map_, APPLY),
        ("PATCH", f"{THINGS}/t?fieldManager=a", thing, APPLY),
    ]
    for method, path, body, content_type in sends:
        answer = await sent(asgi, method, path, body[: 3 * 1024 * 1024], content_type)
        assert answer.status == 400, (method, path, content_type, answer.body[:300])
        assert "exceeded max depth" in answer.json["message"], (method, path, content_type)


async def test_what_is_as_deep_as_allowed_passes_through_everything(asgi: ASGIClient) -> None:
    """The walkers of values have room for every depth that the decoders let through."""
    await definition(asgi)
    deep = json.loads(nested(190, arrays=False))
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"x": deep}}
    assert (await asgi("POST", THINGS, thing)).status == 201
    for kind in (PATCHES["merge"], APPLY):
        query = "?fieldManager=a&force=true" if kind == APPLY else ""
        answer = await asgi("PATCH", f"{THINGS}/t{query}", thing, content_type=kind)
        assert answer.status == 200, answer.body[:300]
    add = [{"op": "add", "path": "/spec/y", "value": deep}, {"op": "test", "path": "/spec/y", "value": deep}]
    assert (await asgi("PATCH", f"{THINGS}/t", add, content_type=PATCHES["json"])).status == 200
    assert (await asgi("PATCH", f"{THINGS}/t", json.dumps(add).encode(), content_type=PATCHES["merge"])).status == 400
    for accept in (JSON, YAML, "application/json;as=Table;v=v1;g=meta.k8s.io"):
        assert (await asgi("GET", THINGS, accept=accept)).status == 200
    assert (await asgi("PUT", f"{THINGS}/t", (await asgi("GET", f"{THINGS}/t")).json)).status == 200
    assert (await asgi("DELETE", f"{THINGS}/t")).status == 200


def laughs() -> bytes:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 12)]
    return "\n".join(rows).encode()


YAMLS = {
    "alias bomb": laughs(),
    "merge bomb": b"a: &a {b: c}\n" + b"m:\n  <<: [" + b"*a," * 700_000 + b"*a]",
    "alias of itself": b"a: &a [*a]",
    "null key": b"metadata: {null: 1}",
    "boolean key": b"metadata: {true: 1}",
    "list as key": b"? [a]\n: b",
    "oversized integer": b"metadata: {generation: %s}" % (b"9" * 100_000),
    "many nodes": b"[" + b"1," * 1_400_000 + b"1]",
    "infinity": b"metadata: {generation: .inf}",
    "not UTF-8": b"a: \xff\xfe",
    "half a character": b'a: "\\ud800"',
    "binary": b"a: !!binary /w==",
    "python": b"a: !!python/object/apply:os.system [id]",
    "scalar": b"x",
    "nothing": b"---",
}


@pytest.mark.parametrize("name", YAMLS)
async def test_hostile_yaml(asgi: ASGIClient, name: str) -> None:
    head = b"apiVersion: v1\nkind: ConfigMap\n"
    for method, path, content_type in (
        ("POST", MAPS, YAML),
        ("PATCH", f"{MAPS}/m?fieldManager=a", APPLY),
        ("DELETE", f"{MAPS}/m", YAML),
    ):
        for body in (YAMLS[name], head + YAMLS[name]):
            answer = await sent(asgi, method, path, body, content_type)
            assert answer.status in (400, 404, 422), (method, answer.status, answer.body[:300])
            assert answer.json["kind"] == "Status"


PATCH_BODIES: dict[str, tuple[str, Any]] = {
    "copies double": ("json", [{"op": "copy", "from": "/data", "path": f"/data/{number}"} for number in range(10_000)]),
    "too many operations": ("json", [{"op": "test", "path": "/data"}] * 10_001),
    "operation is no object": ("json", [1]),
    "operation is null": ("json", [None]),
    "operation of no kind": ("json", [{"op": []}]),
    "path is no text": ("json", [{"op": "add", "path": 1}]),
    "whole document becomes a list": ("json", [{"op": "replace", "path": "", "value": []}]),
    "whole document becomes a number": ("json", [{"op": "replace", "path": "", "value": 1}]),
    "finalizers are lists": ("strategic-merge", {"metadata": {"finalizers": [[1]]}}),
    "finalizers are null": ("strategic-merge", {"metadata": {"finalizers": [None]}}),
    "list for a map": ("strategic-merge", {"data": [1]}),
    "retained keys are a number": ("strategic-merge", {"$retainKeys": 1}),
    "deleted primitives are a number": ("strategic-merge", {"metadata": {"$deleteFromPrimitiveList/finalizers": 1}}),
    "metadata is a list": ("merge", {"metadata": []}),
    "metadata is a number": ("merge", {"metadata": 1}),
    "a number": ("merge", 1),
    "a list": ("merge", [1]),
    "a text": ("strategic-merge", "x"),
}


@pytest.mark.parametrize("name", PATCH_BODIES)
async def test_hostile_patches(asgi: ASGIClient, name: str) -> None:
    await asgi("POST", MAPS, {"metadata": {"name": "m", "finalizers": ["a/b"]}, "data": {"a": "b"}})
    deployment = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}  # fmt: skip
    workloads = "/apis/apps/v1/namespaces/default/deployments"
    assert (await asgi("POST", workloads, deployment)).status == 201
    kind, body = PATCH_BODIES[name]
    answer = await sent(asgi, "PATCH", f"{MAPS}/m", json.dumps(body).encode(), PATCHES[kind])
    assert answer.status in (400, 413, 415, 422), (answer.status, answer.body[:300])
    assert answer.json["kind"] == "Status"
    answer = await sent(asgi, "PATCH", f"{workloads}/d/scale", json.dumps(body).encode(), PATCHES[kind])
    assert answer.status < 500, (answer.status, answer.body[:300])  # a scale has no such fields


async def test_a_bad_directive_is_named_as_kubernetes_does(asgi: ASGIClient) -> None:
    await asgi("POST", MAPS, {"metadata": {"name": "m"}})
    answer = await sent(asgi, "PATCH", f"{MAPS}/m", b'{"$patch":[]}', PATCHES["strategic-merge"])
    assert (answer.status, answer.json["message"]) == (500, "unknown patch type: [] in map: map[$patch:[]]")


async def test_null_patches_change_nothing_or_are_refused(asgi: ASGIClient) -> None:
    await asgi("POST", MAPS, {"metadata": {"name": "m"}})
    for kind, status in (("json", 200), ("strategic-merge", 200), ("merge", 400)):
        assert (await sent(asgi, "PATCH", f"{MAPS}/m", b"null", PATCHES[kind])).status == status
    applied = await sent(asgi, "PATCH", f"{MAPS}/m?fieldManager=a", b"null", APPLY)
    assert (applied.status, applied.json["message"]) == (400, "invalid object type: /, Kind=")


JSONS = {
    "nothing": b"",
    "null": b"null",
    "a number": b"1e999",
    "a huge integer": b"9" * 100_000,
    "not UTF-8": b'{"metadata":{"name":"\xff"}}',
    "half a character": b'{"metadata":{"name":"\\ud800"}}',
    "a zero byte": b'{"metadata":{"name":"a\\u0000b"}}',
    "metadata is null": b'{"metadata":null}',
    "kind is a list": b'{"kind":[],"metadata":{}}',
    "apiVersion is a map": b'{"apiVersion":{},"metadata":{}}',
    "huge generation": b'{"metadata":{"name":"x","generation":%s}}' % (b"9" * 5000),
    "millions of elements": b'{"metadata":[' + b"{}," * 900_000 + b"{}",
    "managed fields of nonsense": b'{"metadata":{"name":"m","managedFields":[{"manager":"a","operation":"Apply",'
    b'"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"k:[[[[":{"f:x":1,"v:{":[],"k:{\\"a\\"":{}}}}]}}',
}


@pytest.mark.parametrize("name", JSONS)
async def test_hostile_json(asgi: ASGIClient, name: str) -> None:
    for method, path in (
        ("POST", MAPS),
        ("POST", PODS),
        ("POST", REVIEWS),
        ("DELETE", f"{MAPS}/m"),
        ("PUT", f"{MAPS}/m"),
    ):
        answer = await sent(asgi, method, path, JSONS[name])
        assert answer.status < 500, (method, path, answer.status, answer.body[:300])


async def test_managed_fields_with_odd_elements_are_shown_in_conflicts(asgi: ASGIClient) -> None:
    """Path elements come from clients; what cannot be read as keys is shown as it is."""
    fields = {"f:spec": {"f:containers": {'k:{"name":': {".": {}}, "k:[[": {".": {}}}}}
    entry = {"manager": "a", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
    pod = {"metadata": {"name": "p", "managedFields": [entry]}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert (await asgi("POST", PODS, pod)).status < 500
    applied = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    answer = await asgi("PATCH", f"{PODS}/p?fieldManager=b", applied, content_type=APPLY)
    assert answer.status < 500, answer.body[:300]


async def test_hostile_continue_tokens(asgi: ASGIClient) -> None:
    for raw in (b"[" * 60_000, b'{"v":' + b"9" * 5000 + b"}", b"\xff", b'{"v":1}', b"{}"):
        token = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
        answer = await asgi("GET", f"{MAPS}?continue={token}")
        assert answer.status == 400, answer.body[:300]


SCHEMAS: dict[str, Any] = {
    "properties are a text": {"type": "object", "properties": "x"},
    "a property is a truth": {"type": "object", "properties": {"a": True}},
    "a property is a number": {"type": "object", "properties": {"a": 2**63}},
    "list type is a list": {"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": []}}},
    "a rule is a map": {"type": "object", "x-kubernetes-validations": [{"rule": {}}]},
    "required is a text": {"type": "object", "required": "a"},
    "additional properties are a number": {"type": "object", "additionalProperties": 1},
    "a pattern is a list": {"type": "object", "properties": {"a": {"type": "string", "pattern": []}}},
}


@pytest.mark.parametrize("name", SCHEMAS)
async def test_schemas_of_wrong_types_do_not_decode(asgi: ASGIClient, name: str) -> None:
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMAS[name]}}]
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": versions,
        },
    }
    answer = await sent(asgi, "POST", DEFINITIONS, json.dumps(body).encode())
    assert answer.status == 400, answer.body[:300]
    assert "cannot be handled as a CustomResourceDefinition: " in answer.json["message"]
    await definition(asgi)
    path = f"{DEFINITIONS}/things.example.com"
    add = [{"op": "add", "path": "/spec/versions", "value": versions}]
    for kind, patch in (("merge", {"spec": {"versions": versions}}), ("json", add)):
        answer = await sent(asgi, "PATCH", path, json.dumps(patch).encode(), PATCHES[kind])
        assert answer.status == 422, answer.body[:300]
    answer = await sent(asgi, "PATCH", f"{path}?fieldManager=a&force=true", json.dumps(body).encode(), APPLY)
    assert answer.json["message"].startswith("failed to c"), answer.body[:300]
