"""The server of the map answers its own page only: token, Host and Origin, limits, and a strict policy."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cathedra.allocation.errors import InvalidInput
from cathedra.page import server as server_module
from cathedra.page.history import Unchanging
from cathedra.page.server import HOST, PageServer, serving_page

PORT = 4711
EXECUTOR = ThreadPoolExecutor(1)
OWN = {"host": f"{HOST}:{PORT}"}
KNOWN = {**OWN, "authorization": "Bearer secret", "content-type": "application/json"}


class Echo:
    """Engine that answers with the question."""

    def answer_json(self, body: bytes) -> bytes:
        return body


class Blocked:
    """Engine whose answers wait."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def answer_json(self, body: bytes) -> bytes:
        self.gate.wait()
        return body


class Answer:
    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.began = asyncio.Event()

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message["body"]
            self.began.set()


def made(engine: Any = None) -> PageServer:
    return PageServer(engine or Echo(), Unchanging(), EXECUTOR, token="secret", port=PORT)


async def called(server: PageServer, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> Answer:
    answer, left = Answer(), asyncio.Event()
    sent = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        if (message := next(sent, None)) is not None:
            return message
        await left.wait()
        return {"type": "http.disconnect"}

    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": pairs}
    await server(scope, receive, answer.send)
    return answer


async def test_the_page_is_served_with_a_policy_that_allows_its_own_files_alone() -> None:
    answer = await called(made(), "GET", "/", OWN)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


@pytest.mark.parametrize("path", ["/engine", "/events"])
@pytest.mark.parametrize("authorization", [None, "Bearer ", "Bearer wrong", "Basic secret", "secret"])
async def test_without_the_token_nothing_about_the_cluster_is_served(path: str, authorization: str | None) -> None:
    headers = {**OWN, **({"authorization": authorization} if authorization is not None else {})}
    for method in ("GET", "POST"):
        assert (await called(made(), method, path, headers)).status == 401


@pytest.mark.parametrize(
    "strange",
    [
        {"host": f"evil.example:{PORT}"},
        {"host": HOST},
        {"host": f"{HOST}:80"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": f"https://{HOST}:{PORT}"},
        {"origin": f"http://localhost:{PORT}"},
    ],
)
@pytest.mark.parametrize("path", ["/", "/engine", "/events"])
async def test_other_hosts_and_origins_are_refused_with_the_token_too(path: str, strange: dict[str, str]) -> None:
    assert (await called(made(), "GET", path, {**KNOWN, **strange})).status == 403


async def test_a_question_is_answered() -> None:
    headers = {**KNOWN, "origin": f"http://{HOST}:{PORT}"}
    answer = await called(made(), "POST", "/engine", headers, b'{"question":"map"}')
    assert (answer.status, answer.body) == (200, b'{"question":"map"}')


async def test_a_question_of_another_type_is_refused_as_forms_of_other_sites_send_it() -> None:
    assert (await called(made(), "POST", "/engine", {**KNOWN, "content-type": "text/plain"}, b"{}")).status == 415


async def test_long_questions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MOST_BYTES", 10)
    assert (await called(made(), "POST", "/engine", KNOWN, b"x" * 11)).status == 413


async def test_questions_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MOST_QUESTIONS", 1)
    engine = Blocked()
    server = made(engine)
    first = asyncio.create_task(called(server, "POST", "/engine", KNOWN, b"1"))
    await asyncio.sleep(0)
    assert (await called(server, "POST", "/engine", KNOWN, b"2")).status == 429
    engine.gate.set()
    assert (await first).body == b"1"


async def test_streams_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MOST_STREAMS", 0)
    assert (await called(made(), "GET", "/events", KNOWN)).status == 429


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/engine", 405), ("POST", "/events", 405), ("POST", "/", 404), ("GET", "/../files.py", 404)],
)
async def test_other_requests_are_refused(method: str, path: str, status: int) -> None:
    assert (await called(made(), method, path, KNOWN)).status == status


@asynccontextmanager
async def connection(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, str]]:
    where, _, token = address.partition("/#")
    reader, writer = await asyncio.open_connection(HOST, int(where.rpartition(":")[2]))
    try:
        yield reader, writer, token
    finally:
        writer.close()


async def test_it_listens_on_loopback_and_its_address_has_the_token_in_the_fragment() -> None:
    async with serving_page(Echo(), Unchanging(), EXECUTOR) as address, connection(address) as (reader, writer, token):
        assert address.startswith(f"http://{HOST}:")
        host = address.split("/")[2]
        writer.write(f"GET /events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        assert b"200" in await reader.readline()
        while (await reader.readline()).strip():
            pass
        await reader.readline()  # the size of the chunk
        assert json.loads(await reader.readline()) == {"type": "static"}


async def test_a_port_that_is_taken_is_an_error_of_input() -> None:
    async with serving_page(Echo(), Unchanging(), EXECUTOR) as address:
        port = int(address.partition("/#")[0].rpartition(":")[2])
        with pytest.raises(InvalidInput, match="choose another --port"):
            async with serving_page(Echo(), Unchanging(), EXECUTOR, port=port):
                pass
