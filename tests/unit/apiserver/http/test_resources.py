"""Methods on paths that know fewer of them than others (docs/spec/apimachinery.md §2.3)."""

from __future__ import annotations

import json

import pytest

from cathedra.client import resources
from cathedra.client.transport import APICall
from cathedra.remembering import statistics
from tests.requirements import with_memos
from tests.unit.apiserver.asgi import open_asgi

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
PODS = "/api/v1/namespaces/default/pods"


async def test_collections_are_deleted_namespace_by_namespace() -> None:
    async with open_asgi() as client:
        maps = "/api/v1/namespaces/default/configmaps"
        await client("POST", maps, {"metadata": {"name": "a"}})
        refused = await client("DELETE", "/api/v1/configmaps", {})
        assert (refused.status, refused.json["reason"]) == (405, "MethodNotAllowed")
        assert (await client("GET", f"{maps}/a")).status == 200
        assert (await client("DELETE", maps, {})).status == 200
        assert (await client("GET", f"{maps}/a")).status == 404


async def test_namespaces_are_deleted_one_by_one() -> None:
    async with open_asgi() as client:
        assert (await client("DELETE", "/api/v1/namespaces", {})).status == 405


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/namespaces/default/bindings/b", 404),
        ("GET", "/api/v1/bindings", 404),
        ("GET", f"{REVIEWS}/r", 404),
        ("GET", "/api/v1/namespaces/default/bindings", 405),
        ("GET", REVIEWS, 405),
    ],
)
async def test_what_is_only_created_has_no_path_but_its_collections(method: str, path: str, status: int) -> None:
    async with open_asgi() as client:
        assert (await client(method, path)).status == status


async def test_a_binding_holds_for_the_state_of_the_pod_that_it_names() -> None:
    async with open_asgi() as client:
        containers = [{"name": "c", "image": "i"}]
        pod = (await client("POST", PODS, {"metadata": {"name": "p"}, "spec": {"containers": containers}})).json
        version = pod["metadata"]["resourceVersion"]
        target = {"kind": "Node", "name": "n1"}
        older = {"metadata": {"name": "p", "resourceVersion": "1"}, "target": target}
        refused = await client("POST", f"{PODS}/p/binding", older)
        assert refused.status == 409
        assert refused.json["message"].endswith(
            "AdditionalErrorMsg: Precondition failed: ResourceVersion in precondition: 1, "
            f"ResourceVersion in object meta: {version}"
        )
        seen = {"metadata": {"name": "p", "resourceVersion": version}, "target": target}
        assert (await client("POST", f"{PODS}/p/binding", seen)).status == 201
        assert (await client("GET", f"{PODS}/p")).json["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize("path", ["/api/v2", "/api/v7/", "/api/v2/pods", "/api/v2/namespaces/default/pods/p"])
async def test_unknown_versions_of_the_core_group_are_answered_in_json(path: str) -> None:
    async with open_asgi() as client:
        answer = await client("GET", path)
        assert (answer.status, answer.json["reason"], answer.json["details"]) == (404, "NotFound", {})


async def test_versions_of_groups_that_do_not_exist_are_answered_in_text() -> None:
    async with open_asgi() as client:
        answer = await client("GET", "/apis/nothing.example.com/v1")
        assert (answer.status, answer.body) == (404, b"404 page not found\n")


async def test_what_a_put_leaves_alone_are_the_very_parts_that_were_stored() -> None:
    async with open_asgi() as client:
        inside = client.server.transport()
        spec = {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False}
        made = (await client("POST", PODS, {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": spec})).json
        before = await inside.call(APICall("get", resources.PODS, "default", "a"))
        made["metadata"]["annotations"] = {"k": "v"}
        body = json.dumps(made, separators=(",", ":")).encode()
        assert (await client("PUT", f"{PODS}/a", body)).status == 200
        after = await inside.call(APICall("get", resources.PODS, "default", "a"))
    assert after.metadata.annotations == {"k": "v"}
    assert after.spec is before.spec
    assert after.metadata.labels is before.metadata.labels


@with_memos
async def test_plugins_that_handle_a_sub_resource_are_found_once_for_all_objects() -> None:
    """The memo goes by identity, so calls must have the sub-resource of their route and not that of their path."""
    async with open_asgi() as asgi:
        sizes = []
        for number in range(6):
            name = f"n{number}"
            assert (await asgi("POST", "/api/v1/namespaces", {"metadata": {"name": name}})).status == 201
            patched = await asgi(
                "PATCH",
                f"/api/v1/namespaces/{name}/status",
                {"status": {"conditions": [{"type": "A", "status": "True"}]}},
                content_type="application/merge-patch+json",
            )
            assert patched.status == 200, patched.body
            sizes.append(statistics()["apiserver.admission.plugin.handlers"])
    assert sizes[1:] == sizes[:1] * 5
