"""Binding gives a pod its node, once (docs/spec/apimachinery.md §12)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cathedra.apiserver.config import ServerConfig
from cathedra.releases import FeatureGates
from tests.unit.apiserver.asgi import Answer, ASGIClient, open_asgi

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def asgi() -> AsyncIterator[ASGIClient]:
    async with open_asgi() as opened:
        yield opened


async def create(asgi: ASGIClient, **spec: Any) -> Any:
    pod = {
        "metadata": {"name": "p", "labels": {"a": "1"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }
    made = await asgi("POST", PODS, pod)
    assert made.status == 201, made.body
    return made.json


async def bind(asgi: ASGIClient, node: str = "n1", *, path: str = f"{PODS}/p/binding", **metadata: Any) -> Answer:
    return await asgi("POST", path, {"metadata": metadata, "target": {"kind": "Node", "name": node}})


async def test_a_bound_pod_has_its_node_and_is_scheduled(asgi: ASGIClient) -> None:
    await create(asgi)
    answer = await bind(asgi, labels={"b": "2"}, annotations={"c": "3"})
    assert (answer.status, answer.json["status"]) == (201, "Success")
    pod = (await asgi("GET", f"{PODS}/p")).json
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["metadata"]["labels"] == {"a": "1", "b": "2"}
    assert pod["metadata"]["annotations"] == {"c": "3"}
    (condition,) = pod["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


async def test_a_binding_posted_to_the_collection_binds_the_pod_that_it_names(asgi: ASGIClient) -> None:
    await create(asgi)
    assert (await bind(asgi, path="/api/v1/namespaces/default/bindings", name="p")).status == 201
    assert (await asgi("GET", f"{PODS}/p")).json["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize(("release", "left"), [("1.34", "n1"), ("1.35", None), ("1.37", None)])
async def test_a_nomination_ends_with_the_binding_from_1_35_on(release: str, left: str | None) -> None:
    async with open_asgi(ServerConfig(release=release, gates=FeatureGates.for_release(release))) as asgi:
        await create(asgi)
        nominated = {"status": {"nominatedNodeName": "n1"}}
        await asgi("PATCH", f"{PODS}/p/status", nominated, content_type="application/merge-patch+json")
        await bind(asgi)
        assert (await asgi("GET", f"{PODS}/p")).json["status"].get("nominatedNodeName") == left


async def test_a_pod_is_bound_once(asgi: ASGIClient) -> None:
    await create(asgi)
    await bind(asgi)
    again = await bind(asgi, "n2")
    assert again.status == 409
    assert 'pod p is already assigned to node "n1"' in again.json["message"]


async def test_a_gated_pod_cannot_be_bound(asgi: ASGIClient) -> None:
    await create(asgi, schedulingGates=[{"name": "example.com/wait"}])
    refused = await bind(asgi)
    assert (refused.status, refused.json["reason"]) == (409, "Conflict")
    assert "non-empty .spec.schedulingGates" in refused.json["message"]


async def test_a_pod_that_is_being_deleted_cannot_be_bound(asgi: ASGIClient) -> None:
    pod = await create(asgi)
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    await asgi("PATCH", f"{PODS}/p", held, content_type="application/merge-patch+json")
    await asgi("DELETE", f"{PODS}/p")
    refused = await bind(asgi, uid=pod["metadata"]["uid"])
    assert refused.status == 409
    assert "is being deleted, cannot be assigned to a host" in refused.json["message"]


async def test_a_binding_is_for_one_pod_of_that_name(asgi: ASGIClient) -> None:
    await create(asgi)
    assert (await bind(asgi, uid="another")).status == 409
    other = await bind(asgi, name="q")
    assert (other.status, other.json["message"]) == (400, "name in URL does not match name in Binding object")
    assert (await asgi("GET", f"{PODS}/p")).json["spec"].get("nodeName") is None


async def test_a_dry_run_binds_nothing(asgi: ASGIClient) -> None:
    await create(asgi)
    assert (await bind(asgi, path=f"{PODS}/p/binding?dryRun=All")).status == 201
    assert (await asgi("GET", f"{PODS}/p")).json["spec"].get("nodeName") is None


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({}, "target.name: Required value"),
        ({"kind": "Rack", "name": "r"}, 'target.kind: Unsupported value: "Rack": supported values: "Node", "<empty>"'),
    ],
)
async def test_the_target_is_a_node(asgi: ASGIClient, target: Any, message: str) -> None:
    await create(asgi)
    refused = await asgi("POST", f"{PODS}/p/binding", {"target": target})
    assert (refused.status, refused.json["message"]) == (500, message)
