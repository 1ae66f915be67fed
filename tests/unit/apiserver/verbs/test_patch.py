"""Patch: a stored object with some of its parts changed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.apiserver.asgi import Answer, ASGIClient, open_asgi

MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
STORED = {"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v", "l": "w"}}
POD = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def patched(client: ASGIClient, kind: str, body: Any, path: str = f"{MAPS}/a") -> Answer:
    media = "application/apply-patch+yaml" if kind == "apply" else f"application/{kind}+json"
    return await client("PATCH", path, body, content_type=media)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("merge-patch", {"data": {"k": "new", "l": None}}),
        ("strategic-merge-patch", {"data": {"k": "new", "l": None}}),
        (
            "json-patch",
            [{"op": "replace", "path": "/data/k", "value": "new"}, {"op": "remove", "path": "/data/l"}],
        ),
    ],
)
async def test_every_form_of_patch_changes_what_it_names_and_keeps_the_rest(kind: str, body: Any) -> None:
    async with open_asgi() as client:
        old = (await client("POST", MAPS, STORED)).json
        new = await patched(client, kind, body)
        assert (new.status, new.json["data"]) == (200, {"k": "new"})
        assert new.json["metadata"]["labels"] == {"x": "y"}
        assert new.json["metadata"]["uid"] == old["metadata"]["uid"]


@pytest.mark.parametrize("kind", ["merge-patch", "strategic-merge-patch", "json-patch"])
async def test_only_apply_creates_what_is_not_there(kind: str) -> None:
    async with open_asgi() as client:
        assert (await patched(client, kind, [] if kind == "json-patch" else {})).status == 404
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
        made = await patched(client, "apply", body, f"{MAPS}/a?fieldManager=me")
        assert (made.status, made.json["data"]) == (201, {"k": "v"})
        again = await patched(client, "apply", body, f"{MAPS}/a?fieldManager=me")
        assert again.status == 200
        assert again.json["metadata"]["resourceVersion"] == made.json["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ({"kind": "ConfigMap"}, "invalid object type: /, Kind=ConfigMap"),
        ({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a"}}, "invalid object type: /v1, Kind=Secret"),
        ({"kind": "ConfigMap", "apiVersion": "v1"}, "was undeterminable: name must be provided"),
        ({"kind": "ConfigMap", "apiVersion": "v1", "metadata": 1}, "was undeterminable: name must be provided"),
        (
            {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "b"}},
            "the name of the object (b) does not match the name on the URL (a)",
        ),
    ],
)
async def test_what_is_applied_says_what_it_is(body: Any, message: str) -> None:
    async with open_asgi() as client:
        refused = await patched(client, "apply", body, f"{MAPS}/a?fieldManager=me")
        assert refused.status == 400
        assert message in refused.json["message"]


async def test_what_is_applied_with_a_uid_must_be_there_already() -> None:
    async with open_asgi() as client:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "u"}}
        refused = await patched(client, "apply", body, f"{MAPS}/a?fieldManager=me")
        assert refused.status == 409
        assert (
            "uid mismatch: the provided object specified uid u, and no existing object was found"
            in (refused.json["message"])
        )


async def test_lists_with_keys_merge_strategically_and_give_way_otherwise() -> None:
    async with open_asgi() as client:
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": POD}
        await client("POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
        other = {"spec": {"template": {"spec": {"containers": [{"name": "d", "image": "j"}]}}}}
        merged = await patched(client, "strategic-merge-patch", other, f"{DEPLOYMENTS}/d")
        assert [one["name"] for one in merged.json["spec"]["template"]["spec"]["containers"]] == ["d", "c"]
        replaced = await patched(client, "merge-patch", other, f"{DEPLOYMENTS}/d")
        assert [one["name"] for one in replaced.json["spec"]["template"]["spec"]["containers"]] == ["d"]


@pytest.mark.parametrize(
    ("kind", "body", "status", "message"),
    [
        ("merge-patch", {"metadata": {"name": "b"}}, 400, "the name of the object (b) does not match"),
        ("merge-patch", {"kind": "Secret"}, 422, 'no kind "Secret" is registered for version "v1"'),
        ("merge-patch", {"kind": 1}, 422, "cannot unmarshal number into Go struct field .kind of type string"),
        ("merge-patch", {"data": 1}, 422, "patch: Invalid value: "),
        ("merge-patch", {"metadata": {"resourceVersion": "1"}}, 409, "the object has been modified"),
        ("json-patch", [{"op": "add", "path": "/data", "value": 1}], 422, "patch: Invalid value: "),
        ("json-patch", [{"path": "/data"}], 422, ""),
        ("json-patch", {}, 400, "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ("merge-patch", [], 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("merge-patch", "x", 400, "json: cannot unmarshal string into Go value"),
        ("strategic-merge-patch", True, 400, "json: cannot unmarshal bool into Go value"),
        ("merge-patch", None, 400, "Invalid JSON Patch"),
    ],
)
async def test_a_patch_that_makes_no_object_changes_nothing(kind: str, body: Any, status: int, message: str) -> None:
    async with open_asgi() as client:
        old = (await client("POST", MAPS, STORED)).json
        refused = await patched(client, kind, b"null" if body is None else body)
        assert refused.status == status, refused.body
        assert message in refused.json["message"]
        assert (await client("GET", f"{MAPS}/a")).json == old


async def test_a_json_patch_has_ten_thousand_operations_at_most() -> None:
    async with open_asgi() as client:
        await client("POST", MAPS, STORED)
        test = {"op": "test", "path": "/data/k", "value": "v"}
        assert (await patched(client, "json-patch", [test] * 10_000)).status == 200
        refused = await patched(client, "json-patch", [test] * 10_001)
        assert (refused.status, refused.json["reason"]) == (413, "RequestEntityTooLarge")


async def test_unknown_fields_are_warned_of_and_strictly_refused() -> None:
    async with open_asgi() as client:
        await client("POST", MAPS, STORED)
        warned = await patched(client, "merge-patch", {"odd": 1})
        assert warned.warnings == ['299 - "unknown field \\"odd\\""']
        strict = await patched(client, "merge-patch", {"odd": 1}, f"{MAPS}/a?fieldValidation=Strict")
        assert strict.status == 422
        assert 'strict decoding error: unknown field "odd"' in strict.json["message"]


async def test_what_a_patch_went_through_is_in_order_and_the_rest_as_it_was() -> None:
    async with open_asgi() as client:
        texts = {"l": "w", "k": "v"}
        await client("POST", MAPS, {"metadata": {"name": "a", "annotations": texts}, "data": texts})
        new = await patched(client, "merge-patch", {"data": {"j": "new"}, "kind": "ConfigMap", "odd": 1})
        assert list(new.json["data"]) == ["j", "k", "l"]
        assert list(new.json["metadata"]["annotations"]) == ["l", "k"]
        assert new.warnings == ['299 - "unknown field \\"odd\\""']
        new = await patched(client, "merge-patch", {"data": {"i": "new"}})
        assert list(new.json["data"]) == ["i", "j", "k", "l"]


async def test_a_patch_to_another_kind_is_refused() -> None:
    async with open_asgi() as client:
        await client("POST", MAPS, STORED)
        for body in ({"kind": "Secret"}, {"apiVersion": "v2"}, {"kind": 1}):
            refused = await patched(client, "merge-patch", body)
            assert (refused.status, refused.json["reason"]) == (422, "Invalid")


async def test_a_dry_run_changes_nothing() -> None:
    async with open_asgi() as client:
        old = (await client("POST", MAPS, STORED)).json
        would = await patched(client, "merge-patch", {"data": {"k": "new"}}, f"{MAPS}/a?dryRun=All")
        assert would.json["data"]["k"] == "new"
        assert (await client("GET", f"{MAPS}/a")).json == old


async def test_a_scale_is_patched_as_an_object_of_its_own() -> None:
    async with open_asgi() as client:
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": POD}
        await client("POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
        scaled = await patched(client, "merge-patch", {"spec": {"replicas": 3}}, f"{DEPLOYMENTS}/d/scale")
        assert (scaled.json["kind"], scaled.json["spec"]["replicas"]) == ("Scale", 3)
        refused = await patched(client, "merge-patch", {"spec": {"replicas": "many"}}, f"{DEPLOYMENTS}/d/scale")
        assert refused.status == 422
        assert (await client("GET", f"{DEPLOYMENTS}/d")).json["spec"]["replicas"] == 3


@pytest.mark.parametrize("kind", ["apply", "merge-patch"])
async def test_another_uid_in_a_patch_is_a_change_of_an_immutable_field(kind: str) -> None:
    async with open_asgi() as client:
        await client("POST", MAPS, STORED)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "u"}}
        refused = await patched(client, kind, body, f"{MAPS}/a?fieldManager=me")
        assert refused.status == 422
        assert 'metadata.uid: Invalid value: "u": field is immutable' in refused.json["message"]


async def test_a_json_patch_meets_null_where_go_has_a_nil_list() -> None:
    """An empty list without omitempty is read back from protobuf as nil, and shown so."""
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
    async with open_asgi() as client:
        made = await client("POST", path, {"metadata": {"name": "a"}, "rules": []})
        assert (made.status, made.json["rules"]) == (201, None)
        assert [item["rules"] for item in (await client("GET", path)).json["items"]] == [None]
        rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
        added = await patched(client, "json-patch", [{"op": "add", "path": "/rules/-", "value": rule}], f"{path}/a")
        assert added.status == 422
        tested = await patched(client, "json-patch", [{"op": "test", "path": "/rules", "value": None}], f"{path}/a")
        assert (tested.status, tested.json["rules"]) == (200, None)
