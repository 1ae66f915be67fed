"""Requests at a replica that has not received the latest writes of its primary."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.apiserver.config import ServerConfig
from tests.unit.apiserver.asgi import Answer, ASGIClient, open_asgi
from tests.unit.apiserver.lagging import USER, Lagging, joined, lagging

NAMESPACES = "/api/v1/namespaces"
MAPS = f"{NAMESPACES}/default/configmaps"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"


def named(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": "v1", "metadata": {"name": name}, **fields}


def config_map(name: str, value: str = "1", **metadata: Any) -> dict[str, Any]:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, **metadata}, "data": {"k": value}}


async def test_an_object_is_created_in_a_namespace_that_another_server_has_just_made() -> None:
    async with lagging() as servers:
        await servers.behind(("POST", NAMESPACES, named("Namespace", "new")))
        answer = await servers.replica("POST", f"{NAMESPACES}/new/configmaps", config_map("a"))
        assert answer.status == 201, answer.body


async def test_what_another_server_has_just_deleted_is_created_again() -> None:
    async with lagging() as servers:
        assert (await servers.replica("POST", MAPS, config_map("a"))).status == 201
        await servers.behind(("DELETE", f"{MAPS}/a", None))
        answer = await servers.replica("POST", MAPS, config_map("a", "2"))
        assert answer.status == 201, answer.body


async def test_what_another_server_has_just_made_is_there_already() -> None:
    async with lagging() as servers:
        await servers.behind(("POST", MAPS, config_map("a")))
        answer = await servers.replica("POST", MAPS, config_map("a", "2"))
        assert (answer.status, answer.json["reason"]) == (409, "AlreadyExists")
        assert (await servers.replica("GET", f"{MAPS}/a")).json["data"] == {"k": "1"}


async def test_what_another_server_has_just_made_is_deleted() -> None:
    async with lagging() as servers:
        await servers.behind(("POST", MAPS, config_map("a")))
        assert (await servers.replica("DELETE", f"{MAPS}/a")).status == 200
        assert (await servers.primary("GET", f"{MAPS}/a")).status == 404


async def test_the_newest_resource_version_is_good_where_it_is_not_known_yet() -> None:
    async with lagging() as servers:
        assert (await servers.replica("POST", MAPS, config_map("a"))).status == 201
        await servers.behind(("PUT", f"{MAPS}/a", config_map("a", "2")))
        newest = (await servers.primary("GET", f"{MAPS}/a")).json
        answer = await servers.replica("PUT", f"{MAPS}/a", {**newest, "data": {"k": "3"}})
        assert (answer.status, answer.json["data"]) == (200, {"k": "3"})


async def test_an_older_resource_version_is_refused_where_it_is_the_newest_that_is_known() -> None:
    async with lagging() as servers:
        older = (await servers.replica("POST", MAPS, config_map("a"))).json
        await servers.behind(("PUT", f"{MAPS}/a", config_map("a", "2")))
        answer = await servers.replica("PUT", f"{MAPS}/a", {**older, "data": {"k": "3"}})
        assert (answer.status, answer.json["reason"]) == (409, "Conflict")


@pytest.mark.parametrize("dry_run", ["", "?dryRun=All"])
async def test_what_would_change_nothing_here_is_compared_with_the_latest_state(dry_run: str) -> None:
    async with lagging() as servers:
        assert (await servers.replica("POST", MAPS, config_map("a"))).status == 201
        await servers.behind(("PUT", f"{MAPS}/a", config_map("a", "2")))
        answer = await servers.replica("PUT", f"{MAPS}/a{dry_run}", config_map("a", "1"))
        assert (answer.status, answer.json["data"]) == (200, {"k": "1"})
        kept = (await servers.primary("GET", f"{MAPS}/a")).json
        assert kept["data"] == {"k": "2" if dry_run else "1"}


async def test_a_deletion_that_has_begun_here_is_compared_with_the_latest_state() -> None:
    held = config_map("a", finalizers=["example.com/held"])
    released = [{"op": "remove", "path": "/metadata/finalizers"}]
    async with lagging() as servers:
        assert (await servers.replica("POST", MAPS, held)).status == 201
        assert (await servers.replica("DELETE", f"{MAPS}/a")).status == 200
        servers.line.hold()
        patched = json.dumps(released).encode()
        answer = await servers.primary("PATCH", f"{MAPS}/a", patched, content_type="application/json-patch+json")
        assert answer.status == 200, answer.body
        assert (await servers.primary("POST", MAPS, config_map("a", "2"))).status == 201
        assert (await servers.replica("DELETE", f"{MAPS}/a")).status == 200
        assert (await servers.primary("GET", f"{MAPS}/a")).status == 404


async def test_a_dry_run_knows_what_another_server_has_just_made() -> None:
    async with lagging() as servers:
        await servers.behind(("POST", MAPS, config_map("a")))
        assert (await servers.replica("POST", f"{MAPS}?dryRun=All", config_map("a"))).status == 409


async def test_all_of_a_collection_are_deleted_also_those_that_another_server_has_just_made() -> None:
    async with lagging() as servers:
        await servers.behind(("POST", MAPS, config_map("a")), ("POST", MAPS, config_map("b")))
        assert (await servers.replica("DELETE", MAPS)).status == 200
        assert (await servers.primary("GET", MAPS)).json["items"] == []


@pytest.mark.parametrize("query", ["", "?resourceVersion={}", "?resourceVersion={}&resourceVersionMatch=Exact"])
async def test_a_list_shows_what_another_server_has_just_made(query: str) -> None:
    async with lagging() as servers:
        await servers.behind(("POST", MAPS, config_map("a")))
        query = query.format(servers.primary.server.revision)
        listed = await servers.replica("GET", f"{MAPS}{query}")
        assert [item["metadata"]["name"] for item in listed.json["items"]] == ["a"], listed.body


async def test_a_watch_from_the_future_begins_behind_it() -> None:
    async with lagging() as servers:
        await servers.behind(("POST", MAPS, config_map("a")))
        version = servers.primary.server.revision
        path = f"{MAPS}?watch=true&timeoutSeconds=1&resourceVersion={version}"
        watching = asyncio.create_task(servers.replica("GET", path))
        await servers.primary("POST", MAPS, config_map("b"))
        lines = (await watching).body.splitlines()
        assert [json.loads(line)["object"]["metadata"]["name"] for line in lines] == ["b"]


async def test_a_role_that_another_server_has_just_bound_holds() -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]
    role = {**named("Role", "maker", rules=rules), "apiVersion": "rbac.authorization.k8s.io/v1"}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maker"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "viewer"}
    binding = {**named("RoleBinding", "maker", roleRef=ref, subjects=[subject]), "apiVersion": role["apiVersion"]}
    async with lagging() as servers:
        await servers.behind(("POST", f"{ROLES}/roles", role), ("POST", f"{ROLES}/rolebindings", binding))
        assert (await servers.replica("POST", MAPS, config_map("a"), user=USER)).status == 201
        review = {
            "kind": "SelfSubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "spec": {"resourceAttributes": {"namespace": "default", "verb": "create", "resource": "configmaps"}},
        }
        await servers.behind(("DELETE", f"{ROLES}/rolebindings/maker", None))
        asked = await servers.replica("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        assert asked.status == 201, asked.body
        assert servers.line.questions == 1, "a review says what holds now"


async def test_a_write_that_is_not_refused_asks_nothing() -> None:
    async with lagging() as servers:
        await servers.behind(("POST", MAPS, config_map("a")))
        assert (await servers.replica("POST", MAPS, config_map("b"))).status == 201
        assert (await servers.replica("PUT", f"{MAPS}/b", config_map("b", "2"))).status == 200
        assert (await servers.replica("DELETE", f"{MAPS}/b")).status == 200
        assert servers.line.questions == 0


async def test_what_is_refused_by_the_latest_state_is_refused_at_once() -> None:
    async with lagging() as servers:
        await servers.replica("GET", MAPS)
        servers.line.questions = 0
        assert (await servers.replica("DELETE", f"{MAPS}/none")).status == 404
        assert servers.line.questions == 1


async def test_warnings_of_a_request_that_was_looked_at_again_come_once() -> None:
    async with lagging() as servers:
        await servers.behind(("POST", NAMESPACES, named("Namespace", "new")))
        unknown = {**config_map("a"), "unknown": 1}
        answer = await servers.replica("POST", f"{NAMESPACES}/new/configmaps", unknown)
        assert answer.status == 201, answer.body
        assert answer.warnings == ['299 - "unknown field \\"unknown\\""']


async def _create(server: ASGIClient, name: str, turn: int) -> Answer:
    return await server("POST", MAPS, config_map(name, str(turn)))


async def _replace(server: ASGIClient, name: str, turn: int) -> Answer:
    return await server("PUT", f"{MAPS}/{name}", config_map(name, str(turn)))


async def _repeat(server: ASGIClient, name: str, turn: int) -> Answer:
    """An update that changes nothing, where the one before was the same."""
    return await server("PUT", f"{MAPS}/{name}", config_map(name, "same"))


async def _merge(server: ASGIClient, name: str, turn: int) -> Answer:
    patch = json.dumps({"data": {f"merged-{turn % 3}": "1"}}).encode()
    return await server("PATCH", f"{MAPS}/{name}", patch, content_type="application/merge-patch+json")


async def _apply(server: ASGIClient, name: str, turn: int) -> Answer:
    body = json.dumps(config_map(name, str(turn % 3))).encode()
    path = f"{MAPS}/{name}?fieldManager=applier&force=true"
    return await server("PATCH", path, body, content_type="application/apply-patch+yaml")


async def _delete(server: ASGIClient, name: str, turn: int) -> Answer:
    return await server("DELETE", f"{MAPS}/{name}")


async def _delete_all(server: ASGIClient, name: str, turn: int) -> Answer:
    return await server("DELETE", MAPS)


async def _get(server: ASGIClient, name: str, turn: int) -> Answer:
    return await server("GET", f"{MAPS}/{name}")


async def _list(server: ASGIClient, name: str, turn: int) -> Answer:
    return await server("GET", MAPS)


REQUESTS = (_create, _replace, _repeat, _merge, _apply, _delete, _delete_all, _get, _list)


def told(answer: Answer) -> tuple[int, Any, list[tuple[str, Any]]]:
    """Return the part of a response that does not depend on the server."""
    shown = answer.json
    objects = shown.get("items", [shown])
    return answer.status, shown.get("reason"), [(one["metadata"].get("name"), one.get("data")) for one in objects]


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(REQUESTS), st.sampled_from("ab")), max_size=30))
@settings(deadline=None, max_examples=40)
def test_requests_to_several_servers_are_answered_as_by_one(requests: list[tuple[int, Any, str]]) -> None:
    async def check() -> None:
        async with (
            open_asgi() as alone,
            lagging(ServerConfig()) as servers,
            joined(servers.primary.server) as (third, line),
        ):
            for turn, (number, request, name) in enumerate(requests):
                servers.line.hold()
                line.hold()
                answer = await request((servers.primary, servers.replica, third)[number], name, turn)
                assert told(answer) == told(await request(alone, name, turn))

    asyncio.run(check())


async def whose(servers: Lagging, token: str) -> str:
    """Return the user of a token, by the replica."""
    review = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    answer = await servers.replica("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review, user=token)
    assert answer.status == 201, answer.body
    name: str = answer.json["status"]["userInfo"]["username"]
    return name


@pytest.mark.parametrize("issuer", ["primary", "replica"])
async def test_a_token_of_an_account_that_another_server_has_just_made_is_issued_and_good(issuer: str) -> None:
    accounts = f"{NAMESPACES}/default/serviceaccounts"
    async with lagging() as servers:
        await servers.behind(("POST", accounts, named("ServiceAccount", "new")))
        asked = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}}
        issued = await getattr(servers, issuer)("POST", f"{accounts}/new/token", asked)
        assert issued.status == 201, issued.body
        assert await whose(servers, issued.json["status"]["token"]) == "system:serviceaccount:default:new"


async def test_a_bootstrap_token_that_another_server_has_just_taken_is_good() -> None:
    data = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}
    secret = named("Secret", "bootstrap-token-abcdef", type="bootstrap.kubernetes.io/token", stringData=data)
    async with lagging() as servers:
        await servers.behind(("POST", f"{NAMESPACES}/kube-system/secrets", secret))
        assert await whose(servers, "abcdef.0123456789abcdef") == "system:bootstrap:abcdef"


async def test_a_token_that_no_server_knows_is_refused() -> None:
    async with lagging() as servers:
        await servers.behind(("POST", MAPS, config_map("a")))
        assert (await servers.replica("GET", MAPS, user="none")).status == 401


async def test_a_web_socket_leads_to_what_another_server_has_just_made() -> None:
    pod = named("Pod", "p", spec={"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False})
    async with lagging() as servers:
        await servers.behind(("POST", f"{NAMESPACES}/default/pods", pod))
        answer = await servers.replica.upgrade(f"{NAMESPACES}/default/pods/p/exec?command=ls&stdout=true")
        assert answer.status == 400, answer.body
        assert b"does not have a host assigned" in answer.body
