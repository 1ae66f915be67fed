"""HTTP over a real socket: credentials, discovery, tables, watches, and the certificate in the scope."""

from __future__ import annotations

import json
import random
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from cathedra.apiserver.authentication.authenticator import PUBLIC_PATHS
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.clock import SystemClock
from cathedra.releases import FeatureGates
from tests.unit.apiserver.plain_definitions import plain_definitions

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[APIServer]:
    config = ServerConfig(gates=FeatureGates.for_release(), definitions=plain_definitions())
    made = await APIServer.open(config, clock=SystemClock(), random=random.Random(1))
    tokens = {"sesame": UserInfo("alibaba", ("system:masters",))}
    await made.serve(ServeOptions(pki=tmp_path / "pki", tokens=tokens, anonymous=PUBLIC_PATHS))
    yield made
    await made.close()


@pytest.fixture
async def client(server: APIServer) -> AsyncIterator[aiohttp.ClientSession]:
    assert server.pki is not None
    context = ssl.create_default_context(cadata=server.pki.authority_certificate.decode())
    headers = {"Authorization": "Bearer sesame"}
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(server.url, headers=headers, connector=connector) as session:
        yield session


async def test_a_client_certificate_names_the_user(server: APIServer, tmp_path: Path) -> None:
    assert server.pki is not None
    server.pki.administrator()
    context = ssl.create_default_context(cadata=server.pki.authority_certificate.decode())
    context.load_cert_chain(tmp_path / "pki/admin.crt", tmp_path / "pki/admin.key")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        answer = await session.get(f"{server.url}/api/v1/namespaces/default")
        assert answer.status == 200


async def test_without_credentials_only_a_401_comes_back(client: aiohttp.ClientSession) -> None:
    answer = await client.get(MAPS, headers={"Authorization": "Bearer wrong"})
    assert answer.status == 401
    assert (await answer.json())["message"] == "Unauthorized"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/readyz", 200),
        ("/livez?verbose", 200),
        ("/healthz", 200),
        ("/version", 200),
        ("/readyz/ping", 401),
        ("/api", 401),
    ],
)
async def test_health_and_version_are_told_without_credentials(server: APIServer, path: str, status: int) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        answer = await session.get(f"{server.url}{path}")
        assert answer.status == status


async def test_private_keys_are_for_the_owner_only(server: APIServer, tmp_path: Path) -> None:
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "pki").glob("*.key")} == {0}


async def test_an_object_lives_its_life_over_http(client: aiohttp.ClientSession) -> None:
    body = {"metadata": {"name": "a"}, "data": {"k": "v"}}
    made = await client.post(MAPS, json=body)
    assert made.status == 201
    assert (await made.json())["kind"] == "ConfigMap"
    merge = {"Content-Type": "application/merge-patch+json"}
    patched = await client.patch(f"{MAPS}/a", data=json.dumps({"data": {"k": None}}), headers=merge)
    assert "data" not in await patched.json()
    gone = await client.delete(f"{MAPS}/a")
    assert gone.status == 200
    assert (await client.get(f"{MAPS}/a")).status == 404


async def test_a_list_can_be_a_table(client: aiohttp.ClientSession) -> None:
    await client.post(MAPS, json={"metadata": {"name": "a"}})
    table = await (await client.get(MAPS, headers={"Accept": TABLE})).json()
    assert table["kind"] == "Table"
    assert table["rows"][0]["cells"][0] == "a"
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_discovery_is_aggregated_for_those_who_ask(client: aiohttp.ClientSession) -> None:
    answer = await client.get("/apis", headers={"Accept": AGGREGATED})
    assert answer.headers["Content-Type"] == AGGREGATED.partition(",")[0]
    groups = [item["metadata"]["name"] for item in (await answer.json(content_type=None))["items"]]
    assert "resource.k8s.io" in groups
    again = await client.get("/apis", headers={"Accept": AGGREGATED, "If-None-Match": answer.headers["ETag"]})
    assert again.status == 304


async def test_a_watch_streams_lines_and_ends_in_time(client: aiohttp.ClientSession) -> None:
    made = await (await client.post(MAPS, json={"metadata": {"name": "a"}})).json()
    query = f"?watch=true&timeoutSeconds=1&resourceVersion={made['metadata']['resourceVersion']}"
    async with client.get(f"{MAPS}{query}") as stream:
        await client.post(MAPS, json={"metadata": {"name": "b"}})
        lines = [json.loads(line) async for line in stream.content]
    assert [(line["type"], line["object"]["metadata"]["name"]) for line in lines] == [("ADDED", "b")]


async def test_a_watch_from_too_old_a_version_says_so_in_the_stream(client: aiohttp.ClientSession) -> None:
    server_floor = "?watch=true&resourceVersion=1&timeoutSeconds=1"
    async with client.get(f"{MAPS}{server_floor}") as stream:
        assert stream.status == 200


async def test_a_body_that_is_too_large_is_refused(client: aiohttp.ClientSession) -> None:
    body = {"metadata": {"name": "a"}, "data": {"k": "x" * 3_200_000}}
    assert (await client.post(MAPS, json=body)).status == 413


async def test_openapi_tells_that_fields_can_be_validated(client: aiohttp.ClientSession) -> None:
    index = await (await client.get("/openapi/v3")).json(content_type=None)
    url = index["paths"]["api/v1"]["serverRelativeURL"]
    document = await (await client.get(url)).json()
    post = document["paths"]["/api/v1/namespaces/{namespace}/configmaps"]["post"]
    assert "fieldValidation" in {parameter["name"] for parameter in post["parameters"]}
