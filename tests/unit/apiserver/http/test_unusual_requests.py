"""Requests that are odd and have their answers all the same: those that a kube-apiserver gives."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.apiserver.asgi import open_asgi

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
BINDINGS = "/api/v1/namespaces/default/bindings"
CLAIM = {"metadata": {"name": "c", "labels": {"a": "b"}}, "spec": {"devices": {}}}
MERGE, STRATEGIC, JSON = (f"application/{name}+json" for name in ("merge-patch", "strategic-merge-patch", "json-patch"))


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"null", 200), (b"{}", 200), (b"[]", 400), (b"3", 400), (b'"x"', 400), (b" ", 400), (b'{"kind":"Pod"}', 400)],
)
async def test_an_object_is_deleted_with_options_or_without(body: bytes, status: int) -> None:
    async with open_asgi() as client:
        await client("POST", CLAIMS, CLAIM)
        assert (await client("DELETE", f"{CLAIMS}/c", body)).status == status
        assert (await client("GET", f"{CLAIMS}/c")).status == (404 if status == 200 else 200)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("DELETE", "/apis/resource.k8s.io/v1/resourceclaims", 405),
        ("DELETE", "/api/v1/pods", 405),
        ("GET", BINDINGS, 405),
        ("GET", f"{BINDINGS}/x", 404),
        ("GET", "/api/v1/namespaces/default/pods/x/binding", 405),
        ("DELETE", "/api/v1/namespaces/default/pods/x/eviction", 405),
        ("GET", "/apis/authentication.k8s.io/v1/tokenreviews", 405),
        ("GET", "/apis/authentication.k8s.io/v1/tokenreviews/x", 404),
        ("GET", "/api/v2", 404),
        ("GET", "/api/v2/pods", 404),
        ("GET", "/apis/resource.k8s.io/v9/resourceclaims", 404),
    ],
)
async def test_what_is_not_there_is_told_apart_from_what_cannot_be_done(method: str, path: str, status: int) -> None:
    async with open_asgi() as client:
        answer = await client(method, path)
        assert (answer.status, answer.json["code"]) == (status, status)


async def test_a_binding_is_for_the_pod_as_it_was_seen() -> None:
    target = {"kind": "Node", "name": "n"}
    async with open_asgi() as client:
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        made = (await client("POST", "/api/v1/namespaces/default/pods", pod)).json["metadata"]
        old = {"metadata": {"name": "p", "resourceVersion": "1"}, "target": target}
        refused = await client("POST", BINDINGS, old)
        assert refused.status == 409
        assert "ResourceVersion in precondition: 1, ResourceVersion in object meta: " in refused.json["message"]
        seen = {"metadata": {"name": "p", "resourceVersion": made["resourceVersion"]}, "target": target}
        assert (await client("POST", BINDINGS, seen)).status == 201


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        (JSON, b"null", 200),
        (JSON, b"[null]", 422),
        (JSON, b"{}", 400),
        (MERGE, b"null", 400),
        (MERGE, b"[]", 400),
        (MERGE, b"", 400),
        (STRATEGIC, b"null", 200),
        (STRATEGIC, b"[]", 400),
    ],
)
async def test_a_patch_of_nothing_means_something_else_in_each_language(kind: str, body: bytes, status: int) -> None:
    async with open_asgi() as client:
        await client("POST", CLAIMS, CLAIM)
        headers: dict[str, Any] = {"content_type": kind} if body else {"content-type": kind}
        assert (await client("PATCH", f"{CLAIMS}/c", body, **headers)).status == status


async def test_a_list_is_asked_for_as_a_list() -> None:
    as_one = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    async with open_asgi() as client:
        refused = await client("GET", CLAIMS, accept=as_one)
        assert (refused.status, refused.json["message"]) == (
            406,
            "you requested PartialObjectMetadata, but the requested object is a list (*resource.ResourceClaimList)",
        )


async def test_each_key_that_is_said_twice_has_a_warning_of_its_own() -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: '1'\n  x: '2'\n  z: '1'\n  z: '2'\n"
    path = "/api/v1/namespaces/default/configmaps/a?fieldManager=m"
    async with open_asgi() as client:
        made = await client("PATCH", path, text, content_type="application/apply-patch+yaml")
        assert (made.status, made.warnings) == (
            201,
            ['299 - "line 6: key \\"x\\" already set in map"', '299 - "line 8: key \\"z\\" already set in map"'],
        )


async def test_resources_have_no_head() -> None:
    """Kubernetes routes GET alone; a HEAD of a collection or an object is another method."""
    async with open_asgi() as client:
        for path in ("/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default"):
            answer = await client("HEAD", path)
            assert (answer.status, answer.body) == (405, b"")
        assert (await client("HEAD", "/version")).status == 200
