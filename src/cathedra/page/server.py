"""The server of the device map, for one user of this machine.

It listens on a loopback address only. The page's files are public, as they are in every installation; everything about
a cluster needs the token of this run, which the page receives in the fragment of its address, so that it is in no log
and no ``Referer``. ``Host`` has to be a loopback name: otherwise a web site could have its own name resolve to this
machine and read the answers (DNS rebinding). ``Origin``, if there is one, has to be this server.

    GET  /            the page and its files
    POST /engine      one question, one answer (`cathedra.engine.messages`)
    GET  /events      changes as lines of JSON, until the client leaves
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import parse_qs

from cathedra.allocation.errors import InvalidInput
from cathedra.asgi.application import Receive, Scope, Send, read_body
from cathedra.asgi.listener import Listener, bind

HOST: Final = "127.0.0.1"
MOST_BYTES: Final = 16 << 20
"""Longest question: manifests that a user pastes."""
MOST_QUESTIONS: Final = 32
"""Questions that wait for their answer at a time."""
MOST_STREAMS: Final = 16
"""Pages that follow the changes at a time."""
_JSON: Final = b"application/json"
_LINES: Final = b"application/x-ndjson"
_PLAIN: Final = b"text/plain; charset=utf-8"


class AnsweringEngine(Protocol):
    """Answers one question in JSON; called in a thread."""

    def answer_json(self, body: bytes) -> bytes:
        """Return the answer, which may be an error."""


class ChangeStream(Protocol):
    """Source of the changes that pages follow."""

    def lines(self, since: float = 0.0) -> AsyncIterator[bytes]:
        """Yield a line of JSON for each change. ``since`` is the time of the map that the page has; 0: it has none."""


class PageServer:
    """ASGI application of the page, its files and its questions."""

    def __init__(
        self, engine: AnsweringEngine, changes: ChangeStream, executor: Executor, *, token: str, port: int
    ) -> None:
        self._engine, self._changes, self._executor = engine, changes, executor
        self._token = token.encode()
        self._hosts = frozenset(f"{name}:{port}".encode() for name in (HOST, "localhost"))
        self._files = static_files()
        self._questions = self._streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; WebSockets are refused."""
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        if (refusal := self._refusal(headers)) is not None:
            await _respond(send, 403, refusal, _PLAIN)
            return
        method, path = scope["method"], scope["path"]
        if path in self._files and method in ("GET", "HEAD"):
            file = self._files[path]
            await _respond(send, 200, b"" if method == "HEAD" else file.body, file.type)
        elif path not in ("/engine", "/events"):
            await _respond(send, 404, b"404 page not found\n", _PLAIN)
        elif not self._is_authenticated(headers):
            await _respond(send, 401, b"the token of this run is missing: open the printed address\n", _PLAIN)
        elif path == "/engine" and method == "POST":
            await self._answer(headers, receive, send)
        elif path == "/events" and method == "GET":
            await self._follow(_since(scope.get("query_string", b"")), receive, send)
        else:
            await _respond(send, 405, b"method not allowed\n", _PLAIN)

    def _refusal(self, headers: Mapping[bytes, bytes]) -> bytes | None:
        host = headers.get(b"host", b"").lower()
        if host not in self._hosts:
            return b"this server is reached by its loopback address only\n"
        origin = headers.get(b"origin")
        if origin is not None and origin.lower() != b"http://" + host:
            return b"requests of other sites are refused\n"
        return None

    def _is_authenticated(self, headers: Mapping[bytes, bytes]) -> bool:
        return hmac.compare_digest(headers.get(b"authorization", b""), b"Bearer " + self._token)

    async def _answer(self, headers: Mapping[bytes, bytes], receive: Receive, send: Send) -> None:
        # A form of another site can send text/plain and two other types; JSON needs a preflight, which is refused.
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != _JSON:
            await _respond(send, 415, b"questions are application/json\n", _PLAIN)
            return
        body = await read_body(receive, MOST_BYTES)
        if body is None:
            await _respond(send, 413, f"a question is limited to {MOST_BYTES >> 20} MiB\n".encode(), _PLAIN)
            return
        if self._questions >= MOST_QUESTIONS:
            await _respond(send, 429, b"too many questions wait for their answers\n", _PLAIN)
            return
        self._questions += 1
        try:
            loop = asyncio.get_running_loop()
            answer = await loop.run_in_executor(self._executor, self._engine.answer_json, body)
        finally:
            self._questions -= 1
        await _respond(send, 200, answer, _JSON)

    async def _follow(self, since: float, receive: Receive, send: Send) -> None:
        if self._streams >= MOST_STREAMS:
            await _respond(send, 429, b"too many pages follow the changes\n", _PLAIN)
            return
        self._streams += 1
        sending = asyncio.create_task(self._send_changes(since, send))
        leaving = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams -= 1
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send_changes(self, since: float, send: Send) -> None:
        await send(_start(200, _LINES))
        async for line in self._changes.lines(since):
            await send({"type": "http.response.body", "body": line + b"\n", "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _since(query: bytes) -> float:
    """Return the time in ``?since=SECONDS``; 0 if there is none, or another value."""
    try:
        return float(parse_qs(query.decode("latin-1")).get("since", ["0"])[0])
    except ValueError:
        return 0.0


async def _left(receive: Receive) -> None:
    """Wait until the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _respond(send: Send, status: int, body: bytes, kind: bytes) -> None:
    start = _start(status, kind)
    start["headers"].append((b"content-length", str(len(body)).encode()))
    await send(start)
    await send({"type": "http.response.body", "body": body})


def _start(status: int, kind: bytes) -> dict[str, Any]:
    headers = [(b"content-type", kind), *SECURITY_HEADERS]
    return {"type": "http.response.start", "status": status, "headers": headers}


@asynccontextmanager
async def serving_page(
    engine: AnsweringEngine,
    changes: ChangeStream,
    executor: Executor,
    *,
    port: int = 0,
    token: Callable[[], str] = secrets.token_urlsafe,
) -> AsyncIterator[str]:
    """Serve while the body runs. Yields the address to open, with the token in its fragment.

    Questions are answered on ``executor``. One thread is enough: answers share the memos of the state, and a second one
    would only take turns with the first.

    Raises:
        InvalidInput: the port cannot be opened.
    """
    try:
        listening = bind(HOST, port)
    except OSError as error:
        raise InvalidInput(
            f"port {port} of {HOST} cannot be opened: {error.strerror}; choose another --port"
        ) from error
    secret, number = token(), listening.getsockname()[1]
    server = PageServer(engine, changes, executor, token=secret, port=number)
    listener = Listener(server, listening, None)
    await listener.start()
    try:
        yield f"http://{HOST}:{number}/#{secret}"
    finally:
        await listener.stop()


_TYPES: Final[Mapping[str, bytes]] = {
    "html": b"text/html; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "svg": b"image/svg+xml",
    "txt": b"text/plain; charset=utf-8",
}
POLICY: Final = "; ".join(
    (
        *("default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'"),
        *("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"),
    )
)
"""Content-Security-Policy: nothing but the page's own files, and no connection but to its own server."""
SECURITY_HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class StaticFile(NamedTuple):
    """A file of the page."""

    body: bytes
    type: bytes


def static_files() -> dict[str, StaticFile]:
    """Return the page's files by URL path; ``/`` is the page itself."""
    found = dict(_walked(files("cathedra.page") / "static", "/"))
    found["/"] = found["/index.html"]
    return found


def _walked(folder: Traversable, path: str) -> Iterator[tuple[str, StaticFile]]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _walked(one, f"{path}{one.name}/")
        elif (kind := _TYPES.get(one.name.rpartition(".")[2])) is not None:
            yield f"{path}{one.name}", StaticFile(one.read_bytes(), kind)
