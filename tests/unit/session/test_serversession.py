"""The local transport, end to end: what holds in process and over HTTP holds over the socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from cathedra.api.core.core_v1 import Binding, ConfigMap, Container, ObjectReference, Pod, PodSpec
from cathedra.api.core.meta_v1 import DeleteOptions, ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.resources import CONFIGMAPS, NAMESPACES, PODS
from cathedra.client.transport import APICall, EventType, ListOptions, PatchType, WriteOptions
from cathedra.frames import FrameError, write_frame
from cathedra.session import server as session_server
from cathedra.session import serversession
from cathedra.session.protocol import PROTOCOL, Attach, Cancel, RequestMessage, RequestOptions
from cathedra.session.server import listen_on_socket
from cathedra.session.serversession import MOST_BEGUN, TURN_SECONDS, Backlog, cost
from cathedra.session.transport import SessionTransport, UnixConnection
from tests.unit.apiserver.asgi import TOKEN
from tests.unit.apiserver.lagging import TOKENS, Lagging, lagging
from tests.unit.session.serving import ADMIN, UNKNOWN, VIEWER, served

NAMED = WriteOptions(field_manager="me")


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name), data=data)


def pod(name: str) -> Pod:
    spec = PodSpec(containers=(Container(name="main", image="host"),), automount_service_account_token=False)
    return Pod(metadata=ObjectMeta(name=name), spec=spec)


async def test_every_verb_answers_as_in_process(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        local, inside = there.user(), there.server.transport()
        made = await local.call(APICall("create", CONFIGMAPS, "default", body=config_map("a", key="1"), options=NAMED))
        assert made.metadata.managed_fields[0].manager == "me"
        assert made == await inside.call(APICall("get", CONFIGMAPS, "default", "a"))
        assert await local.call(APICall("get", CONFIGMAPS, "default", "a")) == made
        changed = await local.call(
            APICall("update", CONFIGMAPS, "default", made.metadata.name, body=replace(made, data={"key": "2"}))
        )
        assert changed == await inside.call(APICall("get", CONFIGMAPS, "default", "a"))
        merged = await local.call(
            APICall("patch", CONFIGMAPS, "default", "a", body={"data": {"other": "é"}}, patch_type=PatchType.MERGE)
        )
        assert merged.data == {"key": "2", "other": "é"}
        page = await local.call(APICall("list", CONFIGMAPS, "default"))
        assert page == await inside.call(APICall("list", CONFIGMAPS, "default"))
        last = await local.call(APICall("delete", CONFIGMAPS, "default", "a", body=DeleteOptions()))
        assert last is not None
        assert last.metadata.uid == made.metadata.uid
        assert (await inside.call(APICall("list", CONFIGMAPS, "default"))).items == ()


async def test_an_apply_and_its_conflict_come_as_over_http(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        local = there.user()
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "1"}}
        await local.call(
            APICall(
                "patch",
                CONFIGMAPS,
                "default",
                "a",
                body=body,
                patch_type=PatchType.APPLY,
                options=WriteOptions(field_manager="one"),
            )
        )
        body["data"] = {"key": "2"}
        with pytest.raises(StatusError) as refused:
            await local.call(
                APICall(
                    "patch",
                    CONFIGMAPS,
                    "default",
                    "a",
                    body=body,
                    patch_type=PatchType.APPLY,
                    options=WriteOptions(field_manager="two"),
                )
            )
        assert refused.value.code == 409
        assert refused.value.causes[0].field == ".data.key"
        forced = WriteOptions(field_manager="two", force=True)
        taken = await local.call(
            APICall("patch", CONFIGMAPS, "default", "a", body=body, patch_type=PatchType.APPLY, options=forced)
        )
        assert taken.data == {"key": "2"}


async def test_a_pod_is_bound_and_the_answer_is_a_status(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        local = there.user()
        await local.call(APICall("create", PODS, "default", body=pod("p")))
        binding = Binding(metadata=ObjectMeta(name="p"), target=ObjectReference(kind="Node", name="n1"))
        answer = await local.call(APICall("create", PODS, "default", "p", "binding", body=binding))
        assert answer.status == "Success"
        assert (await local.call(APICall("get", PODS, "default", "p"))).spec.node_name == "n1"


async def test_a_namespace_that_is_named_for_a_cluster_scoped_resource_is_left_out(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        found = await there.user().call(APICall("get", NAMESPACES, "default", "kube-system"))
        assert found.metadata.name == "kube-system"


async def test_a_collection_is_deleted(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        local = there.user()
        for name in ("a", "b"):
            await local.call(APICall("create", CONFIGMAPS, "default", body=config_map(name)))
        chosen = ListOptions(field_selector="metadata.name=a")
        await local.call(APICall("deletecollection", CONFIGMAPS, "default", body=DeleteOptions(), selection=chosen))
        left = await local.call(APICall("list", CONFIGMAPS, "default"))
        assert [item.metadata.name for item in left.items] == ["b"]


async def test_lists_longer_than_a_message_come_whole_and_in_pages(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        local = there.user()
        await asyncio.gather(
            *(
                local.call(APICall("create", CONFIGMAPS, "default", body=config_map(f"m-{n:03}", key="x" * 20_000)))
                for n in range(100)
            )
        )
        everything = await local.call(APICall("list", CONFIGMAPS, "default"))
        assert [item.metadata.name for item in everything.items] == [f"m-{n:03}" for n in range(100)]
        first = await local.call(APICall("list", CONFIGMAPS, "default", selection=ListOptions(limit=60)))
        assert (len(first.items), first.remaining) == (60, 40)
        rest = await local.call(
            APICall("list", CONFIGMAPS, "default", selection=ListOptions(limit=60, continue_=first.continue_))
        )
        assert [item.metadata.name for item in (*first.items, *rest.items)] == [f"m-{n:03}" for n in range(100)]


async def test_a_watch_shows_what_is_there_and_every_change_after_it(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        local = there.user()
        await local.call(APICall("create", CONFIGMAPS, "default", body=config_map("a")))
        async with local.watch(APICall("watch", CONFIGMAPS, "default")) as events:
            assert (await anext(events)).object.metadata.name == "a"
            made = await local.call(APICall("create", CONFIGMAPS, "default", body=config_map("b")))
            await local.call(APICall("delete", CONFIGMAPS, "default", "b", body=DeleteOptions()))
            added, deleted = await anext(events), await anext(events)
        assert (added.type, deleted.type) == (EventType.ADDED, EventType.DELETED)
        assert added.object == made


async def test_a_writes_answer_and_its_event_are_one_object(tmp_path: Path) -> None:
    """Sent once, decoded once, held once, as in one process."""
    async with served(tmp_path) as there:
        writer, watcher = there.user(), there.user()
        async with watcher.watch(APICall("watch", CONFIGMAPS, "default")) as events:
            await writer.call(APICall("list", CONFIGMAPS, "default"))
            made = await writer.call(APICall("create", CONFIGMAPS, "default", body=config_map("a")))
            assert (await anext(events)).object is made


async def test_an_answer_is_what_the_store_holds_also_where_another_write_came_between(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        user = there.user()
        await user.call(APICall("create", CONFIGMAPS, "default", body=config_map("a")))
        labels = [{"metadata": {"labels": {"turn": str(turn)}}} for turn in range(8)]
        answers = await asyncio.gather(
            *(
                user.call(APICall("patch", CONFIGMAPS, "default", "a", body=one, patch_type=PatchType.MERGE))
                for one in labels
            )
        )
        assert [answer.metadata.labels["turn"] for answer in answers] == [str(turn) for turn in range(8)]
        assert len({answer.metadata.resource_version for answer in answers}) == 8
        assert await there.user().call(APICall("get", CONFIGMAPS, "default", "a")) in answers


async def test_a_watch_that_is_refused_ends_with_the_refusal(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        local = there.user()
        with pytest.raises(StatusError) as refused:
            async with local.watch(
                APICall("watch", CONFIGMAPS, "default", selection=ListOptions(resource_version="junk"))
            ) as events:
                await anext(events)
        assert refused.value.code == 500  # as kube-apiserver answers it


async def test_watches_end_with_the_server_and_requests_fail_after_it(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        local = there.user()
        async with local.watch(APICall("watch", CONFIGMAPS, "default")) as events:
            await local.call(APICall("list", CONFIGMAPS, "default"))
            await there.server.close()
            assert [event async for event in events] == []
        with pytest.raises(ConnectionError):
            await local.call(APICall("list", CONFIGMAPS, "default"))


async def test_a_lost_connection_is_made_again_with_the_next_request(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        local = there.user()
        await local.call(APICall("create", CONFIGMAPS, "default", body=config_map("a")))
        there.connection.close()
        assert (await local.call(APICall("get", CONFIGMAPS, "default", "a"))).metadata.name == "a"


async def test_a_request_without_memory_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def carry_out(*_: object) -> None:
        raise MemoryError

    async with served(tmp_path) as there:
        monkeypatch.setattr("cathedra.session.requests.Requests.carry_out", carry_out)
        with pytest.raises(
            StatusError, match="Internal error occurred: no memory, or no thread, is left for this request"
        ):
            await there.user().call(APICall("get", CONFIGMAPS, "default", "a"))


async def test_a_token_that_was_not_handed_out_opens_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        with pytest.raises(StatusError) as refused:
            await there.user(UNKNOWN).call(APICall("list", CONFIGMAPS, "default"))
        assert refused.value.code == 401
        assert (await there.user(ADMIN).call(APICall("list", NAMESPACES, ""))).items


async def test_each_user_of_a_connection_has_its_own_rights(tmp_path: Path) -> None:
    async with served(tmp_path, authorization=True) as there:
        admin, viewer = there.user(ADMIN), there.user(VIEWER)
        assert (await admin.call(APICall("list", NAMESPACES, ""))).items
        for refused in (
            viewer.call(APICall("list", NAMESPACES, "")),
            viewer.call(APICall("create", CONFIGMAPS, "default", body=config_map("a"))),
            viewer.call(APICall("delete", CONFIGMAPS, "default", "a", body=DeleteOptions())),
        ):
            with pytest.raises(StatusError, match='"viewer" cannot'):
                await refused
        with pytest.raises(StatusError, match='"viewer" cannot watch'):
            async with viewer.watch(APICall("watch", CONFIGMAPS, "default")) as events:
                await anext(events)


async def test_requests_are_audited_and_counted_as_over_http(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    async with served(tmp_path, authorization=True, audit_log=log) as there:
        await there.user(ADMIN).call(APICall("create", CONFIGMAPS, "default", body=config_map("a")))
        with pytest.raises(StatusError):
            await there.user(VIEWER).call(APICall("get", CONFIGMAPS, "default", "a"))
        counted = there.server.app.metrics.text().decode()
    made, refused = (json.loads(line) for line in log.read_text().splitlines())
    assert (made["user"]["username"], made["verb"], made["objectRef"]["name"]) == ("admin", "create", "a")
    assert (made["requestURI"], made["responseStatus"]["code"]) == ("/api/v1/namespaces/default/configmaps", 201)
    assert refused["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert refused["requestURI"] == "/api/v1/namespaces/default/configmaps/a"
    assert refused["responseStatus"]["code"] == 403
    assert 'code="201",component="apiserver",dry_run="",group="",resource="configmaps"' in counted


async def test_dry_runs_are_counted_as_over_http(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        await there.user().call(
            APICall("create", CONFIGMAPS, "default", body=config_map("a"), options=WriteOptions(dry_run=True))
        )
        counted = there.server.app.metrics.text().decode()
    assert 'code="201",component="apiserver",dry_run="All",group="",resource="configmaps"' in counted


async def test_what_is_not_served_is_counted_without_its_names(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        for name in ("gadgets", "widgets"):
            gone = msgspec.structs.replace(CONFIGMAPS, resource=name)
            with pytest.raises(StatusError):
                await there.user().call(APICall("get", gone, "default", "a"))
        counted = there.server.app.metrics.text().decode()
    assert 'dry_run="",group="",resource="",scope="",subresource="",verb="GET",version=""} 2' in counted
    assert "gadgets" not in counted


async def test_what_is_not_served_is_not_found_and_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        local = there.user()
        with pytest.raises(StatusError) as missing:
            await local.call(APICall("get", msgspec.structs.replace(CONFIGMAPS, resource="gadgets"), "default", "a"))
        assert missing.value.code == 404
        with pytest.raises(StatusError) as conflicting:
            await local.call(
                APICall("create", CONFIGMAPS, "default", body=config_map("a", key="x" * (4 * 1024 * 1024)))
            )
        assert conflicting.value.code == 413


async def test_more_requests_than_are_worked_on_at_once_are_answered_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serversession, "MOST_REQUESTS", 4)
    async with served(tmp_path) as there:
        local = there.user()
        made = await asyncio.gather(
            *(local.call(APICall("create", CONFIGMAPS, "default", body=config_map(f"m-{n}"))) for n in range(50))
        )
        assert len({one.metadata.uid for one in made}) == 50


async def test_a_cancelled_request_is_forgotten_on_both_sides(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        local = there.user()
        waiting = asyncio.create_task(local.call(APICall("create", CONFIGMAPS, "default", body=config_map("a"))))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await local.call(APICall("list", CONFIGMAPS, "default"))


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff\xff\xff\xff",  # a frame of 4 GiB
        b"\x00\x00\x00\x05hello",
        b"\x00\x00\x00\x01\x01",
        b"\x00\x00\x00\x08\x91\x94\x00\x01\x00\xa2\xff\xfe",  # a token that is no UTF-8
        b"\x00\x00\x00\x05\xdd\x00\xff\xff\xff",  # an array of 16 million messages
    ],
)
async def test_a_peer_that_breaks_the_protocol_is_cut_and_others_go_on(tmp_path: Path, sent: bytes) -> None:
    async with served(tmp_path) as there:
        reader, writer = await asyncio.open_unix_connection(there.socket)
        writer.write(sent)
        assert await reader.read() == b""
        writer.close()
        assert (await there.user().call(APICall("list", NAMESPACES, ""))).items


async def test_another_version_of_the_protocol_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path) as there:
        monkeypatch.setattr(UnixConnection, "_attachment", lambda self, user: Attach(PROTOCOL + 1, user, ADMIN))
        with pytest.raises(ConnectionError):
            await there.user().call(APICall("list", NAMESPACES, ""))


async def test_a_process_of_another_user_is_not_let_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_server, "peer_user", lambda transport: 4711)
    async with served(tmp_path) as there:
        with pytest.raises(ConnectionError):
            await there.user().call(APICall("list", NAMESPACES, ""))


async def test_a_request_id_that_is_in_use_is_cut(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        local = there.user()
        there.connection.next_id = lambda: 7  # type: ignore[method-assign]  # a client with an error
        one = asyncio.gather(
            *(local.call(APICall("create", CONFIGMAPS, "default", body=config_map("a"))) for _ in range(2))
        )
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(one, 5)


async def test_verbs_that_a_sub_resource_does_not_know_never_reach_its_object(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        local = there.user()
        await local.call(APICall("create", PODS, "default", body=pod("p")))
        for verb, subresource, code in (("delete", "proxy", 404), ("delete", "status", 405), ("create", "status", 405)):
            with pytest.raises(StatusError) as refused:
                await local.call(APICall(verb, PODS, "default", "p", subresource, msgspec.Raw(b"{}")))
            assert refused.value.code == code, (verb, subresource)
        assert (await local.call(APICall("get", PODS, "default", "p"))).metadata.name == "p"


async def test_what_an_update_leaves_alone_are_the_very_parts_that_were_stored(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        local, inside = there.user(), there.server.transport()
        made = await local.call(APICall("create", PODS, "default", body=pod("a"), options=NAMED))
        before = await inside.call(APICall("get", PODS, "default", "a"))
        labelled = replace(made, metadata=replace(made.metadata, labels={"a": "b"}))
        await local.call(APICall("update", PODS, "default", labelled.metadata.name, body=labelled, options=NAMED))
        after = await inside.call(APICall("get", PODS, "default", "a"))
        assert after.metadata.labels == {"a": "b"}
        assert after.spec is before.spec
        assert after.status is before.status


@asynccontextmanager
async def at_a_replica(folder: Path) -> AsyncIterator[tuple[Lagging, SessionTransport]]:
    """A primary, its replica, and a session of an administrator at the replica."""
    async with lagging() as servers:
        await listen_on_socket(servers.replica.server, folder / "api.sock", TOKENS)
        connection = UnixConnection(folder / "api.sock")
        try:
            yield servers, SessionTransport(connection, TOKEN, agent="tests")
        finally:
            connection.close()


async def test_what_a_replica_has_refused_is_looked_at_again(tmp_path: Path) -> None:
    namespace = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "new"}}
    async with at_a_replica(tmp_path) as (servers, user):
        await servers.behind(("POST", "/api/v1/namespaces", namespace))
        await user.call(APICall("create", CONFIGMAPS, "new", body=config_map("a")))
        await servers.behind(("DELETE", "/api/v1/namespaces/new/configmaps/a", None))
        made = await user.call(APICall("create", CONFIGMAPS, "new", body=config_map("a", key="2")))
        assert made.data == {"key": "2"}
        servers.line.questions = 0
        with pytest.raises(StatusError) as refused:
            await user.call(APICall("delete", CONFIGMAPS, "new", "none", body=DeleteOptions()))
        assert refused.value.code == 404
        assert servers.line.questions == 1


async def test_a_replica_does_not_ask_before_it_writes(tmp_path: Path) -> None:
    async with at_a_replica(tmp_path) as (servers, user):
        await user.call(APICall("list", CONFIGMAPS, "default"))
        servers.line.questions = 0
        made = await user.call(APICall("create", CONFIGMAPS, "default", body=config_map("a")))
        await user.call(
            APICall("update", CONFIGMAPS, "default", made.metadata.name, body=replace(made, data={"key": "2"}))
        )
        await user.call(APICall("delete", CONFIGMAPS, "default", "a", body=DeleteOptions()))
        assert servers.line.questions == 0


@pytest.mark.parametrize("ahead", [True, False])
async def test_a_replica_shows_what_was_acknowledged_before(tmp_path: Path, ahead: bool) -> None:
    body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}}
    async with at_a_replica(tmp_path) as (servers, user):
        await servers.behind(("POST", "/api/v1/namespaces/default/configmaps", body))
        version = str(servers.primary.server.revision) if ahead else ""
        page = await user.call(APICall("list", CONFIGMAPS, "default", selection=ListOptions(resource_version=version)))
        assert [one.metadata.name for one in page.items] == ["a"]


async def test_a_watch_at_a_replica_begins_with_what_was_acknowledged_before(tmp_path: Path) -> None:
    body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}}
    async with at_a_replica(tmp_path) as (servers, user):
        await servers.behind(("POST", "/api/v1/namespaces/default/configmaps", body))
        async with user.watch(APICall("watch", CONFIGMAPS, "default")) as events:
            assert (await anext(events)).object.metadata.name == "a"
        with pytest.raises(StatusError) as refused:
            async with user.watch(
                APICall("watch", CONFIGMAPS, "default", selection=ListOptions(resource_version="junk"))
            ) as events:
                await anext(events)
        assert refused.value.code == 500


async def test_a_collection_is_deleted_whole_at_a_replica(tmp_path: Path) -> None:
    body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}}
    async with at_a_replica(tmp_path) as (servers, user):
        await servers.behind(("POST", "/api/v1/namespaces/default/configmaps", body))
        await user.call(APICall("deletecollection", CONFIGMAPS, "default", body=DeleteOptions()))
        assert (await servers.primary("GET", "/api/v1/namespaces/default/configmaps")).json["items"] == []


async def test_a_watch_ends_when_the_primary_has_gone(tmp_path: Path) -> None:
    async with at_a_replica(tmp_path) as (servers, user):
        await user.call(APICall("list", CONFIGMAPS, "default"))
        await servers.primary.server.close()
        await servers.line.lost()
        with pytest.raises(StatusError) as refused:
            async with user.watch(APICall("watch", CONFIGMAPS, "default")) as events:
                await anext(events)
        assert refused.value.code == 503


async def test_a_watch_that_is_given_up_before_it_begins_is_forgotten(tmp_path: Path) -> None:
    async with at_a_replica(tmp_path) as (servers, user):
        servers.line.mute()
        async with user.watch(APICall("watch", CONFIGMAPS, "default")):
            await servers.line.asked.wait()
        servers.line.unmute()
        assert (await user.call(APICall("list", CONFIGMAPS, "default"))).items == ()
        counted = (await servers.replica("GET", "/metrics")).body.decode().splitlines()
        (watches,) = (line for line in counted if line.startswith("apiserver_request_total") and 'verb="WATCH"' in line)
        assert 'code="499"' in watches


def request(number: int, verb: str = "get", body: bytes = b"") -> RequestMessage:
    return RequestMessage(number, 1, verb, "", "v1", "pods", "default", "p", "", 0, RequestOptions(), body)


def test_messages_come_in_their_order_however_their_bytes_arrive() -> None:
    sent = [Attach(PROTOCOL, 1, "token"), request(1), Cancel(1), request(2)]
    data = bytes(write_frame(sent[:2])) + bytes(write_frame(sent[2:]))
    backlog = Backlog()
    found = []
    for position in range(0, len(data), 7):
        backlog.add(data[position : position + 7])
        while (message := backlog.next()) is not None:
            found.append(message)
    assert found == sent


def test_messages_that_are_read_wait_until_they_are_taken_or_dropped() -> None:
    backlog = Backlog()
    backlog.add(bytes(write_frame([request(1), request(2), request(3)])))
    assert backlog.next() == request(1)
    assert len(backlog) == 2
    backlog.clear()
    assert (len(backlog), backlog.next()) == (0, None)


def test_what_is_no_message_is_an_error() -> None:
    backlog = Backlog()
    backlog.add(b"\x00\x00\x00\x02{}")
    with pytest.raises(FrameError):
        backlog.next()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (Cancel(1), 1),
        (request(1), 1),
        (request(1, "list"), 16),
        (request(1, "watch"), 16),
        (request(1, "create", b"x" * 64 * 1024), 5),
    ],
)
def test_lists_watches_and_large_bodies_cost_more(message: RequestMessage | Cancel, expected: int) -> None:
    assert cost(message) == expected


def test_the_allowance_of_a_turn_follows_how_long_turns_take() -> None:
    backlog = Backlog()
    now = 0.0
    for _ in range(10):
        backlog.end_turn(now)
        backlog.begin_turn(now)
    assert backlog.allowance == MOST_BEGUN
    for _ in range(10):
        backlog.end_turn(now)
        now += TURN_SECONDS * 2
        backlog.begin_turn(now)
    assert backlog.allowance == 1
