"""Methods on paths that know fewer of them than others (docs/spec/apimachinery.md §2.3)."""

from __future__ import annotations

import pytest

from tests.unit.apiserver.asgi import open_door

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
PODS = "/api/v1/namespaces/default/pods"


async def test_collections_are_deleted_namespace_by_namespace() -> None:
    async with open_door() as door:
        maps = "/api/v1/namespaces/default/configmaps"
        await door("POST", maps, {"metadata": {"name": "a"}})
        refused = await door("DELETE", "/api/v1/configmaps", {})
        assert (refused.status, refused.json["reason"]) == (405, "MethodNotAllowed")
        assert (await door("GET", f"{maps}/a")).status == 200
        assert (await door("DELETE", maps, {})).status == 200
        assert (await door("GET", f"{maps}/a")).status == 404


async def test_namespaces_are_deleted_one_by_one() -> None:
    async with open_door() as door:
        assert (await door("DELETE", "/api/v1/namespaces", {})).status == 405


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
    async with open_door() as door:
        assert (await door(method, path)).status == status


async def test_a_binding_holds_for_the_state_of_the_pod_that_it_names() -> None:
    async with open_door() as door:
        containers = [{"name": "c", "image": "i"}]
        pod = (await door("POST", PODS, {"metadata": {"name": "p"}, "spec": {"containers": containers}})).json
        version = pod["metadata"]["resourceVersion"]
        target = {"kind": "Node", "name": "n1"}
        older = {"metadata": {"name": "p", "resourceVersion": "1"}, "target": target}
        refused = await door("POST", f"{PODS}/p/binding", older)
        assert refused.status == 409
        assert refused.json["message"].endswith(
            "AdditionalErrorMsg: Precondition failed: ResourceVersion in precondition: 1, "
            f"ResourceVersion in object meta: {version}"
        )
        seen = {"metadata": {"name": "p", "resourceVersion": version}, "target": target}
        assert (await door("POST", f"{PODS}/p/binding", seen)).status == 201
        assert (await door("GET", f"{PODS}/p")).json["spec"]["nodeName"] == "n1"
