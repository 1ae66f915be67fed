"""Discovery: groups, versions and resources, in both forms."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cathedra.apiserver.config import ServerConfig
from tests.unit.apiserver.asgi import ASGIClient, open_asgi

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.fixture
async def asgi() -> AsyncIterator[ASGIClient]:
    async with open_asgi() as made:
        yield made


async def test_the_core_is_a_group_of_its_own_and_all_others_are_listed(asgi: ASGIClient) -> None:
    core = (await asgi("GET", "/api")).json
    assert (core["kind"], core["versions"]) == ("APIVersions", ["v1"])
    assert "serverAddress" in core["serverAddressByClientCIDRs"][0]
    groups = {group["name"]: group for group in (await asgi("GET", "/apis")).json["groups"]}
    assert {"apps", "batch", "resource.k8s.io", "rbac.authorization.k8s.io"} <= set(groups)
    assert "" not in groups
    assert groups["resource.k8s.io"]["preferredVersion"]["version"] == "v1"


async def test_a_group_says_its_versions_and_each_version_its_resources(asgi: ASGIClient) -> None:
    group = (await asgi("GET", "/apis/apps")).json
    assert (group["kind"], group["versions"]) == ("APIGroup", [{"groupVersion": "apps/v1", "version": "v1"}])
    listed = (await asgi("GET", "/apis/apps/v1")).json
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", "apps/v1")
    names = [resource["name"] for resource in listed["resources"]]
    assert names == sorted(names)
    assert {"deployments", "deployments/scale", "deployments/status"} <= set(names)
    found = {resource["name"]: resource for resource in listed["resources"]}
    assert found["deployments"]["shortNames"] == ["deploy"]
    assert (found["deployments/scale"]["group"], found["deployments/scale"]["kind"]) == ("autoscaling", "Scale")
    assert found["deployments/status"]["verbs"] == ["get", "patch", "update"]


async def test_resources_that_are_only_created_have_the_one_verb(asgi: ASGIClient) -> None:
    listed = (await asgi("GET", "/apis/authorization.k8s.io/v1")).json["resources"]
    assert {tuple(one["verbs"]) for one in listed} == {("create",)}
    core = {one["name"]: one for one in (await asgi("GET", "/api/v1")).json["resources"]}
    assert core["pods/binding"]["verbs"] == ["create"]
    assert (core["pods/eviction"]["group"], core["pods/eviction"]["version"]) == ("policy", "v1")


@pytest.mark.parametrize("path", ["/apis/nothing", "/apis/nothing/v1", "/apis/apps/v9", "/apis/apps/v1/x/y"])
async def test_what_is_not_there_is_not_found(asgi: ASGIClient, path: str) -> None:
    assert (await asgi("GET", path)).status == 404


async def test_who_asks_gets_everything_at_once(asgi: ASGIClient) -> None:
    answer = await asgi("GET", "/apis", accept=AGGREGATED)
    assert answer.header("content-type") == AGGREGATED
    document = answer.json
    assert document["kind"] == "APIGroupDiscoveryList"
    groups = {item["metadata"]["name"]: item for item in document["items"]}
    (apps,) = groups["apps"]["versions"]
    deployments = next(one for one in apps["resources"] if one["resource"] == "deployments")
    assert (deployments["scope"], deployments["singularResource"]) == ("Namespaced", "deployment")
    assert [one["subresource"] for one in deployments["subresources"]] == ["scale", "status"]
    core = (await asgi("GET", "/api", accept=AGGREGATED)).json["items"]
    assert [item["metadata"] for item in core] == [{}]


async def test_both_forms_say_the_same(asgi: ASGIClient) -> None:
    items = (await asgi("GET", "/apis", accept=AGGREGATED)).json["items"]
    for item in items:
        for version in item["versions"]:
            group_version = f"{item['metadata']['name']}/{version['version']}"
            legacy = (await asgi("GET", f"/apis/{group_version}")).json["resources"]
            whole = {one["name"]: one["verbs"] for one in legacy}
            aggregated: dict[str, Any] = {}
            for resource in version["resources"]:
                aggregated[resource["resource"]] = resource["verbs"]
                for one in resource.get("subresources", ()):
                    aggregated[f"{resource['resource']}/{one['subresource']}"] = one["verbs"]
            assert aggregated == whole, group_version


async def test_who_knows_the_document_need_not_read_it_again(asgi: ASGIClient) -> None:
    first = await asgi("GET", "/apis", accept=AGGREGATED)
    again = await asgi("GET", "/apis", accept=AGGREGATED, if_none_match=first.header("etag"))
    assert (again.status, again.body) == (304, b"")
    other = await asgi("GET", "/apis", accept=AGGREGATED, if_none_match='"other"')
    assert (other.status, other.body) == (200, first.body)


@pytest.mark.parametrize("accept", ["application/json", AGGREGATED.replace("v=v2", "v=v9") + ",application/json", ""])
async def test_who_does_not_ask_for_the_new_form_gets_the_old_one(asgi: ASGIClient, accept: str) -> None:
    assert (await asgi("GET", "/apis", accept=accept)).json["kind"] == "APIGroupList"


async def test_a_new_kind_is_there_at_once(asgi: ASGIClient) -> None:
    before = await asgi("GET", "/apis", accept=AGGREGATED)
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"kind": "Thing", "plural": "things"}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    definition = {"metadata": {"name": "things.example.com"}, "spec": spec}
    await asgi("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    await asgi.settle()
    (thing,) = (await asgi("GET", "/apis/example.com/v1")).json["resources"]
    assert (thing["name"], thing["namespaced"]) == ("things", False)
    after = await asgi("GET", "/apis", accept=AGGREGATED)
    assert after.header("etag") != before.header("etag")


async def test_a_group_without_a_served_version_is_in_no_document(asgi: ASGIClient) -> None:
    version = {"name": "v1", "served": False, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"kind": "Thing", "plural": "things"}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    definition = {"metadata": {"name": "things.example.com"}, "spec": spec}
    await asgi("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    await asgi.settle()
    assert "example.com" not in {group["name"] for group in (await asgi("GET", "/apis")).json["groups"]}
    items = (await asgi("GET", "/apis", accept=AGGREGATED)).json["items"]
    assert "example.com" not in {item["metadata"]["name"] for item in items}
    assert (await asgi("GET", "/apis/example.com")).status == 404
    assert "/apis/example.com" not in (await asgi("GET", "/")).json["paths"]


async def test_the_root_lists_paths(asgi: ASGIClient) -> None:
    paths = (await asgi("GET", "/")).json["paths"]
    assert paths == sorted(paths)
    assert {"/api/v1", "/apis/apps/v1", "/healthz", "/openapi/v3", "/version"} <= set(paths)


@pytest.mark.parametrize("path", ["/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1"])
@pytest.mark.parametrize("accept", ["application/json;as=Table;v=v1;g=meta.k8s.io", "text/html"])
async def test_a_form_that_a_document_does_not_have_is_not_acceptable(asgi: ASGIClient, path: str, accept: str) -> None:
    answer = await asgi("GET", path, accept=accept)
    assert (answer.status, answer.json["reason"]) == (406, "NotAcceptable")


async def test_documents_are_given_as_yaml(asgi: ASGIClient) -> None:
    answer = await asgi("GET", "/api/v1", accept="application/yaml")
    assert answer.header("content-type") == "application/yaml"
    assert answer.body.startswith(b"groupVersion: v1\nkind: APIResourceList\n")


@pytest.mark.parametrize(
    "path", ["//api//v1", "//api/v1", "//api/v1/namespaces", "//apis", "//apis/apps/v1/deployments"]
)
async def test_no_path_begins_with_two_slashes(path: str) -> None:
    async with open_asgi(ServerConfig(release="1.36")) as asgi:
        answer = await asgi("GET", path)
        assert (answer.status, answer.header("content-type")) == (404, "text/plain; charset=utf-8")
        assert answer.body == b"404 page not found\n"
