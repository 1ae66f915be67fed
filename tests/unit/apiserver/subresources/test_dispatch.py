"""A POST on a sub-resource does what the sub-resource is for, and nothing where there is none."""

from __future__ import annotations

import pytest

from cathedra.api.scheme import GroupResource
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.subresources.dispatch import is_compared
from tests.unit.apiserver.asgi import ASGIClient, open_asgi

NAMESPACE = "/api/v1/namespaces/default"
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def prepare(asgi: ASGIClient) -> None:
    await asgi("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    await asgi("POST", f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
    assert (await asgi("POST", f"{NAMESPACE}/pods", POD)).status == 201


async def test_a_binding_an_eviction_and_a_token_each_find_their_way() -> None:
    async with open_asgi(ServerConfig()) as asgi:
        await prepare(asgi)
        bound = await asgi("POST", f"{NAMESPACE}/pods/p/binding", {"target": {"kind": "Node", "name": "n"}})
        assert (bound.status, bound.json["status"]) == (201, "Success")
        assert (await asgi("GET", f"{NAMESPACE}/pods/p")).json["spec"]["nodeName"] == "n"
        token = await asgi("POST", f"{NAMESPACE}/serviceaccounts/default/token", {"spec": {"audiences": ["a"]}})
        assert token.status == 201
        assert token.json["status"]["token"].count(".") == 2
        evicted = await asgi("POST", f"{NAMESPACE}/pods/p/eviction", {"metadata": {"name": "p"}})
        assert evicted.status == 201
        assert "deletionTimestamp" in (await asgi("GET", f"{NAMESPACE}/pods/p")).json["metadata"]


@pytest.mark.parametrize("path", ["pods/p/nothing", "pods/p/token", "serviceaccounts/default/eviction"])
async def test_a_subresource_of_another_kind_is_none(path: str) -> None:
    async with open_asgi(ServerConfig()) as asgi:
        await prepare(asgi)
        assert (await asgi("POST", f"{NAMESPACE}/{path}", {})).status == 404
        assert "deletionTimestamp" not in (await asgi("GET", f"{NAMESPACE}/pods/p")).json["metadata"]


PODS = GroupResource("", "pods")


@pytest.mark.parametrize("verb", ["create", "update", "patch", "delete"])
def test_writes_of_one_object_are(verb: str) -> None:
    assert is_compared(verb, PODS)
    assert is_compared(verb, PODS, "status")
    assert is_compared(verb, PODS, "binding")


def test_writes_by_what_else_is_there_are_not() -> None:
    assert not is_compared("deletecollection", PODS)
    assert not is_compared("create", PODS, "eviction")
    assert not is_compared("create", GroupResource("", "serviceaccounts"), "token")
    assert not is_compared("create", GroupResource("authorization.k8s.io", "subjectaccessreviews"))
