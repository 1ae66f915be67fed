"""The HTTP transport, against a server with scripted responses."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from cathedra.api.core.core_v1 import Binding, ObjectReference, Pod
from cathedra.api.core.meta_v1 import DeleteOptions, ObjectMeta, Preconditions
from cathedra.api.status import StatusError
from cathedra.api.undecodable import UndecodableObject
from cathedra.certificates.authority import Authority
from cathedra.client import answers
from cathedra.client.http import HTTPTransport, close_session
from cathedra.client.kubeconfig import Target
from cathedra.client.resources import NODES, PODS, RESOURCECLAIMS
from cathedra.client.transport import APICall, EventType, ListOptions, MalformedAnswer, PatchType, WriteOptions
from tests.requirements import with_memos

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

POD = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "ns", "resourceVersion": "7"}}


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[HTTPTransport]:
    application = web.Application()

    async def answer(request: web.Request) -> web.StreamResponse:
        return await handler(request)

    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        async with await HTTPTransport.open(Target(server=f"http://127.0.0.1:{port}")) as transport:
            yield transport
    finally:
        await runner.cleanup()


class Recorder:
    """Returns the same response to every request and records the requests."""

    def __init__(self, answer: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.answer, self.status, self.headers = answer, status, headers
        self.requests: list[tuple[str, str, dict[str, str], Any, str]] = []

    async def __call__(self, request: web.Request) -> web.Response:
        body = await request.text()
        kind = request.headers.get("Content-Type", "")
        parsed = json.loads(body) if body else None
        self.requests.append((request.method, request.path, dict(request.query), parsed, kind))
        text = self.answer if isinstance(self.answer, str) else json.dumps(self.answer)
        return web.Response(text=text, status=self.status, headers=self.headers, content_type="application/json")


async def test_objects_come_without_kind_and_go_with_it() -> None:
    server = Recorder(POD)
    async with serving(server) as api:
        pod = await api.call(APICall("get", PODS, "ns", "p"))
        assert (pod.kind, pod.api_version, pod.metadata.name) == ("", "", "p")
        await api.call(
            APICall(
                "create",
                PODS,
                "ns",
                body=Pod(metadata=ObjectMeta(name="p")),
                options=WriteOptions(field_manager="me", dry_run=True),
            )
        )
        await api.call(APICall("update", PODS, "ns", pod.metadata.name, "status", body=pod))
        await api.call(APICall("get", NODES, "ns-is-ignored", "n1"))
        await api.call(APICall("get", RESOURCECLAIMS, "ns", "c"))
    methods = [(method, path) for method, path, *_ in server.requests]
    assert methods == [
        ("GET", "/api/v1/namespaces/ns/pods/p"),
        ("POST", "/api/v1/namespaces/ns/pods"),
        ("PUT", "/api/v1/namespaces/ns/pods/p/status"),
        ("GET", "/api/v1/nodes/n1"),
        ("GET", "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c"),
    ]
    _, _, query, body, kind = server.requests[1]
    assert query == {"dryRun": "All", "fieldManager": "me"}
    assert (body["kind"], body["apiVersion"], kind) == ("Pod", "v1", "application/json")


async def test_lists_keep_their_metadata() -> None:
    answer = {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "12", "continue": "next", "remainingItemCount": 3},
        "items": [POD],
    }
    server = Recorder(answer)
    async with serving(server) as api:
        options = ListOptions(label_selector="a=b", field_selector="spec.nodeName=n", limit=1, continue_="c")
        page = await api.call(APICall("list", PODS, "", selection=options))
    assert (page.resource_version, page.continue_, page.remaining, len(page.items)) == ("12", "next", 3, 1)
    assert server.requests[0][1:3] == (
        "/api/v1/pods",
        {"labelSelector": "a=b", "fieldSelector": "spec.nodeName=n", "limit": "1", "continue": "c"},
    )


async def test_patches_have_their_media_type_and_apply_says_force() -> None:
    server = Recorder(POD)
    async with serving(server) as api:
        for kind in PatchType:
            await api.call(
                APICall(
                    "patch",
                    PODS,
                    "ns",
                    "p",
                    body={},
                    patch_type=kind,
                    options=WriteOptions(field_manager="m", force=True),
                )
            )
    assert [request[4] for request in server.requests] == [kind.value for kind in PatchType]
    assert server.requests[-1][2] == {"fieldManager": "m", "force": "true"}
    assert "force" not in server.requests[0][2]


async def test_deleting_sends_options_and_understands_both_answers() -> None:
    server = Recorder(POD)
    async with serving(server) as api:
        gone = await api.call(
            APICall("delete", PODS, "ns", "p", body=DeleteOptions(preconditions=Preconditions(uid="u")))
        )
        assert gone is not None
        server.answer = {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        assert await api.call(APICall("delete", PODS, "ns", "p", body=DeleteOptions())) is None
    assert server.requests[0][3] == {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "u"}}


async def test_a_binding_is_posted_to_the_pod() -> None:
    server = Recorder({"kind": "Status", "apiVersion": "v1", "status": "Success"}, 201)
    async with serving(server) as api:
        binding = Binding(metadata=ObjectMeta(name="p"), target=ObjectReference(kind="Node", name="n1"))
        await api.call(APICall("create", PODS, "ns", "p", "binding", body=binding))
    assert server.requests[0][1] == "/api/v1/namespaces/ns/pods/p/binding"
    assert server.requests[0][3]["kind"] == "Binding"


@pytest.mark.parametrize(
    ("status", "answer", "reason", "message"),
    [
        (
            404,
            {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "no"},
            "NotFound",
            "no",
        ),
        (502, "<html>bad gateway</html>", "", "<html>bad gateway</html>"),
        (503, "", "ServiceUnavailable", "Service Unavailable"),
    ],
)
async def test_refusals_become_status_errors(status: int, answer: Any, reason: str, message: str) -> None:
    async with serving(Recorder(answer, status)) as api:
        with pytest.raises(StatusError) as refused:
            await api.call(APICall("get", PODS, "ns", "p"))
    assert (refused.value.code, refused.value.reason, str(refused.value)) == (status, reason, message)


async def test_an_answer_that_asks_to_come_back_is_obeyed() -> None:
    attempts = 0

    async def handler(request: web.Request) -> web.Response:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            return web.json_response({}, status=429, headers={"Retry-After": "0"})
        return web.json_response(POD)

    async with serving(handler) as api:
        assert (await api.call(APICall("get", PODS, "ns", "p"))).metadata.name == "p"


@pytest.mark.parametrize(("status", "sent"), [(429, 2), (503, 2), (500, 1), (504, 1)])
async def test_a_write_that_may_have_been_carried_out_is_not_sent_again(status: int, sent: int) -> None:
    attempts = 0

    async def handler(request: web.Request) -> web.Response:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            return web.json_response({}, status=status, headers={"Retry-After": "0"})
        return web.json_response(POD)

    async with serving(handler) as api:
        with contextlib.suppress(StatusError):
            await api.call(APICall("update", PODS, "ns", "p", body=Pod(metadata=ObjectMeta(name="p"))))
        assert attempts == sent
        attempts = 0
        assert (await api.call(APICall("get", PODS, "ns", "p"))).metadata.name == "p"
        assert attempts == 2


async def test_a_server_that_is_not_there_is_a_connection_error() -> None:
    async with await HTTPTransport.open(Target(server="http://127.0.0.1:1")) as api:
        with pytest.raises(ConnectionError):
            await api.call(APICall("get", PODS, "ns", "p"))
        with pytest.raises(ConnectionError):
            async with api.watch(APICall("watch", PODS, "")) as events:
                await anext(events)


def streaming(*lines: bytes) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.query["watch"] == "true"
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            await response.write(line)
            await asyncio.sleep(0)
        return response

    return handler


def event(kind: str, obj: Any) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


async def test_a_watch_streams_lines_of_any_size_and_ends_with_the_server() -> None:
    large = {**POD, "metadata": {**POD["metadata"], "annotations": {"a": "x" * 300_000}}}  # type: ignore[dict-item]
    text = event("MODIFIED", large)
    bookmark = event(
        "BOOKMARK",
        {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "spec": {"containers": None}},
    )
    handler = streaming(event("ADDED", POD) + text[:1000], text[1000:200_000], text[200_000:] + bookmark, b'{"type":')
    async with (
        serving(handler) as api,
        api.watch(APICall("watch", PODS, "", selection=ListOptions(resource_version="5"))) as events,
    ):
        received = [item async for item in events]
    assert [item.type for item in received] == [EventType.ADDED, EventType.MODIFIED, EventType.BOOKMARK]
    assert received[1].object.metadata.annotations["a"] == "x" * 300_000
    assert received[2].object.metadata.resource_version == "9"


async def test_lost_history_ends_a_watch_as_expired() -> None:
    status = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old"}
    async with serving(streaming(event("ERROR", status))) as api:
        with pytest.raises(StatusError) as refused:
            async with api.watch(APICall("watch", PODS, "", selection=ListOptions(resource_version="5"))) as events:
                await anext(events)
    assert refused.value.is_expired


async def test_a_refused_watch_is_a_status_error() -> None:
    answer = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "no"}
    async with serving(Recorder(answer, 403)) as api:
        with pytest.raises(StatusError, match="no"):
            async with api.watch(APICall("watch", PODS, "")):
                pass


@with_memos
async def test_an_answer_and_its_event_are_one_object() -> None:
    line = json.dumps({"type": "MODIFIED", "object": POD}, separators=(",", ":")).encode() + b"\n"

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.Response(body=json.dumps(POD, separators=(",", ":")).encode(), content_type="application/json")
        stream = web.StreamResponse()
        await stream.prepare(request)
        await stream.write(line)
        return stream

    async with serving(answer) as api:
        answered = await api.call(APICall("get", PODS, "ns", "p"))
        async with api.watch(APICall("watch", PODS, "ns")) as events:
            shown = [event.object async for event in events]
    assert len(shown) == 1
    assert shown[0] is answered


@with_memos
async def test_an_answer_is_known_by_its_bytes_no_longer_than_while_it_is_among_the_last() -> None:
    names = [f"p{number}" for number in range(answers.KEPT + 1)]

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response({**POD, "metadata": {"name": request.path.rpartition("/")[2]}})

    async with serving(answer) as api:
        first = await api.call(APICall("get", PODS, "ns", names[0]))
        assert await api.call(APICall("get", PODS, "ns", names[0])) is first
        for name in names:
            await api.call(APICall("get", PODS, "ns", name))
        again = await api.call(APICall("get", PODS, "ns", names[0]))
    assert again == first
    assert again is not first


BAD_POD = {
    "metadata": {"name": "bad", "namespace": "ns", "uid": "u", "resourceVersion": "9"},
    "spec": {"volumes": [{"name": 5}]},
}
"""A pod that cannot be decoded."""


async def test_an_item_that_cannot_be_decoded_is_left_out_of_a_list_alone() -> None:
    metadata = {"resourceVersion": "12", "continue": "more"}
    answer = {"kind": "PodList", "metadata": metadata, "items": [POD, BAD_POD, None, POD]}
    async with serving(Recorder(answer)) as api:
        page = await api.call(APICall("list", PODS, ""))
    assert [pod.metadata.name for pod in page.items] == ["p", "p"]
    assert (page.resource_version, page.continue_) == ("12", "more")
    assert [str(what) for what in page.undecodable] == [
        "Pod ns/bad cannot be decoded: Expected `str`, got `int` at spec.volumes[0].name"
    ]


async def test_an_item_that_is_nested_too_deeply_is_left_out_of_a_list_alone() -> None:
    deep = '{"metadata": {"name": "deep"}, "x": ' + "[" * 3000 + "]" * 3000 + "}"
    answer = f'{{"metadata": {{"resourceVersion": "12"}}, "items": [{json.dumps(POD)}, {deep}]}}'
    async with serving(Recorder(answer)) as api:
        page = await api.call(APICall("list", PODS, ""))
    assert [pod.metadata.name for pod in page.items] == ["p"]
    assert [(what.name, what.problem) for what in page.undecodable] == [("deep", "exceeded max depth")]


async def test_a_single_object_that_cannot_be_decoded_is_an_error_with_kind_name_and_path() -> None:
    async with serving(Recorder(BAD_POD)) as api:
        with pytest.raises(UndecodableObject) as caught:
            await api.call(APICall("get", PODS, "ns", "bad"))
        with pytest.raises(UndecodableObject):
            await api.call(APICall("create", PODS, "ns", body=Pod()))
    what = caught.value.what
    assert (what.kind, what.where, what.path) == ("Pod", "ns/bad", "spec.volumes[0].name")


@pytest.mark.parametrize("answer", ["<html>sign in</html>", "[]", '{"items": 3}'])
async def test_an_answer_that_is_none_of_kubernetes_is_an_error_of_the_connection(answer: str) -> None:
    async with serving(Recorder(answer)) as api:
        with pytest.raises(MalformedAnswer):
            await api.call(APICall("list", PODS, ""))


async def test_a_watch_goes_on_past_what_cannot_be_decoded() -> None:
    deep = b'{"type": "ADDED", "object": {"metadata": {"name": "deep", "resourceVersion": "10"}, "x": %s}}\n'
    lines = (
        event("ADDED", BAD_POD),
        deep % (b"[" * 3000 + b"]" * 3000),
        event("RENAMED", {"metadata": {"resourceVersion": "11"}}),
        event("BOOKMARK", {"metadata": None}),
        event("BOOKMARK", {}),
        event("DELETED", BAD_POD),
        event("MODIFIED", POD),
    )
    async with serving(streaming(*lines)) as api, api.watch(APICall("watch", PODS, "")) as events:
        seen = [one async for one in events]
    assert [(one.type, one.object.metadata.name, one.object.metadata.resource_version) for one in seen] == [
        (EventType.BOOKMARK, "", "9"),
        (EventType.BOOKMARK, "", "10"),
        (EventType.BOOKMARK, "", "11"),
        (EventType.BOOKMARK, "", ""),
        (EventType.BOOKMARK, "", ""),
        (EventType.DELETED, "bad", "9"),
        (EventType.MODIFIED, "p", "7"),
    ]
    assert [one.undecodable and one.undecodable.name for one in seen] == ["bad", "deep", None, None, None, "bad", None]


@pytest.mark.parametrize(
    "line", [b'{"type": "ADDED"}\n', b'{"object": {}}\n', b"no JSON\n", event("ADDED", 3), event("ERROR", 5)]
)
async def test_a_malformed_line_ends_a_watch_as_a_lost_connection_does(line: bytes) -> None:
    async with serving(streaming(line)) as api:
        with pytest.raises(MalformedAnswer):
            async with api.watch(APICall("watch", PODS, "")) as events:
                [one async for one in events]


async def test_texts_of_an_object_are_read_as_go_reads_them() -> None:
    """What is no UTF-8, and half of a surrogate pair, is U+FFFD; in a list, in a watch and alone."""
    body = b'{"metadata": {"name": "p", "labels": {"a": "\\ud83d\xff"}}}'

    async def handler(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await streaming(b'{"type": "ADDED", "object": ' + body + b"}\n")(request)
        return web.Response(body=body if request.path.endswith("/p") else b'{"items": [' + body + b"]}")

    async with serving(handler) as api:
        pods = [await api.call(APICall("get", PODS, "ns", "p")), *(await api.call(APICall("list", PODS, "ns"))).items]
        async with api.watch(APICall("watch", PODS, "ns")) as events:
            pods += [one.object async for one in events]
    assert [pod.metadata.labels for pod in pods] == [{"a": "\ufffd\ufffd"}] * 3


async def test_a_session_closes_while_malformed_data_behind_an_answer_ends_its_idle_tls_connection(
    tmp_path: Path,
) -> None:
    authority = Authority.make(time.time(), "test")
    pair = authority.server(("127.0.0.1",), time.time(), name="server")
    (tmp_path / "pair").write_bytes(pair.certificate + pair.key)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "pair")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        with contextlib.suppress(OSError):
            await reader.read()
        writer.close()

    trusted = ssl.create_default_context(cadata=authority.pair.certificate.decode())
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls) as server:
        session = ClientSession()
        async with session.get(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/", ssl=trusted) as answered:
            assert answered.status == 200
        assert session.connector is not None
        ((idle, _),) = (one for kept in session.connector._conns.values() for one in kept)
        for _ in range(2):  # two reads in one turn of the loop, each of a part of what is no answer
            idle.data_received(b"\x00 malformed\r\n\r\n")
        await close_session(session)
        assert session.closed
