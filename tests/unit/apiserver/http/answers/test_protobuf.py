"""Protobuf over HTTP: bodies, answers, lists, failures, watches, and what has no such form."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import aiohttp
import pytest

from cathedra.api.core.core_v1 import ConfigMap, ConfigMapList, Secret
from cathedra.api.core.meta_v1 import DeleteOptions, ObjectMeta, PartialObjectMetadata, Status
from cathedra.api.protobuf import decode_message, encode_message, unwrap, wrap
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.status import expired
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.http.answers.negotiation import AnswerForm
from cathedra.apiserver.http.answers.streaming import send_error_stream
from cathedra.apiserver.server import APIServer
from cathedra.clock import SystemClock
from cathedra.releases import FeatureGates
from tests.unit.apiserver.plain_definitions import plain_definitions

PROTOBUF = "application/vnd.kubernetes.protobuf"
EITHER = {"Accept": f"{PROTOBUF},application/json", "Content-Type": PROTOBUF}
MAPS = "/api/v1/namespaces/default/configmaps"
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    config = ServerConfig(gates=FeatureGates.for_release(), definitions=plain_definitions())
    server = await APIServer.open(config, clock=SystemClock(), random=random.Random(1))
    await server.serve(ServeOptions())
    async with aiohttp.ClientSession(server.url) as session:
        yield session
    await server.close()


def body(name: str, **data: str) -> bytes:
    return wrap(CONFIG_MAP, encode_message(ConfigMap(metadata=ObjectMeta(name=name), data=data)))


async def test_an_object_comes_and_goes_in_protobuf(client: aiohttp.ClientSession) -> None:
    made = await client.post(MAPS, data=body("a", k="v"), headers=EITHER)
    assert (made.status, made.headers["Content-Type"]) == (201, PROTOBUF)
    found = unwrap(await made.read())
    assert (found.api_version, found.kind) == ("v1", "ConfigMap")
    assert decode_message(ConfigMap, found.message).data == {"k": "v"}
    plain = await (await client.get(f"{MAPS}/a")).json()
    assert plain["metadata"]["uid"] == decode_message(ConfigMap, found.message).metadata.uid


async def test_a_list_is_one_message(client: aiohttp.ClientSession) -> None:
    await client.post(MAPS, data=body("a", k="v"), headers=EITHER)
    answer = unwrap(await (await client.get(MAPS, headers=EITHER)).read())
    assert answer.kind == "ConfigMapList"
    listed = decode_message(ConfigMapList, answer.message)
    assert [item.metadata.name for item in listed.items] == ["a"]
    assert listed.metadata.resource_version


async def test_a_failure_is_a_status_in_protobuf(client: aiohttp.ClientSession) -> None:
    answer = await client.get(f"{MAPS}/missing", headers=EITHER)
    found = unwrap(await answer.read())
    assert (answer.status, found.api_version, found.kind) == (404, "v1", "Status")
    assert decode_message(Status, found.message).message == 'configmaps "missing" not found'


async def test_metadata_alone_has_a_protobuf_form_and_a_table_has_none(client: aiohttp.ClientSession) -> None:
    await client.post(MAPS, data=body("a"), headers=EITHER)
    partial = {"Accept": f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
    found = unwrap(await (await client.get(f"{MAPS}/a", headers=partial)).read())
    assert (found.api_version, found.kind) == ("meta.k8s.io/v1", "PartialObjectMetadata")
    assert decode_message(PartialObjectMetadata, found.message).metadata.name == "a"
    table = await client.get(MAPS, headers={"Accept": f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1"})
    assert table.status == 406
    assert b"object *v1.Table does not implement the protobuf marshalling interface" in await table.read()


async def test_delete_options_may_be_protobuf_of_any_version(client: aiohttp.ClientSession) -> None:
    await client.post(MAPS, data=body("a"), headers=EITHER)
    options = wrap(GroupVersionKind("apps", "v1", "DeleteOptions"), encode_message(DeleteOptions(dry_run=("All",))))
    assert (await client.delete(f"{MAPS}/a", data=options, headers=EITHER)).status == 200
    assert (await client.get(f"{MAPS}/a")).status == 200


async def test_a_watch_is_a_row_of_frames(client: aiohttp.ClientSession) -> None:
    await client.post(MAPS, data=body("a", k="v"), headers=EITHER)
    accept = {"Accept": f"{PROTOBUF};stream=watch"}
    async with client.get(f"{MAPS}?watch=true&allowWatchBookmarks=true", headers=accept) as stream:
        assert stream.headers["Content-Type"] == f"{PROTOBUF};stream=watch"
        size = int.from_bytes(await stream.content.readexactly(4), "big")
        frame = await stream.content.readexactly(size)
    assert frame.startswith(b"\x0a\x05ADDED\x12")
    event = unwrap(frame[frame.index(b"k8s\0") :])
    assert decode_message(ConfigMap, event.message).data == {"k": "v"}


async def test_a_watch_that_begins_too_late_ends_with_an_error_frame() -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await send_error_stream(send, expired("too old resource version: 5 (9)"), AnswerForm(PROTOBUF), b"id")
    frame = sent[1]["body"]
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert frame[4:].startswith(b"\x0a\x05ERROR\x12")
    status = decode_message(Status, unwrap(frame[frame.index(b"k8s\0") :]).message)
    assert (status.code, status.reason) == (410, "Expired")


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"", "the object provided is unrecognized (must be of type ConfigMap): empty data (<empty>)"),
        (
            b"{}",
            "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a "
            "protobuf message, expected prefix [107 56 115 0] ({})",
        ),
        (
            wrap(CONFIG_MAP, b"\x0a\x05"),
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: unexpected EOF',
        ),
        (
            wrap(GroupVersionKind("", "v1", "Secret"), encode_message(Secret())),
            'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): '
            "unknown conversion",
        ),
    ],
)
async def test_bodies_that_cannot_be_understood(client: aiohttp.ClientSession, sent: bytes, message: str) -> None:
    answer = await client.post(MAPS, data=sent, headers={"Content-Type": PROTOBUF})
    assert (answer.status, (await answer.json())["message"]) == (400, message)


async def test_yaml_cannot_be_streamed(client: aiohttp.ClientSession) -> None:
    answer = await client.get(f"{MAPS}?watch=true", headers={"Accept": "application/yaml"})
    assert answer.status == 406
    offered = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
    assert offered in " ".join((await answer.text()).split())
