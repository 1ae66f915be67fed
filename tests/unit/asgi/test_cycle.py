"""Answers that go out in one step: the same bytes as in messages, in order, and nothing that ends a header."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cathedra.asgi.application import Receive, Scope, Send
from cathedra.asgi.direct import DIRECT_ANSWER, framed, header_lines
from cathedra.asgi.listener import Listener, bind

HEADERS = [(b"content-type", b"text/plain"), (b"x-more", b"a\tb")]
REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


@asynccontextmanager
async def serving(app: Any) -> Any:
    """A server of ``app``; its port."""
    made = Listener(app, bind("127.0.0.1", 0), None)
    await made.start()
    try:
        yield made.port
    finally:
        await made.stop()


async def received(port: int, sent: bytes) -> bytes:
    """Everything that comes back until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        async with asyncio.timeout(60):
            return await reader.read()
    finally:
        writer.close()


def undated(answer: bytes) -> list[bytes]:
    return [line for line in answer.split(b"\r\n") if not line.startswith(b"date: ")]


def answering(body: bytes, tail: bytes = b"") -> tuple[Any, Any]:
    """The same answer in one step, and in messages."""
    headers = [*HEADERS, (b"content-length", b"%d" % len(body + tail))]

    async def directly(scope: Scope, receive: Receive, send: Send) -> None:
        scope["extensions"][DIRECT_ANSWER].answer(201, header_lines(tuple(headers)), body, tail)

    async def by_messages(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": tail})

    return directly, by_messages


@pytest.mark.parametrize("sizes", [(0, 0), (5, 0), (5, 7), (100_000, 0), (5, 200_000)])
async def test_an_answer_in_one_step_has_the_bytes_of_one_in_messages(sizes: tuple[int, int]) -> None:
    directly, by_messages = answering(b"b" * sizes[0], b"t" * sizes[1])
    async with serving(directly) as direct, serving(by_messages) as plain:
        sent = REQUEST + LAST
        assert undated(await received(direct, sent)) == undated(await received(plain, sent))


async def test_answers_to_requests_sent_at_once_keep_their_order() -> None:
    turns = iter(range(4))

    async def alternating(scope: Scope, receive: Receive, send: Send) -> None:
        turn = next(turns)
        directly, by_messages = answering(b"<%d>" % turn)
        await (directly if turn % 2 else by_messages)(scope, receive, send)

    async with serving(alternating) as port:
        answers = await received(port, REQUEST * 3 + LAST)
    assert [part[:3] for part in answers.split(b"\r\n\r\n")[1:]] == [b"<0>", b"<1>", b"<2>", b"<3>"]


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb", b"a\x00b", b"a\x7fb", b"a\rb"])
async def test_a_header_that_would_end_its_line_is_no_answer(value: bytes) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        lines = header_lines(((b"x-warning", value), (b"content-length", b"0")))
        scope["extensions"][DIRECT_ANSWER].answer(200, lines, b"")

    async with serving(app) as port:
        answer = await received(port, LAST)
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"x-warning" not in answer


@pytest.mark.parametrize(
    ("head", "body", "arrived"),
    [(b"content-length: 5", b"12345", b"12345"), (b"content-length: 5\r\nexpect: 100-continue", b"12345", None)],
)
async def test_a_body_that_is_there_needs_no_message(head: bytes, body: bytes, arrived: bytes | None) -> None:
    """A body that the client announces with ``Expect`` is received, which sends ``100 Continue``."""
    found: list[bytes | None] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        direct = scope["extensions"][DIRECT_ANSWER]
        found.append(direct.arrived())
        if found[-1] is None:
            found.append((await receive())["body"])
        direct.answer(200, b"content-length: 0\r\n", b"")

    async with serving(app) as port:
        await received(port, b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n" + head + b"\r\n\r\n" + body)
    assert found[0] == arrived
    assert found[-1] == body


async def test_a_body_that_is_not_all_there_is_waited_for() -> None:
    asked, found = asyncio.Event(), []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        direct = scope["extensions"][DIRECT_ANSWER]
        found.append(direct.arrived())
        asked.set()
        while (message := await receive())["more_body"]:
            found.append(message["body"])
        found.append(message["body"])
        direct.answer(200, b"content-length: 0\r\n", b"")

    async with serving(app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 5\r\n\r\n12")
        await asked.wait()
        writer.write(b"345")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()
    assert found[0] is None
    assert b"".join(found[1:]) == b"12345"


@pytest.mark.parametrize("at_once", [True, False])
async def test_behind_its_body_a_request_waits_for_its_client_to_leave(at_once: bool) -> None:
    asked, left, found = asyncio.Event(), asyncio.Event(), []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.append(scope["extensions"][DIRECT_ANSWER].arrived() if at_once else (await receive())["body"])
        asked.set()
        found.append((await receive())["type"])
        left.set()

    async with serving(app) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n12")
        await asked.wait()
        await asyncio.sleep(0.02)
        assert found == [b"12"]
        writer.close()
        async with asyncio.timeout(60):
            await left.wait()
    assert found == [b"12", "http.disconnect"]


async def test_a_second_answer_is_refused() -> None:
    refused: list[Exception] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        direct = scope["extensions"][DIRECT_ANSWER]
        direct.answer(200, b"content-length: 0\r\n", b"")
        try:
            direct.answer(200, b"content-length: 0\r\n", b"")
        except RuntimeError as error:
            refused.append(error)

    async with serving(app) as port:
        assert (await received(port, LAST)).count(b"HTTP/1.1 ") == 1
    assert len(refused) == 1


async def test_a_stream_is_written_to_until_its_client_leaves_it_lying() -> None:
    """A stream is notified when it may continue."""
    ready, gone_on = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        direct = scope["extensions"][DIRECT_ANSWER]
        headers = [(b"transfer-encoding", b"chunked")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        direct.on_ready(ready.set)
        while direct.ready:
            direct.write(framed(b"x" * 100_000))
            await asyncio.sleep(0)
        gone_on.set()
        await ready.wait()
        direct.on_ready(None)
        await send({"type": "http.response.body", "body": b"end", "more_body": False})

    async with serving(app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(REQUEST)
        async with asyncio.timeout(60):
            await gone_on.wait()
            assert not ready.is_set()
            rest = b""
            while not rest.endswith(b"3\r\nend\r\n0\r\n\r\n"):
                rest = rest[-64:] + await reader.read(2**20)
        writer.close()
    assert ready.is_set()


async def test_a_connection_is_closed_when_nothing_comes_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cathedra.asgi.serving.KEEP_ALIVE_SECONDS", 1)
    directly, _ = answering(b"ok")
    async with serving(directly) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            writer.write(REQUEST)
            await reader.readuntil(b"ok")
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("raises", [False, True])
async def test_an_application_that_does_not_finish_its_answer_loses_the_connection(begun: bool, raises: bool) -> None:
    """Before anything is sent, an error response is still possible."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if begun:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        if raises:
            raise RuntimeError("no more")

    async with serving(app) as port:
        answer = await received(port, REQUEST)
    assert answer.startswith(b"HTTP/1.1 200 " if begun else b"HTTP/1.1 500 ")


async def test_requests_of_a_connection_have_the_parts_of_their_own_urls() -> None:
    found = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found.append((scope["path"], scope["raw_path"], scope["query_string"]))
        scope["extensions"][DIRECT_ANSWER].answer(200, b"content-length: 0\r\n", b"")

    one, other = b"/a%20b?c=d", b"/e"
    async with serving(app) as port:
        asked = [REQUEST.replace(b"/", url, 1) for url in (one, one, other)]
        await received(port, b"".join(asked) + LAST.replace(b"/", one, 1))
    first = ("/a b", b"/a%20b", b"c=d")
    assert found == [first, first, ("/e", b"/e", b""), first]
