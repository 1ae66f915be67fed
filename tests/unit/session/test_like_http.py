"""A session is HTTP in other bytes: the same call has the same answer, the same audit event and the same metrics."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import pytest

from cathedra.api.scheme import GroupVersionKind
from cathedra.api.status import failure
from cathedra.apiserver.authentication.authenticator import StaticTokens
from cathedra.apiserver.authentication.user import MASTERS_GROUP, UserInfo
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.pipeline import pipeline
from cathedra.apiserver.pipeline.audit import load_policy
from cathedra.apiserver.pipeline.operations import ResourceOperations
from cathedra.apiserver.server import APIServer
from cathedra.frames import MessageReader, write_frame
from cathedra.session.protocol import (
    PATCH_TYPES,
    PROTOCOL,
    Attach,
    EndMessage,
    FailureMessage,
    FromServer,
    ListMessage,
    ObjectMessage,
    PlainMessage,
    RequestMessage,
    RequestOptions,
)
from cathedra.session.requests import SessionContext, request_info_of, request_path, with_kind
from cathedra.session.server import requests_of
from cathedra.session.serversession import ServerSession
from tests.unit.apiserver.asgi import Answer, ASGIClient

AGENT: Final = "part/1.0"
POLICY: Final = "{kind: Policy, rules: [{level: RequestResponse}]}"
USERS: Final = {
    "of an administrator": UserInfo("root", (MASTERS_GROUP,)),
    "of a viewer": UserInfo("viewer"),
    "of a stranger": UserInfo("stranger"),
}
READ: Final = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}
ROLES: Final = "/apis/rbac.authorization.k8s.io/v1"
BODIES: Final = (
    b"",
    b"[]",
    b"null",
    b"nonsense",
    b'"text"',
    b'{"data":1}',
    b'{"data":{"key":1}}',
    b'{"metadata":{"name":7}}',
    b'{"metadata":{"labels":["a"]}}',
    b'{"data":{"key":"\xff"}}',
    b'{"metadata":{"creationTimestamp":"yesterday"}}',
)
"""Bodies that do not decode."""


class StillClock:
    """A clock that stands still, so that two servers give the same objects and events."""

    def now(self) -> float:
        return 1_700_000_000.0

    def monotonic(self) -> float:
        return 1.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Wire:
    """The server's side of a connection in memory."""

    def __init__(self) -> None:
        self._reader = MessageReader(FromServer)
        self.received: list[Any] = []
        self.answered = asyncio.Event()

    def get_extra_info(self, name: str) -> object:
        return name == "ssl_object"

    def write(self, data: bytes) -> None:
        for batch in self._reader.feed(bytes(data)):
            self.received.extend(batch)
        self.answered.set()

    def writelines(self, parts: list[bytes]) -> None:
        self.write(b"".join(parts))

    def is_closing(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass


class Caller:
    """One server, called over HTTP and by a session."""

    def __init__(self, server: APIServer, log: Path) -> None:
        self.server = server
        self.asgi = ASGIClient(server)
        self._log = log
        self._seen = 0
        self._wire = Wire()
        context = SessionContext(requests_of(server), StaticTokens(USERS), limited=True, source="127.0.0.1")
        self._session = ServerSession(context, set())
        wire: Any = self._wire
        self._session.connection_made(wire)
        for number, token in enumerate(USERS):
            self._session.data_received(bytes(write_frame([Attach(PROTOCOL, number, token, AGENT)])))

    async def http(self, asked: RequestMessage, kind: str, **headers: str) -> Answer:
        """Make the call over HTTP."""
        options = asked.options
        values = {
            "labelSelector": options.label_selector,
            "fieldSelector": options.field_selector,
            "limit": str(options.limit or ""),
            "resourceVersion": options.resource_version,
            "resourceVersionMatch": options.resource_version_match,
            "dryRun": "All" if options.dry_run else "",
            "fieldManager": options.field_manager,
            "fieldValidation": options.field_validation,
            "force": "true" if options.force else "",
        }
        query = urlencode({name: value for name, value in values.items() if value})
        body = asked.body
        if asked.verb != "patch":
            body = with_kind(GroupVersionKind.parse("v1", "DeleteOptions" if "delete" in asked.verb else kind), body)
        content_type = PATCH_TYPES[options.patch_type].value if options.patch_type else "application/json"
        return await self.asgi(
            request_info_of(asked).method,
            f"{request_path(asked)}?{query}" if query else request_path(asked),
            body,
            content_type=content_type,
            user=headers.pop("token", list(USERS)[asked.user]),
            **{"user-agent": AGENT, **headers},
        )

    async def session(self, asked: RequestMessage) -> list[Any]:
        """Make the call by the session, and return the messages of its answer."""
        before = len(self._wire.received)
        self._wire.answered.clear()
        self._session.data_received(bytes(write_frame([asked])))
        async with asyncio.timeout(2):
            await self._wire.answered.wait()
        await self.asgi.settle()
        return self._wire.received[before:]

    async def events(self) -> list[dict[str, Any]]:
        """Return the audit events since the last call."""
        await self.asgi.settle()
        lines = self._log.read_text().splitlines()
        new, self._seen = lines[self._seen :], len(lines)
        return [comparable(json.loads(line)) for line in new]

    def counted(self) -> dict[str, str]:
        """Return the series of requests."""
        lines = self.server.app.metrics.text().decode().splitlines()
        wanted = ("apiserver_request_total", "apiserver_request_duration_seconds_count", "apiserver_current_inflight")
        series = (line.rpartition(" ") for line in lines if line.startswith(wanted))
        return {name: value for name, _, value in series}


def comparable(event: dict[str, Any]) -> dict[str, Any]:
    """An event with the parameters of its path in any order, whatever name a client has for an empty one."""
    path, _, query = event["requestURI"].partition("?")
    return event | {"requestURI": [path, sorted(parse_qsl(query))]}


@asynccontextmanager
async def caller(folder: Path, name: str, *, seats: int = 600) -> AsyncIterator[Caller]:
    log = folder / f"{name}.log"
    config = ServerConfig(
        authorization=True, audit_log=log, audit_policy=load_policy(POLICY), max_requests_inflight=seats
    )
    server = await APIServer.open(config, clock=StillClock(), random=random.Random(1))
    server.context.static_tokens.add(USERS)
    try:
        made = Caller(server, log)
        await made.asgi("POST", f"{ROLES}/clusterroles", role(), user="of an administrator")
        await made.asgi("POST", f"{ROLES}/clusterrolebindings", binding(), user="of an administrator")
        await made.events()
        yield made
    finally:
        await server.close()


@asynccontextmanager
async def two(folder: Path, *, seats: int = 600) -> AsyncIterator[tuple[Caller, Caller]]:
    """Two servers in the same state, the second to be called by sessions."""
    async with caller(folder, "http", seats=seats) as first, caller(folder, "session", seats=seats) as second:
        yield first, second


def role() -> dict[str, Any]:
    return {"metadata": {"name": "reader"}, "rules": [READ]}


def binding() -> dict[str, Any]:
    return {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "viewer"}],
    }


def message(verb: str, name: str = "", body: bytes = b"", user: int = 0, **options: Any) -> RequestMessage:
    given = RequestOptions(**options)
    return RequestMessage(1, user, verb, "", "v1", "configmaps", "default", name, "", 0, given, body)


def answered(messages: list[Any]) -> Any:
    """The content of a session's answer; None for an object that was sent before."""
    last = messages[-1]
    if isinstance(last, FailureMessage):
        return json.loads(last.status)
    if isinstance(last, ListMessage):
        return [json.loads(shown.body or "null") for one in messages for shown in one.objects]
    if isinstance(last, ObjectMessage):
        return json.loads(last.object.body or "null")
    if isinstance(last, PlainMessage):
        return json.loads(last.body)
    assert isinstance(last, EndMessage)
    return None


def content(answer: Answer) -> Any:
    """The content of an answer over HTTP, as far as sessions have it."""
    value = answer.json
    if value["kind"].endswith("List"):
        return [without_kind(item) for item in value["items"]]
    return without_kind(value)


def without_kind(value: Any) -> Any:
    return {name: field for name, field in value.items() if name not in {"kind", "apiVersion"}}


async def compare(http: Caller, session: Caller, asked: RequestMessage, kind: str = "ConfigMap") -> int:
    """Make a call both ways, and hold the two against each other. Return the status."""
    over_http = await http.http(asked, kind)
    by_session = answered(await session.session(asked))
    wanted, (event, *more) = content(over_http), await http.events()
    assert not more
    assert await session.events() == [event], asked
    assert session.counted() == http.counted(), asked
    if by_session is None or ("delete" in asked.verb and over_http.status < 300):
        return over_http.status  # a session answers a deletion with the last state
    if isinstance(by_session, list):
        assert len(by_session) == len(wanted)
        assert all(mine in (None, other) for mine, other in zip(by_session, wanted, strict=True))
        return over_http.status
    if over_http.status >= 400:
        by_session = without_kind(by_session)
    assert by_session == wanted, asked
    return over_http.status


def drawn(source: random.Random) -> RequestMessage:
    """A call that may succeed, be denied, be refused for its options, or not decode."""
    verb = source.choice(("get", "list", "create", "create", "update", "patch", "delete", "deletecollection"))
    name = "" if verb in {"list", "create", "deletecollection"} else source.choice("abc")
    user = source.choice((0, 0, 0, 0, 1, 2))
    data = json.dumps({"metadata": {"name": name or source.choice("abc")}, "data": {"key": source.choice("xyz")}})
    body, options = data.encode(), dict[str, Any]()
    if verb in {"list", "deletecollection"}:
        options = source.choice(
            ({}, {"limit": 1}, {"label_selector": "l=x"}, {"label_selector": "("}, {"resource_version": "x"})
        )
    elif verb in {"create", "update", "patch"}:
        options = source.choice(
            (
                {},
                {"field_manager": "one"},
                {"dry_run": True},
                {"field_manager": "x" * 200},
                {"field_validation": "Strict"},
                {"field_validation": "Hard"},
            )
        )
        if source.random() < 0.25 and verb != "patch":
            body = source.choice(BODIES)
        elif options.get("field_validation") == "Strict" and source.random() < 0.5:
            body = body[:-1] + b',"unknown":1}'
    if verb == "patch":
        patch_type = source.choice(tuple(PATCH_TYPES))
        options = {**options, "patch_type": patch_type}
        if patch_type == "APPLY" and body == data.encode():
            body = b'{"apiVersion":"v1","kind":"ConfigMap",' + body[1:]
    if "delete" in verb:
        body = source.choice(
            (b"{}", b'{"propagationPolicy":"Never"}', b'{"dryRun":["All"]}', b'{"dryRun":["x"]}', b"{")
        )
    return message(verb, name, b"" if verb in {"get", "list"} else body, user, **options)


@pytest.mark.parametrize("seed", range(6))
async def test_any_call_has_the_same_answer_audit_event_and_metrics(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    async with two(tmp_path) as (http, session):
        statuses = {await compare(http, session, drawn(source)) for _ in range(60)}
    assert {200, 201, 400, 403, 404} <= statuses


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("verb", ["create", "update"])
async def test_a_body_that_does_not_decode_is_refused_in_the_same_words(tmp_path: Path, verb: str, body: bytes) -> None:
    async with two(tmp_path) as (http, session):
        assert await compare(http, session, message(verb, "" if verb == "create" else "a", body)) >= 400


async def test_a_review_has_the_same_answer(tmp_path: Path) -> None:
    body = b'{"spec":{"resourceAttributes":{"verb":"list","resource":"configmaps"}}}'
    asked = RequestMessage(
        1, 1, "create", "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "", "", "", 0, RequestOptions(), body
    )
    async with two(tmp_path) as (http, session):
        over_http = await http.asgi(
            "POST",
            request_path(asked),
            with_kind(GroupVersionKind("authorization.k8s.io", "v1", "SelfSubjectAccessReview"), body),
            user="of a viewer",
            **{"user-agent": AGENT},
        )
        assert without_kind(answered(await session.session(asked))) == content(over_http)
        assert await session.events() == await http.events()


async def test_a_call_without_a_seat_is_refused_alike(tmp_path: Path) -> None:
    async with two(tmp_path, seats=1) as (http, session):
        for one in (http, session):
            level = one.server.app.pipeline.flow._alone
            level._wait = 0.01
            assert level.acquire()
        assert await compare(http, session, message("get", "a", user=1)) == 429


async def test_a_write_that_takes_too_long_ends_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: Any) -> Any:
        await asyncio.sleep(60)

    monkeypatch.setattr(pipeline, "REQUEST_SECONDS", 0.01)
    async with two(tmp_path) as (http, session):
        monkeypatch.setattr(ResourceOperations, "create", never)
        assert await compare(http, session, message("create", "", b'{"metadata":{"name":"a"}}')) == 504


async def test_a_failure_of_the_server_is_counted_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: Any) -> Any:
        raise failure(500, "InternalError", "the store is full")

    async with two(tmp_path) as (http, session):
        monkeypatch.setattr(ResourceOperations, "get", refused)
        assert await compare(http, session, message("get", "a")) == 500


async def test_a_session_of_a_user_is_as_http_of_one_that_impersonates_it(tmp_path: Path) -> None:
    async with two(tmp_path) as (http, session):
        for verb, status in (("get", 404), ("delete", 403)):
            asked = message(verb, "a", b"" if verb == "get" else b"{}", user=1)
            answer = await http.http(asked, "ConfigMap", token="of an administrator", **{"impersonate-user": "viewer"})
            assert answer.status == status
            assert without_kind(answered(await session.session(asked))) == content(answer)
            (event,), (impersonated,) = await session.events(), await http.events()
            assert impersonated.pop("impersonatedUser")["username"] == event.pop("user")["username"] == "viewer"
            assert impersonated.pop("user")["username"] == "root"
            assert event == impersonated
        assert session.counted() == http.counted()
