"""Every list of every kind in every form, empty and full: JSON, YAML and protobuf; objects, metadata and tables."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from cathedra.api.core.meta_v1 import PartialObjectMetadataList
from cathedra.api.protobuf import decode_message, unwrap
from cathedra.api.scheme import GroupResource
from cathedra.apiserver.authentication.user import LOOPBACK
from cathedra.apiserver.http.answers.render import ListCache, stamp_of
from cathedra.apiserver.request import Call
from cathedra.client.transport import ListOptions
from tests.requirements import with_memos
from tests.unit.apiserver.asgi import ASGIClient, open_asgi

PROTOBUF = "application/vnd.kubernetes.protobuf"
DISCOVERY = "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def asgi() -> AsyncIterator[ASGIClient]:
    async with open_asgi() as asgi:
        await asgi("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
        yield asgi


async def collections(asgi: ASGIClient) -> list[str]:
    groups = [
        group for root in ("/api", "/apis") for group in (await asgi("GET", root, accept=DISCOVERY)).json["items"]
    ]
    return [
        f"{_root(group['metadata'].get('name', ''))}/{version['version']}/{one['resource']}"
        for group in groups
        for version in group["versions"]
        for one in version["resources"]
        if "list" in one["verbs"] and one["resource"] != "componentstatuses"
    ]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_every_list_has_every_form(asgi: ASGIClient, version: str) -> None:
    paths = await collections(asgi)
    assert len(paths) > 40
    for path in paths:
        for media in ("application/json", "application/yaml", PROTOBUF):
            assert (await asgi("GET", path, accept=media)).status == 200, path
            metadata = f"{media};as=PartialObjectMetadataList;v={version};g=meta.k8s.io"
            assert (await asgi("GET", path, accept=metadata)).status == 200, (path, media)
            table = await asgi("GET", path, accept=f"{media};as=Table;v={version};g=meta.k8s.io")
            assert table.status == (406 if media == PROTOBUF else 200), (path, media)


@pytest.mark.parametrize("names", [[], ["a", "b"]], ids=["empty", "full"])
async def test_metadata_lists_in_protobuf_say_what_is_there(asgi: ASGIClient, names: list[str]) -> None:
    for name in names:
        await asgi("POST", MAPS, {"metadata": {"name": name}})
    answer = await asgi("GET", MAPS, accept=f"{PROTOBUF};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
    found = unwrap(answer.body)
    assert (found.api_version, found.kind) == ("meta.k8s.io/v1", "PartialObjectMetadataList")
    listed = decode_message(PartialObjectMetadataList, found.message)
    assert [item.metadata.name for item in listed.items] == names
    assert listed.metadata.resource_version


async def test_a_list_is_no_single_metadata(asgi: ASGIClient) -> None:
    for method in ("GET", "DELETE"):
        answer = await asgi(method, MAPS, accept="application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
        assert (answer.status, answer.json["message"]) == (
            406,
            "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)",
        )


def _root(group: str) -> str:
    return f"/apis/{group}" if group else "/api"


async def test_a_large_object_is_the_same_in_yaml() -> None:
    async with open_asgi() as asgi:
        path = "/api/v1/namespaces/default/configmaps"
        data = {f"k{number}": "v: 1" for number in range(10_000)}
        await asgi("POST", path, {"metadata": {"name": "large"}, "data": data})
        plain = await asgi("GET", f"{path}/large")
        made = await asgi("GET", f"{path}/large", accept="application/yaml")
        assert made.header("content-type") == "application/yaml"
        assert yaml.safe_load(made.body) == plain.json


async def names(asgi: ASGIClient, path: str = MAPS) -> list[str]:
    listed: Any = (await asgi("GET", path)).json
    return [item["metadata"]["name"] for item in listed["items"]]


async def test_a_list_shows_every_change() -> None:
    async with open_asgi() as asgi:
        assert await names(asgi) == []
        for name in ("b", "a"):
            await asgi("POST", MAPS, {"metadata": {"name": name, "labels": {"n": name}}})
            assert name in await names(asgi)
        assert await names(asgi) == await names(asgi) == ["a", "b"]
        assert await names(asgi, f"{MAPS}?labelSelector=n%3Da") == ["a"]
        assert await names(asgi, "/api/v1/configmaps?labelSelector=n") == ["a", "b"]
        await asgi("DELETE", f"{MAPS}/a")
        assert await names(asgi) == ["b"]
        assert await names(asgi, f"{MAPS}?labelSelector=n%3Da") == []


async def test_a_kept_list_says_the_present_revision() -> None:
    async with open_asgi() as asgi:
        first = (await asgi("GET", MAPS)).json
        await asgi("POST", "/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
        second = (await asgi("GET", MAPS)).json
    assert first["items"] == second["items"] == []
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])


async def test_pages_are_not_mistaken_for_the_whole() -> None:
    async with open_asgi() as asgi:
        for number in range(3):
            await asgi("POST", MAPS, {"metadata": {"name": f"m{number}"}})
        page = (await asgi("GET", f"{MAPS}?limit=2")).json
        assert len(page["items"]) == 2
        assert page["metadata"]["remainingItemCount"] == 1
        assert await names(asgi, f"{MAPS}?limit=3") == await names(asgi) == ["m0", "m1", "m2"]


@with_memos
async def test_a_list_that_was_read_before_a_write_is_not_kept_for_later_readers() -> None:
    async with open_asgi() as asgi:
        table = asgi.server.context.registry.table(GroupResource("", "configmaps"))
        definition = asgi.server.catalog.definition(GroupResource("", "configmaps"))
        assert definition is not None
        call = Call.on(definition, definition.versions[0], user=LOOPBACK, verb="list")
        kept, options = ListCache(), ListOptions()
        before = stamp_of(table)
        await asgi("POST", MAPS, {"metadata": {"name": "a"}})
        kept.keep(table, call, options, b"nothing", before)
        assert kept.get(table, call, options) is None
        kept.keep(table, call, options, b"a")
        assert kept.get(table, call, options) == b"a"
