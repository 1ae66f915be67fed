"""Bodies that are passed on as they come."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.apiserver.http.proxying.passing import PassedBody, passed_headers
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
