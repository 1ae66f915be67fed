"""Bodies that are passed on as they come."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from cathedra.api.status import StatusError
from cathedra.apiserver.http.proxying.passing import (
    PassedBody,
    PassedRequests,
    PassingLimits,
    passed_headers,
    refusal_of,
)
from cathedra.apiserver.http.request import ClientGone, Request


def request(*messages: dict[str, Any], **headers: str) -> Request:
    waiting = list(messages)

    async def receive() -> dict[str, Any]:
        return waiting.pop(0)

    named = [(key.replace("_", "-").encode(), value.encode()) for key, value in headers.items()]
    return Request({"type": "http", "method": "POST", "path": "/x", "query_string": b"", "headers": named}, receive)


def piece(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_request_without_a_body_sends_none() -> None:
    body = await PassedBody.of(request(piece(b"")))
    assert (body.data, body.headers) == (None, [])


async def test_a_body_that_came_in_one_piece_is_sent_so() -> None:
    body = await PassedBody.of(request(piece(b"all"), content_length="3"))
    assert (body.data, body.headers) == (b"all", [])


async def test_a_body_in_pieces_is_handed_on_as_they_come() -> None:
    body = await PassedBody.of(request(piece(b"a", more=True), piece(b"b", more=True), piece(b""), content_length="2"))
    assert body.headers == [("Content-Length", "2")]
    data = body.data
    assert data is not None
    assert not isinstance(data, bytes)
    assert [chunk async for chunk in data] == [b"a", b"b"]


async def test_a_client_that_goes_ends_the_request() -> None:
    with pytest.raises(ClientGone):
        await PassedBody.of(request({"type": "http.disconnect"}))
    body = await PassedBody.of(request(piece(b"a", more=True), {"type": "http.disconnect"}))
    data = body.data
    assert data is not None
    assert not isinstance(data, bytes)
    with pytest.raises(ConnectionResetError):
        [chunk async for chunk in data]


def test_headers_of_the_connection_and_claims_stay_here() -> None:
    made = request(authorization="x", connection="close", x_remote_user="root", impersonate_user="root", accept="y")
    assert passed_headers(made) == [("accept", "y")]


LIMITS = PassingLimits(of_user=2, to_server=3, total=4)


@pytest.mark.parametrize(
    ("open_already", "user", "server", "refusal"),
    [
        ([("a", "n1")], "a", "n1", ""),
        ([("a", "n1"), ("a", "n2")], "a", "n3", "user 'a' has 2 logs and streams open"),
        ([("a", "n1"), ("a", "n1")], "b", "n1", ""),
        ([("a", "n1"), ("b", "n1"), ("c", "n1")], "d", "n1", "3 logs and streams of n1 are open"),
        ([("a", "n1"), ("b", "n1"), ("c", "n1")], "d", "n2", ""),
        ([("a", "n1"), ("b", "n2"), ("c", "n3"), ("d", "n4")], "e", "n5", "4 logs and streams are open"),
    ],
)
def test_requests_are_counted_per_user_per_server_and_over_all(
    open_already: list[tuple[str, str]], user: str, server: str, refusal: str
) -> None:
    passed = PassedRequests(LIMITS)
    with ExitStack() as stack:
        for one in open_already:
            stack.enter_context(passed.admitted(*one))
        if not refusal:
            with passed.admitted(user, server):
                return
        with pytest.raises(StatusError, match=refusal) as caught, passed.admitted(user, server):
            pass
        assert caught.value.code == 429
    with passed.admitted(user, server):
        pass


def test_a_request_that_fails_is_counted_no_longer() -> None:
    passed = PassedRequests(PassingLimits(of_user=1, to_server=1, total=1))
    with pytest.raises(ValueError, match="fault"), passed.admitted("a", "n1"):
        raise ValueError("fault")
    with passed.admitted("a", "n1"):
        pass


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [(403, 403, "Forbidden"), (404, 404, "NotFound"), (418, 418, "InternalError"), (302, 500, "InternalError")],
)
def test_a_refusal_keeps_its_status_if_it_is_one(status: int, code: int, reason: str) -> None:
    found = refusal_of(status, " no ")
    assert (found.code, found.status.reason, found.status.message) == (code, reason, "no")


def test_a_refusal_without_words_tells_its_status() -> None:
    assert refusal_of(503, "").status.message == "the node answered 503"
