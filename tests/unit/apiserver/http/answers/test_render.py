"""Every list of every kind in every form, empty and full: JSON, YAML and protobuf; objects, metadata and tables."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import yaml

from cathedra.api.core.meta_v1 import PartialObjectMetadataList
from cathedra.api.protobuf import decode_message, unwrap
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
