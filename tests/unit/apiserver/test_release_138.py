"""Changes of the API server's responses in 1.38."""

from __future__ import annotations

import json
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.clock import SystemClock
from cathedra.releases import FeatureGates

PODS = "/api/v1/namespaces/default/pods"
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
CHAIRS = "/apis/example.com/v1/chairs"
SCHEMA = {"openAPIV3Schema": {"type": "object"}}
DEFINITION = {
    "metadata": {"name": "chairs.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Chair", "plural": "chairs"},
        "scope": "Cluster",
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": SCHEMA}],
    },
}


@asynccontextmanager
async def served(folder: Path, release: str, **gates: bool) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a server of the release."""
    config = ServerConfig(
        release=release, service_accounts=False, gates=FeatureGates.for_release(release, gates) if gates else None
    )
    server = await APIServer.open(config, clock=SystemClock(), random=random.Random(1))
    try:
        await server.serve(ServeOptions(pki=folder / "pki", tokens={"t": UserInfo("u", ("system:masters",))}))
        assert server.pki is not None
        context = ssl.create_default_context(cadata=server.pki.authority_certificate.decode())
        connector = aiohttp.TCPConnector(ssl=context)
        headers = {"Authorization": "Bearer t"}
        async with aiohttp.ClientSession(server.url, headers=headers, connector=connector) as session:
            yield session
    finally:
        await server.close()


async def answered(call: Any) -> tuple[int, Any]:
    """Status and body of an answer."""
    async with call as response:
        return response.status, await response.json()


@pytest.mark.parametrize(
    ("release", "status", "begins"), [("1.37", 500, ""), ("1.38", 400, "invalid resource version: ")]
)
async def test_a_resource_version_that_is_no_number(tmp_path: Path, release: str, status: int, begins: str) -> None:
    """kubernetes/kubernetes#142591."""
    async with served(tmp_path, release) as client:
        got, body = await answered(client.get("/api/v1/namespaces/default?resourceVersion=x"))
    text = 'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax'
    assert (got, body["message"]) == (status, begins + text)


@pytest.mark.parametrize("release", ["1.37", "1.38"])
async def test_answers_of_deletion_and_binding_have_the_revision_of_the_write(tmp_path: Path, release: str) -> None:
    """kubernetes/kubernetes#138724, #142327, #142197."""
    async with served(tmp_path, release) as client:
        await answered(client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=DEFINITION))
        chair = {"apiVersion": "example.com/v1", "kind": "Chair", "metadata": {"name": "s"}}
        assert (await answered(client.post(CHAIRS, json=chair)))[0] == 201
        _, made = await answered(client.post(PODS, json=POD))
        target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
        revisions = [int(made["metadata"]["resourceVersion"])]
        answers = [
            await answered(client.post(f"{PODS}/p/binding", json=target)),
            await answered(client.post(f"{PODS}/p/eviction", json={"metadata": {"name": "p"}})),
            await answered(client.delete(f"{CHAIRS}/s")),
        ]
        for status, answer in answers:
            assert (status in (200, 201), answer["kind"]) == (True, "Status")
            if release == "1.37":
                assert answer["metadata"] == {}
            else:
                revisions.append(int(answer["metadata"]["resourceVersion"]))
        assert revisions == sorted(set(revisions))


@pytest.mark.parametrize("path", ["/apis/chairs.example.com", "/apis/chairs.example.com/v1/chairs", "/nothing"])
async def test_unknown_paths_are_answered_with_a_status(tmp_path: Path, path: str) -> None:
    """kubernetes/kubernetes#138219."""
    async with served(tmp_path, "1.38") as client:
        status, answer = await answered(client.get(path))
        assert (status, answer["kind"], answer["reason"]) == (404, "Status", "NotFound")


async def test_until_137_unknown_groups_are_answered_with_plain_text(tmp_path: Path) -> None:
    async with served(tmp_path, "1.37") as client, client.get("/apis/chairs.example.com/v1/chairs") as response:
        assert (response.status, await response.text()) == (404, "404 page not found\n")


@pytest.mark.parametrize("is_open", [False, True])
async def test_clients_leave_managed_fields_out_of_every_answer(tmp_path: Path, is_open: bool) -> None:
    """kubernetes/kubernetes#139561: objects, lists, tables, watches; built-in and custom kinds."""
    drop = {"Accept": "application/json;drop=metadata.managedFields"}
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io;drop=metadata.managedFields"}
    async with served(tmp_path, "1.38", ManagedFieldsOptOut=is_open) as client:
        await answered(client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=DEFINITION))
        chair = {"apiVersion": "example.com/v1", "kind": "Chair", "metadata": {"name": "s", "labels": {"a": "b"}}}
        answers = [
            (await answered(client.post(path, json=body, headers=drop)))[1]
            for path, body in ((PODS, POD), (CHAIRS, chair))
        ]
        for path, name in ((PODS, "p"), (CHAIRS, "s")):
            answers.append((await answered(client.get(f"{path}/{name}", headers=drop)))[1])
            answers += (await answered(client.get(path, headers=drop)))[1]["items"]
            rows = (await answered(client.get(f"{path}?includeObject=Object", headers=table)))[1]["rows"]
            answers += [row["object"] for row in rows]
            async with client.get(f"{path}?watch=true&timeoutSeconds=1", headers=drop) as response:
                answers.append(json.loads(await response.content.readline())["object"])
            # Nothing is dropped from what is stored, or for other clients.
            _, whole = await answered(client.get(f"{path}/{name}"))
            assert "managedFields" in whole["metadata"]
    assert len(answers) == 10
    assert [("managedFields" not in one["metadata"]) for one in answers] == [is_open] * 10
