"""Objects of every kind with nulls arrive as those with nothing there, over HTTP and over a session."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.nulls import without_nulls
from cathedra.api.scheme import type_of
from cathedra.api.struct import KubeStruct, from_dict, replace
from cathedra.client.http import HTTPTransport
from cathedra.client.resources import ENDPOINTSLICES, PODS
from cathedra.client.transport import APICall, EventType, ResourceRef, Transport
from cathedra.frames import MessageReader, write_frame
from cathedra.releases import NEWEST
from cathedra.session.protocol import EventMessage, FromClient, ListMessage, ObjectMessage, Payload, RequestMessage
from cathedra.session.transport import SessionTransport, UnixConnection
from tests.goapiserver import GoAPIServer, go_api_server
from tests.goapiserver.objects import Resource, served_resources
from tests.unit.api.nulled import nulled

RESOURCES = list(served_resources(NEWEST).values())
ROUNDS = 4


def ref_of(resource: Resource) -> ResourceRef[Any]:
    gvk = resource.gvk
    kind: Any = type_of(gvk)
    return ResourceRef(gvk.group, gvk.version, resource.plural, gvk.kind, resource.namespaced, kind)


def objects_of(resource: Resource) -> list[tuple[dict[str, Any], Any]]:
    """Some objects of a resource as they are sent, each with what it means, but for the metadata."""
    kind: Any = type_of(resource.gvk)
    chance = random.Random(resource.plural)
    found = []
    for number in range(ROUNDS):
        written, meant = nulled(kind, chance)
        namespace = {"namespace": "default"} if resource.namespaced else {}
        metadata = {"name": f"odd-{number}", **namespace, "labels": None, "finalizers": None, "managedFields": None}
        head = {"apiVersion": resource.gvk.api_version, "kind": resource.gvk.kind}
        found.append(({**written, **head, "metadata": metadata}, without_metadata(from_dict(kind, meant))))
    return found


def without_metadata(obj: Any) -> KubeStruct:
    changed: KubeStruct = replace(obj, metadata=ObjectMeta(), kind="", api_version="")
    return changed


async def seen(api: Transport, resource: Resource) -> list[Any]:
    """Return the objects of list, get and watch."""
    ref = ref_of(resource)
    namespace = "default" if resource.namespaced else ""
    listed = [obj for obj in (await api.call(APICall("list", ref, ""))).items if obj.metadata.name.startswith("odd-")]
    got = [await api.call(APICall("get", ref, namespace, f"odd-{number}")) for number in range(ROUNDS)]
    watched = []
    async with api.watch(APICall("watch", ref, "")) as events:
        async for event in events:
            if event.object.metadata.name.startswith("odd-"):
                watched.append(event.object)
            if len(watched) == ROUNDS:
                break
    for shown in (listed, got, watched):
        assert [obj.metadata.name for obj in shown] == [f"odd-{number}" for number in range(ROUNDS)]
    return [*listed, *got, *watched]


@pytest.fixture(scope="module")
def server() -> Any:
    with go_api_server() as running:
        yield running


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.plural)
async def test_each_kind_comes_over_http_as_if_its_nulls_were_absent(server: GoAPIServer, resource: Resource) -> None:
    sent = objects_of(resource)
    for written, _ in sent:
        server.put_verbatim(written)
    async with await HTTPTransport.open(server.target) as api:
        shown = await seen(api, resource)
    assert [without_metadata(obj) for obj in shown] == [meant for _, meant in sent] * 3


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.plural)
async def test_each_kind_comes_over_a_session_as_if_its_nulls_were_absent(resource: Resource, tmp_path: Path) -> None:
    sent = objects_of(resource)
    async with playing([written for written, _ in sent], tmp_path / "api.sock") as api:
        shown = await seen(api, resource)
    assert [without_metadata(obj) for obj in shown] == [meant for _, meant in sent] * 3


@asynccontextmanager
async def playing(objects: list[dict[str, Any]], path: Path) -> AsyncIterator[SessionTransport]:
    """A session with a played server that has these objects, and sends them as they are."""
    bodies = {one["metadata"]["name"]: json.dumps(one).encode() for one in objects}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        messages = MessageReader(FromClient)
        while data := await reader.read(2**16):
            for batch in messages.feed(data):
                for message in batch:
                    if isinstance(message, RequestMessage):
                        writer.write(write_frame(answers(message)))
        writer.close()

    def answers(request: RequestMessage) -> list[Any]:
        if request.verb == "get":
            return [ObjectMessage(request.id, Payload(request.form, bodies[request.name]))]
        shown = [Payload(request.form, body) for body in bodies.values()]
        if request.verb == "list":
            return [ListMessage(request.id, shown, resource_version="7")]
        return [EventMessage(request.id, EventType.ADDED, one) for one in shown]

    server = await asyncio.start_unix_server(answer, str(path))
    connection = UnixConnection(path)
    try:
        yield SessionTransport(connection, "", agent="tests")
    finally:
        connection.close()
        server.close()


async def test_a_list_of_nothing_may_be_null() -> None:
    with go_api_server() as empty:
        async with await HTTPTransport.open(empty.target) as api:
            assert b'"items":null' in await api.get_raw("/api/v1/pods")
            assert (await api.call(APICall("list", PODS, ""))).items == ()


async def test_objects_beside_one_with_a_null_are_decoded_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of thousands is not mended as a whole because of one object that any user may have made."""
    mended: list[Any] = []

    def counted(value: Any, hint: Any) -> Any:
        mended.append(value)
        return without_nulls(value, hint)

    monkeypatch.setattr("cathedra.api.struct.without_nulls", counted)
    with go_api_server() as go:
        for number in range(20):
            endpoints = [{"addresses": ["10.0.0.1"]}] if number else None
            metadata = {"name": f"s{number:02}", "namespace": "default"}
            head = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata}
            go.put({**head, "addressType": "IPv4", "endpoints": endpoints, "ports": []})
        async with await HTTPTransport.open(go.target) as api:
            slices = (await api.call(APICall("list", ENDPOINTSLICES, ""))).items
    assert [len(each.endpoints) for each in slices] == [0, *[1] * 19]
    assert [value["metadata"]["name"] for value in mended] == ["s00"]
