"""The fake kube-apiserver: it writes what Go writes, and keeps the few rules that clients rely on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Binding, ObjectReference
from cathedra.api.core.meta_v1 import DeleteOptions, ObjectMeta
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.status import StatusError
from cathedra.client.http import HTTPTransport
from cathedra.client.resources import NAMESPACES, PODS
from cathedra.client.transport import APICall, EventType, ListOptions, PatchType
from cathedra.session.opening import open_transport
from tests.conformance.vectorfiles import VECTORS, cases, vector_files
from tests.goapiserver import go_api_server
from tests.goapiserver.writing import go_object, to_json

OPAQUE = ("parameters", "data", "networkData", "fieldsV1")
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default", "labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def scrambled(value: Any) -> Any:
    """The values without nulls and with the fields of each object in another order."""
    if isinstance(value, dict):
        return {
            name: item if name in OPAQUE else scrambled(item)
            for name, item in reversed(value.items())
            if item is not None
        }
    return [scrambled(item) for item in value] if isinstance(value, list) else value


def recorded_objects() -> list[dict[str, Any]]:
    """The objects that kube-apiserver has answered with, whole ones."""
    return [
        step["response"]
        for name, path in vector_files(VECTORS / "api").items()
        if not name.startswith(("fuzz", "discovery"))
        for case in cases(path)
        for step in case["steps"]
        if isinstance(step.get("response"), dict)
        and step["response"].get("metadata", {}).get("uid")
        # Custom objects and the schemas of their definitions are maps, which Go writes in alphabetical order.
        and step["response"]["kind"] not in ("Table", "CustomResourceDefinition", "Thing")
        # A pointer to a time of zero, which plain values cannot distinguish from no pointer.
        and b'"timeAdded":null' not in to_json(step["response"])
    ]


def test_objects_are_written_byte_for_byte_as_kube_apiserver_has_written_them() -> None:
    found = recorded_objects()
    assert len(found) > 1500
    assert sum(b":null" in to_json(one) for one in found) > 50
    for one in found:
        gvk = GroupVersionKind.parse(one["apiVersion"], one["kind"])
        assert to_json(go_object(scrambled(one), gvk, null_times=False)) == to_json(one)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (1.0, "1"),
        (0.5, "0.5"),
        (1e16, "10000000000000000"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (0.000001, "0.000001"),
        (1e-7, "1e-7"),
        (-1.5e-9, "-1.5e-9"),
        (2**53, "9007199254740992"),
        ("<a>&\u2028é", '"\\u003ca\\u003e\\u0026\\u2028é"'),
    ],
)
def test_numbers_and_texts_are_printed_as_go_prints_them(value: Any, written: str) -> None:
    assert to_json(value).decode() == written


async def test_a_watch_is_split_anywhere_and_shows_what_happens() -> None:
    with go_api_server() as server:
        server.bookmark_seconds = 0.05
        server.put(POD)
        async with await HTTPTransport.open(server.target) as api:
            page = await api.call(APICall("list", PODS, "default", selection=ListOptions(label_selector="app=a")))
            options = ListOptions(label_selector="app=a", resource_version=page.resource_version)
            async with api.watch(APICall("watch", PODS, "default", selection=options)) as events:
                server.put({**POD, "metadata": {**POD["metadata"], "annotations": {"size": "é" * 10_000}}})
                server.put({**POD, "metadata": {**POD["metadata"], "labels": {"app": "b"}}})
                shown = [await anext(events) for _ in range(3)]
    assert [event.type for event in shown] == [EventType.MODIFIED, EventType.DELETED, EventType.BOOKMARK]
    assert shown[0].object.metadata.annotations == {"size": "é" * 10_000}


async def test_writes_are_compared_and_graceful() -> None:
    with go_api_server(tls=True) as server:
        server.put(POD)
        async with open_transport(server.target, user_agent="tests") as api:
            pod = await api.call(APICall("get", PODS, "default", "p"))
            binding = Binding(metadata=ObjectMeta(name="p"), target=ObjectReference(kind="Node", name="n1"))
            await api.call(APICall("create", PODS, "default", "p", "binding", body=binding))
            with pytest.raises(StatusError) as refused:
                await api.call(APICall("update", PODS, "default", pod.metadata.name, body=pod))
            assert refused.value.code == 409
            patch = {"metadata": {"finalizers": ["tests/x"]}, "status": {"phase": "Failed"}}
            await api.call(APICall("patch", PODS, "default", "p", body=patch, patch_type=PatchType.MERGE))
            marked = await api.call(APICall("delete", PODS, "default", "p", body=DeleteOptions()))
            assert marked is not None
            assert marked.metadata.deletion_timestamp is not None
            assert marked.status.phase == ""
            await api.call(APICall("delete", PODS, "default", "p", body=DeleteOptions(grace_period_seconds=0)))
            drop = {"metadata": {"finalizers": None, "deletionGracePeriodSeconds": 0}}
            await api.call(APICall("patch", PODS, "default", "p", body=drop, patch_type=PatchType.STRATEGIC))
            with pytest.raises(StatusError) as missing:
                await api.call(APICall("get", PODS, "default", "p"))
            assert missing.value.is_not_found
        assert server.requests[0] == "GET /api/session"


async def test_lost_history_is_refused_with_410() -> None:
    with go_api_server() as server:
        server.store.compact()
        async with await HTTPTransport.open(server.target) as api:
            with pytest.raises(StatusError) as refused:
                async with api.watch(
                    APICall("watch", NAMESPACES, "", selection=ListOptions(resource_version="1"))
                ) as events:
                    await anext(events)
    assert refused.value.is_expired


async def test_an_object_may_be_sent_as_it_is() -> None:
    broken = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "odd", "namespace": "default"}, "data": 7}
    with go_api_server() as server:
        server.put_verbatim(broken)
        async with await HTTPTransport.open(server.target) as api:
            body = json.loads(await api.get_raw("/api/v1/configmaps"))
    assert body["items"][0]["data"] == 7


def test_it_stops_while_clients_are_watching() -> None:
    async def watch(ready: asyncio.Event) -> None:
        async with (
            await HTTPTransport.open(server.target) as api,
            api.watch(APICall("watch", PODS, "", selection=ListOptions(resource_version="1"))) as events,
        ):
            ready.set()
            async for _ in events:
                pass

    async def main() -> None:
        ready = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(watch(ready))
            await ready.wait()
            await asyncio.to_thread(stop.__exit__, None, None, None)

    stop = go_api_server()
    server = stop.__enter__()
    asyncio.run(main())
