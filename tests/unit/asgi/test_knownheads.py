"""Heads that come again: what is made of the same bytes without parsing them, and what is always parsed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.asgi.application import Receive, Scope, Send
from cathedra.asgi.headers import RequestHeaders
from cathedra.asgi.knownheads import LINES, KnownHeads
from cathedra.asgi.listener import Listener, bind

HOST = b"\r\nHost: x\r\n\r\n"
LENGTH = b"\r\nHost: x\r\nContent-Length: 2\r\n\r\n"


def scope(path: str = "/a", **headers: str) -> dict[str, Any]:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": RequestHeaders(pairs),
    }


def test_lines_and_headers_are_known_in_any_combination() -> None:
    heads = KnownHeads()
    heads.learn(b"POST /a HTTP/1.1" + LENGTH + b"{}", scope("/a", content_length="2"), 2)
    heads.learn(b"POST /b HTTP/1.1" + HOST, scope("/b", host="x"), 0)
    found = heads.find(b"POST /b HTTP/1.1" + LENGTH + b"[]")
    assert found is not None
    assert (found.line.path, found.headers.texts, found.body) == ("/b", {b"content-length": "2"}, b"[]")
    assert heads.find(b"POST /a HTTP/1.1" + HOST) is not None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"POST /a HTTP/1.1",
        b"POST /a HTTP/1.1\r\nHost: x",
        b"POST /a HTTP/1.1" + LENGTH + b"{",
        b"POST /a HTTP/1.1" + LENGTH + b"{}G",
        b"POST /c HTTP/1.1" + LENGTH + b"{}",
        b"POST /a HTTP/1.0" + LENGTH + b"{}",
        b"\r\nPOST /a HTTP/1.1" + LENGTH + b"{}",
        b"POST /a HTTP/1.1\r\nHost: y\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
def test_what_is_not_one_whole_request_with_a_known_head_is_parsed(data: bytes) -> None:
    heads = KnownHeads()
    heads.learn(b"POST /a HTTP/1.1" + LENGTH + b"{}", scope("/a", content_length="2"), 2)
    assert heads.find(data) is None


@pytest.mark.parametrize("name", ["upgrade", "expect", "transfer_encoding"])
def test_what_is_out_of_the_ordinary_is_always_parsed(name: str) -> None:
    heads = KnownHeads()
    data = b"GET /a HTTP/1.1\r\n%b: y\r\n\r\n" % name.replace("_", "-").encode()
    heads.learn(data, scope(**{name: "y"}), 0)
    assert heads.find(data) is None


def test_the_oldest_lines_are_forgotten_first() -> None:
    heads = KnownHeads()
    lines = [b"GET /%d HTTP/1.1" % number for number in range(LINES + 1)]
    for line in lines:
        heads.learn(line + HOST, scope(host="x"), 0)
    assert heads.find(lines[0] + HOST) is None
    assert all(heads.find(line + HOST) is not None for line in lines[1:])


async def test_an_application_sees_the_same_of_a_head_that_comes_again() -> None:
    post = b"POST /a%20b?c=d HTTP/1.1\r\nHost: x\r\nX-Some: Y\r\nContent-Length: 2\r\n\r\n"
    seen = await requests_of([post + b"11", post + b"22", post + b"33"])
    assert [body for _, body in seen] == [b"11", b"22", b"33"]
    described = [{key: value for key, value in one.items() if key != "extensions"} for one, _ in seen]
    assert described[0] == described[1] == described[2]
    assert described[0]["path"] == "/a b"
    assert seen[1][0]["extensions"].keys() == seen[0][0]["extensions"].keys()


async def test_a_request_in_pieces_behind_known_ones_arrives_whole() -> None:
    post = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"
    pieces: list[bytes | tuple[bytes, ...]] = [
        (post, b"11", b"11"),
        (post[:20], post[20:], b"3333"),
        (post + b"44", b"44"),
    ]
    seen = await requests_of([post + b"0000", post + b"0000", *pieces, post + b"5555"])
    assert [body for _, body in seen] == [b"0000", b"0000", b"1111", b"3333", b"4444", b"5555"]


async def test_a_last_request_closes_its_connection_however_well_known_it_is() -> None:
    last = b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    connection = [b"GET /a HTTP/1.1" + HOST, last]
    assert len(await requests_of(connection, connection, connection)) == 6


@dataclass(frozen=True)
class Asked:
    """A request as a client means it."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes | None

    @property
    def sent(self) -> bytes:
        """As it is written."""
        target = quote(self.path) + (f"?{self.query}" if self.query else "")
        length = () if self.body is None else (("Content-Length", str(len(self.body))),)
        lines = [f"{self.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in (*self.headers, *length))]
        return "\r\n".join((*lines, "", "")).encode() + (self.body or b"")

    @property
    def told(self) -> tuple[str, str, bytes, list[tuple[bytes, bytes]], bytes]:
        """What an application is to see of it."""
        pairs = [(name.lower().encode(), value.encode()) for name, value in self.headers]
        if self.body is not None:
            pairs.append((b"content-length", b"%d" % len(self.body)))
        return self.method, self.path, self.query.encode(), pairs, self.body or b""


ASKED = st.builds(
    Asked,
    method=st.sampled_from(("GET", "POST", "PATCH")),
    path=st.sampled_from(("/a", "/a b", "/c/d")),
    query=st.sampled_from(("", "x=1", "x=2&y")),
    headers=st.lists(st.sampled_from((("Accept", "*/*"), ("X-A", "b: c"))), max_size=2)
    .flatmap(lambda others: st.permutations([("Host", "x"), *others]))
    .map(tuple),
    body=st.none() | st.binary(max_size=3) | st.just(b"\r\n\r\nGET /a HTTP/1.1\r\n\r\n"),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(ASKED, min_size=1, max_size=8), min_size=2, max_size=4))
def test_whatever_was_asked_before_each_request_is_seen_as_it_was_written(connections: list[list[Asked]]) -> None:
    seen = asyncio.run(requests_of(*[[asked.sent for asked in asking] for asking in connections]))
    told = [
        (scope["method"], scope["path"], scope["query_string"], list(scope["headers"]), body) for scope, body in seen
    ]
    assert told == [asked.told for asking in connections for asked in asking]


async def requests_of(*connections: Sequence[bytes | tuple[bytes, ...]]) -> list[tuple[Scope, bytes]]:
    """What an application sees of requests on connections of one server, one after another, each request sent when the
    last is answered, maybe in pieces."""
    seen: list[tuple[Scope, bytes]] = []

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        seen.append(({**scope, "extensions": dict(scope["extensions"])}, body))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    made = Listener(noting, bind("127.0.0.1", 0), None)
    await made.start()
    try:
        for requests in connections:
            reader, writer = await asyncio.open_connection("127.0.0.1", made.port)
            for request in requests:
                pieces = request if isinstance(request, tuple) else (request,)
                for number, piece in enumerate(pieces, 1):
                    writer.write(piece)
                    if number < len(pieces):
                        await asyncio.sleep(0.01)
                async with asyncio.timeout(60):
                    answer = await reader.readuntil(b"\r\n\r\n")
                    closed = b"connection: close" in answer and await reader.read() == b""
            assert closed == (b"Connection: close" in requests[-1])
            writer.close()
    finally:
        await made.stop()
    return seen
