"""Sessions over the port: what holds over HTTP holds in them, for as long as the credential does."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import ssl
import stat
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cathedra.api.core import resource_v1beta1
from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import DeleteOptions, ObjectMeta, StatusDetails
from cathedra.api.resource import ResourceSlice
from cathedra.api.scheme import kind_of
from cathedra.api.status import StatusError, failure
from cathedra.api.struct import from_dict, replace
from cathedra.apiserver.http.request import BODY_LIMIT as HTTP_LIMIT
from cathedra.apiserver.pipeline import pipeline
from cathedra.apiserver.server import APIServer
from cathedra.asgi.upgrade import SESSION
from cathedra.client.http import HTTPTransport
from cathedra.client.resources import CONFIGMAPS, DEPLOYMENTS, NAMESPACES, RESOURCESLICES
from cathedra.client.transport import APICall, EventType, ListOptions, PatchType, ResourceRef, Transport, WriteOptions
from cathedra.frames import BODY_LIMIT, MOST_ASKED, MessageReader, write_frame
from cathedra.releases import RELEASES, order
from cathedra.session import answers, requests, serversession, watches
from cathedra.session import server as session_server
from cathedra.session.connection import SessionConnection
from cathedra.session.protocol import (
    PROTOCOL,
    SESSION_PATH,
    Attach,
    EventMessage,
    FromServer,
    RequestMessage,
    RequestOptions,
)
from cathedra.session.requests import request_info_of
from cathedra.session.server import listen_on_socket
from cathedra.session.serversession import MOST_BEGUN
from cathedra.session.transport import SessionTransport, UnixConnection
from tests.unit.session.serving import ADMIN, TOKENS, UNKNOWN, VIEWER, Networked, networked, served

WRITE = WriteOptions()
EVERYTHING = ListOptions()
SWITCHED = b"HTTP/1.1 101 "


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name), data=data)


async def asked(
    there: Networked, *headers: str, path: str = SESSION_PATH, protocol: bytes = SESSION
) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
    """The head of the answer to a question for the upgrade, and the connection."""
    pki = there.server.pki
    assert pki is not None
    context = ssl.create_default_context(cadata=pki.authority_certificate.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", there.server.port, ssl=context)
    lines = (f"GET {path} HTTP/1.1", "Host: x", "Connection: Upgrade", f"Upgrade: {protocol.decode()}", *headers)
    writer.write("\r\n".join((*lines, "", "")).encode())
    return await reader.readuntil(b"\r\n\r\n"), reader, writer


def sessions_of(server: APIServer) -> list[Any]:
    """The sessions that are open."""
    endpoint: Any = server.upgrades[SESSION_PATH]
    return [session for sessions in endpoint.__self__._open.values() for session in sessions]


async def until(condition: Callable[[], object]) -> None:
    """Wait for what another connection does."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 60
    while not condition():
        assert loop.time() < deadline
        await asyncio.sleep(0.01)


def test_the_name_of_the_protocol_says_the_version_of_its_messages() -> None:
    assert SESSION.decode().rpartition("/")[2] == str(PROTOCOL)


def test_bodies_have_the_limit_that_they_have_over_http() -> None:
    assert BODY_LIMIT == HTTP_LIMIT


def normal(answer: Any, namespace: str, *, owners: bool) -> Any:
    """An answer without what differs between two namespaces, and between two writes."""
    if isinstance(answer, StatusError):
        return answer.code, answer.reason, answer.status.message.replace(namespace, "NS")
    if isinstance(answer, ConfigMap):
        metadata = answer.metadata
        managers = [(one.manager, one.operation, one.fields_v1) for one in metadata.managed_fields] if owners else ()
        return metadata.name, metadata.labels, tuple(managers), answer.data
    items = [normal(item, namespace, owners=owners) for item in getattr(answer, "items", ())]
    return items, getattr(answer, "remaining", None), bool(getattr(answer, "continue_", ""))


def drawn(source: random.Random) -> Callable[[Transport, str], Any]:
    """A call, to be made over several ways in a namespace for each."""
    name, value = source.choice("abcd"), source.choice("xyz")
    options = source.choice(
        (WRITE, WriteOptions(field_manager="one"), WriteOptions(dry_run=True), WriteOptions(field_manager="x" * 200))
    )
    selection = source.choice((EVERYTHING, ListOptions(limit=1), ListOptions(label_selector="l=x"), ListOptions("(")))
    patched = source.choice((PatchType.MERGE, PatchType.STRATEGIC, PatchType.APPLY, PatchType.JSON))
    body: Any = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}}
    if patched is PatchType.JSON:
        body = [{"op": "add", "path": "/metadata/labels", "value": {"l": value}}]

    async def update(way: Transport, namespace: str) -> Any:
        found = await way.call(APICall("get", CONFIGMAPS, namespace, name))
        return await way.call(
            APICall(
                "update",
                CONFIGMAPS,
                namespace,
                found.metadata.name,
                body=replace(found, data={"key": value}),
                options=options,
            )
        )

    calls: tuple[Callable[[Transport, str], Any], ...] = (
        lambda way, namespace: way.call(APICall("get", CONFIGMAPS, namespace, name)),
        lambda way, namespace: way.call(APICall("list", CONFIGMAPS, namespace, selection=selection)),
        lambda way, namespace: way.call(
            APICall("create", CONFIGMAPS, namespace, body=config_map(name, key=value), options=options)
        ),
        lambda way, namespace: way.call(
            APICall("create", CONFIGMAPS, namespace, body=config_map("Not a name"), options=options)
        ),
        update,
        lambda way, namespace: way.call(
            APICall("patch", CONFIGMAPS, namespace, name, body=body, patch_type=patched, options=options)
        ),
        lambda way, namespace: way.call(
            APICall("deletecollection", CONFIGMAPS, namespace, body=DeleteOptions(), selection=selection)
        ),
    )
    return source.choices(calls, (2, 3, 5, 1, 4, 6, 1))[0]


@pytest.mark.parametrize("seed", range(3))
async def test_the_same_calls_have_the_same_answers_over_http_socket_and_session(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    async with networked(tmp_path) as there, there.user() as session_way:
        await listen_on_socket(there.server, tmp_path / "api.sock", TOKENS)
        connection = UnixConnection(tmp_path / "api.sock")
        async with await HTTPTransport.open(there.target(), user_agent="tests") as http:
            ways = {"kube-public": http, "kube-node-lease": session_way, "default": SessionTransport(connection, ADMIN)}
            for _ in range(60):
                call = drawn(source)
                answers = {}
                for namespace, way in ways.items():
                    try:
                        answers[namespace] = await call(way, namespace)
                    except StatusError as error:
                        answers[namespace] = error
                http_answer, session_answer, _ = (normal(one, ns, owners=True) for ns, one in answers.items())
                assert session_answer == http_answer
                over_http, _, over_socket = (normal(one, ns, owners=False) for ns, one in answers.items())
                assert over_socket == over_http
        connection.close()
        assert sessions_of(there.server)


async def test_every_verb_goes_over_the_session(tmp_path: Path) -> None:
    async with networked(tmp_path) as there, there.user() as way:
        made = await way.call(APICall("create", CONFIGMAPS, "default", body=config_map("a", key="1")))
        assert made.metadata.managed_fields[0].manager == "tests"
        assert await way.call(APICall("get", CONFIGMAPS, "default", "a")) == made
        async with way.watch(APICall("watch", CONFIGMAPS, "default")) as events:
            assert (await anext(events)).object == made
            changed = await way.call(
                APICall("update", CONFIGMAPS, "default", made.metadata.name, body=replace(made, data={"key": "2"}))
            )
            seen = await anext(events)
            assert (seen.type, seen.object) == (EventType.MODIFIED, changed)
            await way.call(APICall("delete", CONFIGMAPS, "default", "a", body=DeleteOptions()))
            assert (await anext(events)).type is EventType.DELETED
        counted = there.server.app.metrics.text().decode()
    assert 'code="101"' in counted
    assert 'code="201",component="apiserver",dry_run="",group="",resource="configmaps"' in counted


async def test_lists_come_in_pieces_and_in_pages(tmp_path: Path) -> None:
    async with networked(tmp_path) as there, there.user() as way:
        await asyncio.gather(
            *(
                way.call(APICall("create", CONFIGMAPS, "default", body=config_map(f"m-{n:03}", key="x" * 20_000)))
                for n in range(80)
            )
        )
        everything = await way.call(APICall("list", CONFIGMAPS, "default"))
        assert [item.metadata.name for item in everything.items] == [f"m-{n:03}" for n in range(80)]
        first = await way.call(APICall("list", CONFIGMAPS, "default", selection=ListOptions(limit=50)))
        assert (len(first.items), first.remaining) == (50, 30)


async def test_what_sessions_do_not_serve_is_asked_over_http(tmp_path: Path) -> None:
    async with networked(tmp_path) as there, there.user() as way:
        with pytest.raises(StatusError) as missing:
            await way.call(APICall("get", DEPLOYMENTS, "default", "none", subresource="scale"))
        assert missing.value.status.details is not None
        assert missing.value.status.details.name == "none"
        gadgets = msgspec.structs.replace(CONFIGMAPS, resource="gadgets")
        with pytest.raises(StatusError) as unknown:
            await way.call(APICall("get", gadgets, "default", "none"))
        assert unknown.value.code == 404
        with pytest.raises(StatusError) as watched:
            async with way.watch(APICall("watch", gadgets, "default")) as events:
                await anext(events)
        assert watched.value.code == 404
        assert b'"gitVersion"' in await way.get_raw("/version")
        await way.call(
            APICall(
                "create", CONFIGMAPS, "default", body=config_map("q"), options=WriteOptions(query={"pretty": "true"})
            )
        )


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ((), 401),
        ((f"Authorization: Bearer {UNKNOWN}",), 401),
        ((f"Authorization: Bearer {ADMIN}", "Impersonate-User: jane"), 400),
    ],
)
async def test_who_is_not_known_or_means_somebody_else_gets_no_session(
    tmp_path: Path, headers: tuple[str, ...], status: int
) -> None:
    async with networked(tmp_path) as there:
        head, _, writer = await asked(there, *headers)
        writer.close()
        assert head.startswith(f"HTTP/1.1 {status} ".encode())
        assert not sessions_of(there.server)


async def test_another_protocol_or_path_is_answered_as_ever(tmp_path: Path) -> None:
    credential = f"Authorization: Bearer {ADMIN}"
    async with networked(tmp_path) as there:
        for changed in ({"protocol": b"cathedra-session/3"}, {"path": "/api/other"}):
            head, _, writer = await asked(there, credential, **changed)  # type: ignore[arg-type]  # one of both
            writer.close()
            assert head.startswith(b"HTTP/1.1 404 ")


async def test_one_user_has_a_number_of_sessions_and_speaks_http_beyond_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_server, "MOST_SESSIONS", 1)
    async with networked(tmp_path) as there, there.user() as one, there.user() as two, there.user(VIEWER) as other:
        for way in (one, two, other):
            assert (await way.call(APICall("list", NAMESPACES, ""))).items
        assert len(sessions_of(there.server)) == 2


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff\xff\xff\xff",
        (MOST_ASKED + 1).to_bytes(4, "big"),
        b"\x00\x00\x00\x05hello",
        b"\x00\x00\x00\x05\xdd\x00\xff\xff\xff",
    ],
)
async def test_what_is_no_frame_or_too_large_a_one_ends_the_session(tmp_path: Path, sent: bytes) -> None:
    async with networked(tmp_path) as there, there.user() as way:
        head, reader, writer = await asked(there, f"Authorization: Bearer {ADMIN}")
        assert head.startswith(SWITCHED)
        writer.write(sent)
        assert await reader.read() == b""
        writer.close()
        assert (await way.call(APICall("list", NAMESPACES, ""))).items


async def test_no_other_token_opens_anything_in_a_session(tmp_path: Path) -> None:
    """The session belongs to the user who opened it; a token of another user is refused."""
    async with networked(tmp_path) as there:
        head, reader, writer = await asked(there, f"Authorization: Bearer {VIEWER}")
        assert head.startswith(SWITCHED)
        question = RequestMessage(1, 0, "list", "", "v1", "namespaces", "", "", "", 0, RequestOptions())
        writer.write(write_frame([Attach(PROTOCOL, 0, ADMIN), question]))
        answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        writer.close()
        assert b'"code":401' in answer


async def test_a_body_that_is_too_large_is_refused_as_over_http(tmp_path: Path) -> None:
    large = config_map("a", key="x" * HTTP_LIMIT)
    async with networked(tmp_path) as there, there.user() as way:
        with pytest.raises(StatusError) as refused:
            await way.call(APICall("create", CONFIGMAPS, "default", body=large))
        async with await HTTPTransport.open(there.target()) as http:
            with pytest.raises(StatusError) as over_http:
                await http.call(APICall("create", CONFIGMAPS, "default", body=large))
    assert normal(refused.value, "", owners=True) == normal(over_http.value, "", owners=True)


async def test_too_many_watches_of_a_session_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "MOST_WATCHES", 1)
    async with networked(tmp_path) as there, there.user() as way, way.watch(APICall("watch", NAMESPACES, "")) as first:
        await anext(first)
        with pytest.raises(StatusError) as refused:
            async with way.watch(APICall("watch", NAMESPACES, "")) as second:
                await anext(second)
        assert refused.value.code == 429


async def test_a_client_that_takes_nothing_is_held_up_and_then_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "SLOW_SECONDS", 0.5)
    monkeypatch.setattr(answers, "_BUFFERED", 64 * 1024)
    async with networked(tmp_path) as there, there.user() as way:
        await asyncio.gather(
            *(
                way.call(APICall("create", CONFIGMAPS, "default", body=config_map(f"m-{n}", key="x" * 100_000)))
                for n in range(10)
            )
        )
        head, reader, writer = await asked(there, f"Authorization: Bearer {ADMIN}")
        assert head.startswith(SWITCHED)
        reader._transport.pause_reading()  # type: ignore[attr-defined]  # a client that does not read
        before = set(sessions_of(there.server))
        lists = [
            RequestMessage(number, 0, "list", "", "v1", "configmaps", "default", "", "", number, RequestOptions())
            for number in range(200)
        ]
        writer.write(write_frame([Attach(PROTOCOL, 0, ""), *lists]))
        await until(lambda: any(one._sender.is_slow for one in before))
        slow = next(one for one in before if one._sender.is_slow)
        waiting = len(slow._backlog)
        assert waiting > 100, "what is left is not worked on"
        assert len(slow._tasks) <= serversession.MOST_LISTS
        assert slow._transport.get_write_buffer_size() < 8 * 1024 * 1024
        await until(lambda: slow not in sessions_of(there.server))
        writer.close()
        assert (await way.call(APICall("list", NAMESPACES, ""))).items


async def frame_of(there: Networked, messages: list[Any]) -> tuple[Any, asyncio.StreamReader, asyncio.StreamWriter]:
    """A session that is sent one frame, and its connection, which does not read."""
    before = set(sessions_of(there.server))
    head, reader, writer = await asked(there, f"Authorization: Bearer {ADMIN}")
    assert head.startswith(SWITCHED)
    reader._transport.pause_reading()  # type: ignore[attr-defined]
    (made,) = set(sessions_of(there.server)) - before
    writer.write(write_frame([Attach(PROTOCOL, 0, ""), *messages]))
    return made, reader, writer


def asking(verb: str, count: int, resource: str = "configmaps", group: str = "", version: str = "v1") -> list[Any]:
    """Send a number of requests of one kind."""
    return [
        RequestMessage(number, 0, verb, group, version, resource, "", "", "", number, RequestOptions())
        for number in range(1, count + 1)
    ]


async def test_a_frame_of_lists_leaves_turns_of_the_loop_to_others(tmp_path: Path) -> None:
    async with networked(tmp_path) as there:
        made, reader, writer = await frame_of(there, asking("list", 2000, "namespaces"))
        await until(lambda: made._backlog or made._tasks)
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        turns, most = 0, 0
        while made._backlog or made._tasks:
            await asyncio.sleep(0)
            turns, most = turns + 1, max(most, len(made._tasks))
        assert turns >= 2000 * 16 // MOST_BEGUN // 2
        assert most <= serversession.MOST_LISTS
        writer.close()


async def test_watches_that_are_not_read_hold_no_more_than_a_few_tables(tmp_path: Path) -> None:
    async with networked(tmp_path) as there, there.user() as way:
        for number in range(20):
            await way.call(APICall("create", CONFIGMAPS, "default", body=config_map(f"m-{number}", key="x" * 500_000)))
        made, _, writer = await frame_of(there, asking("watch", 2000))
        await until(lambda: made._sender.is_slow)
        await asyncio.sleep(0.1)
        assert len(made._watches) <= 2 * serversession.MOST_LISTS
        assert len(made._backlog) > 1000
        assert made._transport.get_write_buffer_size() < 8 * 1024 * 1024
        writer.close()


async def test_all_watches_of_a_frame_begin_where_the_client_reads(tmp_path: Path) -> None:
    async with networked(tmp_path) as there, there.user() as way:
        for number in range(3):
            await way.call(APICall("create", CONFIGMAPS, "default", body=config_map(f"m-{number}")))
        made, reader, writer = await frame_of(there, asking("watch", 500))
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        await until(lambda: made.watches == 500 and not made._watches.beginning and not made._watches._ready)
        shown = MessageReader(FromServer)
        messages: list[Any] = []
        await way.call(APICall("create", CONFIGMAPS, "default", body=config_map("last")))
        while sum(type(one) is EventMessage for one in messages) < 4 * 500:
            async with asyncio.timeout(60):
                data = await reader.read(1 << 16)
            messages += [message for batch in shown.feed(data) for message in batch]
        writer.close()


async def test_a_watch_takes_a_seat_until_its_first_events_are_sent(tmp_path: Path) -> None:
    async with networked(tmp_path, seats=1) as there, there.user(VIEWER) as viewer:
        await viewer.call(APICall("list", NAMESPACES, ""))
        app: Any = there.server.app
        question = RequestMessage(1, 0, "watch", "", "v1", "namespaces", "", "", "", 0, RequestOptions())
        level = app.pipeline.flow.classify(TOKENS[VIEWER], request_info_of(question)).level
        assert level.acquire()
        async with viewer.watch(APICall("watch", NAMESPACES, "")) as events:
            first: asyncio.Future[Any] = asyncio.ensure_future(anext(events))
            await until(lambda: level.waiting == 1)
            level.release()
            assert (await first).object.metadata.name
            await until(lambda: level.taken == 0)


@pytest.mark.parametrize(
    ("group", "version", "resource"),
    [
        ("authorization.k8s.io", "v1", "selfsubjectaccessreviews"),
        ("authentication.k8s.io", "v1", "tokenreviews"),
        ("", "v1", "componentstatuses"),
        ("", "v1", "bindings"),
    ],
)
@pytest.mark.parametrize("verb", ["watch", "list", "get", "delete", "deletecollection", "patch", "update"])
async def test_what_is_not_stored_is_refused_and_the_session_goes_on(
    tmp_path: Path, group: str, version: str, resource: str, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with networked(tmp_path) as there:
        made, reader, writer = await frame_of(there, asking(verb, 1, resource, group, version))
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(60):
            assert await reader.read(1)
        assert made._transport is not None
        writer.close()
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_session_that_has_ended_leaves_nothing_to_the_collector(tmp_path: Path) -> None:
    """An agent may have megabytes, and a session 64 of them."""
    agents = [Attach(PROTOCOL, number, "", "a" * 300_000) for number in range(1, 16)]
    async with networked(tmp_path) as there:

        async def session_with_agents() -> None:
            made, _, writer = await frame_of(there, [*agents, *asking("watch", 3, "namespaces")])
            await until(lambda: len(made._watches) == 3)
            assert all(len(user.agent) < 2000 for user in made._users.values())
            writer.close()
            await until(lambda: made._transport is None)

        await session_with_agents()
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(4):
                await session_with_agents()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            gc.enable()
    assert after - before < 4_000_000


async def test_requests_wait_for_a_seat_and_administrators_do_not(tmp_path: Path) -> None:
    async with networked(tmp_path, seats=1) as there, there.user(VIEWER) as viewer, there.user() as admin:
        await viewer.call(APICall("list", NAMESPACES, ""))
        app: Any = there.server.app
        question = RequestMessage(1, 0, "list", "", "v1", "namespaces", "", "", "", 0, RequestOptions())
        level = app.pipeline.flow.classify(TOKENS[VIEWER], request_info_of(question)).level
        assert level.acquire()
        waiting = asyncio.create_task(viewer.call(APICall("list", NAMESPACES, "")))
        await until(lambda: level.waiting == 1)
        assert (await admin.call(APICall("list", NAMESPACES, ""))).items
        assert not waiting.done()
        level.release()
        assert (await waiting).items
        assert level.taken == 0


async def test_a_refusal_that_says_when_to_ask_again_is_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with networked(tmp_path) as there, there.user() as way:
        await way.call(APICall("list", NAMESPACES, ""))
        busy = [failure(429, "TooManyRequests", "busy", StatusDetails(retry_after_seconds=1))]
        real = requests.Requests.carry_out

        def sometimes(*arguments: Any) -> Any:
            if busy:
                raise busy.pop()
            return real(*arguments)

        monkeypatch.setattr(requests.Requests, "carry_out", sometimes)
        assert (await way.call(APICall("list", NAMESPACES, ""))).items


async def test_a_write_that_may_have_been_carried_out_is_not_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with networked(tmp_path) as there, there.user() as way:
        await way.call(APICall("list", NAMESPACES, ""))
        lost = [failure(504, "Timeout", "the request may have been carried out", StatusDetails(retry_after_seconds=1))]
        real = requests.Requests.carry_out

        def sometimes(*arguments: Any) -> Any:
            if lost:
                raise lost.pop()
            return real(*arguments)

        monkeypatch.setattr(requests.Requests, "carry_out", sometimes)
        with pytest.raises(StatusError, match="may have been carried out"):
            await way.call(APICall("create", CONFIGMAPS, "default", body=config_map("a")))
        await way.call(APICall("create", CONFIGMAPS, "default", body=config_map("a")))


async def test_a_write_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with networked(tmp_path) as there, there.user() as way:
        await way.call(APICall("list", NAMESPACES, ""))
        monkeypatch.setattr(pipeline, "REQUEST_SECONDS", 0.05)
        monkeypatch.setattr(requests.Requests, "carry_out", lambda *_: asyncio.sleep(60))
        with pytest.raises(StatusError) as ended:
            await way.call(APICall("create", CONFIGMAPS, "default", body=config_map("a")))
        assert (ended.value.code, ended.value.reason) == (504, "Timeout")


async def test_a_session_ends_with_its_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_server, "CREDENTIAL_SECONDS", 0.05)
    async with networked(tmp_path) as there, there.user(VIEWER) as way:
        async with way.watch(APICall("watch", NAMESPACES, "")) as events:
            await anext(events)
            known: Any = there.server.context.static_tokens
            del known._tokens[VIEWER]
            async with asyncio.timeout(60):
                async for _ in events:
                    pass  # what was there, and the end
        await until(lambda: not sessions_of(there.server))
        with pytest.raises(StatusError) as refused:
            await way.call(APICall("list", NAMESPACES, ""))
        assert refused.value.code == 401


async def test_the_end_of_a_session_is_not_noticed_but_by_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_server, "SHORTEST_LIFE", 0.1)
    monkeypatch.setattr(session_server, "LONGEST_LIFE", 0.2)
    async with networked(tmp_path) as there, there.user() as way:
        ended, seen, version = 0, set(), ""
        writing = asyncio.gather(*(written(way, start) for start in range(0, 400, 100)))
        async with asyncio.timeout(120):
            while len(seen) < 400:
                async with way.watch(
                    APICall("watch", CONFIGMAPS, "default", selection=ListOptions(resource_version=version))
                ) as events:
                    async for event in events:
                        version = event.object.metadata.resource_version
                        if event.type is not EventType.BOOKMARK:
                            seen.add(event.object.metadata.name)
                        if len(seen) == 400:
                            break
                ended += 1
        await writing
        assert ended > 2
        assert len(sessions_of(there.server)) <= 2


async def test_a_session_that_ends_before_it_is_used_gives_way_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_server, "SHORTEST_LIFE", 0.1)
    monkeypatch.setattr(session_server, "LONGEST_LIFE", 0.2)
    connected = SessionConnection._connected
    ended: list[SessionConnection] = []

    async def late(connection: SessionConnection) -> None:
        await connected(connection)
        if len(ended) % 2 == 0:
            ended.append(connection)
            await until(lambda: connection.retiring and connection._transport is None)
        else:
            ended.append(connection)

    monkeypatch.setattr(SessionConnection, "_connected", late)
    async with networked(tmp_path) as there, there.user() as way, asyncio.timeout(120):
        assert (await way.call(APICall("list", NAMESPACES, ""))).items
        async with way.watch(APICall("watch", NAMESPACES, "")) as events:
            await anext(events)
    assert len(ended) > 1


async def written(way: Transport, start: int) -> None:
    for number in range(start, start + 100):
        await way.call(APICall("create", CONFIGMAPS, "default", body=config_map(f"m-{number}")))
        await asyncio.sleep(0.005)


async def test_a_quiet_watch_is_told_how_far_it_has_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "BOOKMARK_SECONDS", 0.05)
    async with (
        networked(tmp_path) as there,
        there.user() as way,
        way.watch(APICall("watch", CONFIGMAPS, "default")) as events,
        asyncio.timeout(60),
    ):
        made = await way.call(APICall("create", CONFIGMAPS, "kube-public", body=config_map("elsewhere")))
        async for event in events:
            assert event.type is EventType.BOOKMARK
            if int(event.object.metadata.resource_version) >= int(made.metadata.resource_version):
                break


async def test_a_busy_watch_gets_bookmarks_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "BOOKMARK_SECONDS", 0.05)
    async with (
        networked(tmp_path) as there,
        there.user() as way,
        way.watch(APICall("watch", CONFIGMAPS, "default")) as events,
        asyncio.timeout(60),
    ):
        writing = asyncio.create_task(written(way, 0))
        seen = [(await anext(events)).type for _ in range(60)]
        assert {EventType.ADDED, EventType.BOOKMARK} <= set(seen)
        await writing


async def test_requests_are_audited_with_user_agent_and_address(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    async with networked(tmp_path, authorization=True, audit_log=log) as there, there.user(VIEWER) as way:
        with pytest.raises(StatusError, match='"viewer" cannot'):
            await way.call(APICall("create", CONFIGMAPS, "default", body=config_map("a")))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    opened = next(line for line in lines if line["requestURI"] == SESSION_PATH)
    assert opened["responseStatus"]["code"] == 101
    refused = next(line for line in lines if line["requestURI"].endswith("/configmaps"))
    assert refused["sourceIPs"] == ["127.0.0.1"]
    assert refused["userAgent"].startswith("tests/")
    assert refused["responseStatus"]["code"] == 403


async def test_a_server_that_comes_back_is_found_again(tmp_path: Path) -> None:
    async with networked(tmp_path) as first, first.user() as way:
        await way.call(APICall("list", NAMESPACES, ""))
        async with way.watch(APICall("watch", NAMESPACES, "")) as events:
            await anext(events)
            await first.server.close()
            async with asyncio.timeout(60):
                async for _ in events:
                    pass
        with pytest.raises(ConnectionError):
            await way.call(APICall("list", NAMESPACES, ""))
        async with networked(tmp_path, port=first.server.port) as second:
            assert (await way.call(APICall("list", NAMESPACES, ""))).items
            assert sessions_of(second.server)


def slice_of(release: str) -> ResourceSlice | resource_v1beta1.ResourceSlice:
    """A slice with fields of 1.37 and 1.33, in a version that the release serves."""
    devices = [{"name": "x", "taints": [{"key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}]}]
    spec = {
        "driver": "d.example.com",
        "nodeName": "n",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "skipNodeOperations": ["All"],
        "devices": devices,
    }
    if order(release) >= order("1.34"):
        return from_dict(ResourceSlice, {"metadata": {"name": "a"}, "spec": spec})
    basic = [{"name": "x", "basic": {"taints": devices[0]["taints"]}}]
    return from_dict(resource_v1beta1.ResourceSlice, {"metadata": {"name": "a"}, "spec": spec | {"devices": basic}})


@pytest.mark.parametrize("release", [release for release in RELEASES if order(release) >= order("1.32")])
async def test_a_session_stores_the_fields_that_its_release_stores_over_http(tmp_path: Path, release: str) -> None:
    """A driver that sets a field of 1.37 must not store it in a server of 1.36, whichever way it comes."""
    given = slice_of(release)
    api = kind_of(type(given))
    ref: ResourceRef[Any] = ResourceRef(api.group, api.version, "resourceslices", api.kind, False, type(given))
    gates = {"DynamicResourceAllocation": True} if order(release) < order("1.34") else {}
    config = {f"{api.group}/{api.version}": True}
    async with (
        networked(tmp_path, release=release, gates=gates, runtime_config=config) as there,
        there.user() as session_way,
        await HTTPTransport.open(there.target(), user_agent="tests") as http,
    ):
        stored = []
        for way in (session_way, http):
            created = await way.call(APICall("create", ref, "", body=given))
            updated = await way.call(
                APICall("update", ref, "", given.metadata.name, body=replace(given, metadata=created.metadata))
            )
            stored.append((created.spec, updated.spec))
            await way.call(APICall("delete", ref, "", "a", body=DeleteOptions()))
        assert len(sessions_of(there.server)) == 1
    assert stored[0] == stored[1]


@pytest.mark.parametrize("strict", ["Strict", "Warn"])
async def test_strict_validation_refuses_such_fields_in_sessions_as_over_http(tmp_path: Path, strict: str) -> None:
    options = WriteOptions(field_validation=strict)
    answers = []
    async with (
        networked(tmp_path, release="1.36") as there,
        there.user() as session_way,
        await HTTPTransport.open(there.target(), user_agent="tests") as http,
    ):
        for way in (session_way, http):
            try:
                answers.append(
                    (await way.call(APICall("create", RESOURCESLICES, "", body=slice_of("1.36"), options=options))).spec
                )
            except StatusError as error:
                answers.append((error.code, error.status.message))
            else:
                await way.call(APICall("delete", RESOURCESLICES, "", "a", body=DeleteOptions()))
    assert answers[0] == answers[1]


async def test_releases_in_which_drivers_allocate_have_no_sessions(tmp_path: Path) -> None:
    async with networked(tmp_path, release="1.31") as there:
        head, _, writer = await asked(there, f"Authorization: Bearer {ADMIN}")
        writer.close()
    assert head.startswith(b"HTTP/1.1 404 ")


async def test_the_socket_is_for_its_owner_alone_and_goes_with_the_server(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        assert stat.S_IMODE(there.socket.stat().st_mode) == 0o600
    assert not there.socket.exists()


async def test_a_socket_that_a_killed_server_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "api.sock").touch()
    async with served(tmp_path) as there:
        assert (await there.user().call(APICall("list", NAMESPACES, ""))).items
