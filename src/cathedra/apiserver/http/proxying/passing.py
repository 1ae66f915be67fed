"""Requests that are passed on to other servers: their limits, their headers and bodies, and WebSockets.

A passed request takes two connections, holds no seat of flow control, and may last for days. Without limits one user's
streams would use up the connections of all others, so they are counted per user, per server behind, and in total.

Headers of one connection stay with it, and credentials for this server stay here. Headers by which a client could claim
to be another user never reach a server that might believe them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cathedra.api.status import StatusError, failure, too_many_requests
from cathedra.apiserver.http.request import ClientGone, Request
from cathedra.apiserver.networktexts import network_text
from cathedra.asgi.application import Send

if TYPE_CHECKING:
    import aiohttp

_OWN: Final = frozenset(
    {
        b"authorization",
        b"connection",
        b"content-length",
        b"host",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailers",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Headers of one connection, and credentials for this server alone."""
_LOG: Final = logging.getLogger(__name__)
LONGEST_PAGE: Final = 1024 * 1024
"""Bytes of an HTML page whose links are changed."""
_CLAIMS: Final = (b"x-remote-", b"impersonate-")
"""Headers by which a client could claim to be another user."""
_RETRY_SECONDS: Final = 1
_SENDABLE: Final = frozenset({*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)})
_LONGEST_MESSAGE: Final = 32 * 1024 * 1024
"""Bytes of a message from the other server: as many as a client's may have."""
_HANDSHAKE: Final = "sec-websocket-"


def passed_headers(request: Request) -> list[tuple[str, str]]:
    """Return the headers of a request that are passed on."""
    return [
        (key.decode("latin-1"), value.decode("latin-1"))
        for key, value in request.scope["headers"]
        if not _is_withheld(key.lower().replace(b"_", b"-"))
    ]


def _is_withheld(name: bytes) -> bool:
    """Return True for a header that stays here. Many servers read ``_`` in a name as ``-``."""
    return name in _OWN or name.startswith(_CLAIMS)


class PassedBody:
    """The body of a request, of any size, passed on as it arrives. Made by `of`."""

    def __init__(self, request: Request, first: bytes, *, more: bool) -> None:
        self._request = request
        self._first = first
        self._complete = asyncio.Event()
        if not more:
            self._complete.set()

    @classmethod
    async def of(cls, request: Request) -> PassedBody:
        """Wait for the beginning of the body.

        Raises:
            ClientGone: the client went away.
        """
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientGone(request.path)
        return cls(request, message.get("body", b""), more=message.get("more_body", False))

    @property
    def data(self) -> bytes | AsyncIterator[bytes] | None:
        """The data for the HTTP client; None if there is no body."""
        return (self._first or None) if self._complete.is_set() else self._chunks()

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The header with the length, if the client sent one and the data does not show it."""
        length = self._request.header(b"content-length")
        return [("Content-Length", length)] if length and not self._complete.is_set() else []

    async def gone(self) -> None:
        """Wait until the client disconnects, after all of the body has arrived."""
        await self._complete.wait()
        while (await self._request.receive())["type"] != "http.disconnect":
            pass

    async def _chunks(self) -> AsyncIterator[bytes]:
        if self._first:
            yield self._first
        while not self._complete.is_set():
            message = await self._request.receive()
            if message["type"] == "http.disconnect":
                raise ConnectionResetError("the client went away")
            if not message.get("more_body", False):
                self._complete.set()
            if chunk := message.get("body", b""):
                yield chunk


async def pass_back(
    request: Request,
    answer: aiohttp.ClientResponse,
    send: Send,
    body: PassedBody,
    *,
    replaced: Iterable[tuple[bytes, bytes]] = (),
    page: Callable[[bytes], bytes] | None = None,
) -> None:
    """Pass an answer back as it arrives, with some of its headers ``replaced``, until it ends or the client
    disconnects.

    A whole HTML page is replaced by the result of ``page``, unless it is longer than `LONGEST_PAGE`."""
    instead = dict(replaced)
    named = [(key.lower().encode("latin-1"), value.encode("latin-1")) for key, value in answer.headers.items()]
    headers = [(key, instead.get(key, value)) for key, value in named if key not in _OWN or key == b"content-length"]
    # The identity of this server's audit event, in place of the other server's.
    headers.append((b"audit-id", request.audit_id))
    # A client that disconnects ends the request of the other server too, or a followed log would go on for ever.
    gone = asyncio.create_task(_until_gone(body, answer), name="passed request disconnect")
    try:
        beginning = b""
        if page is not None and _is_page(answer):
            beginning = await _beginning(answer)
            if len(beginning) <= LONGEST_PAGE:
                beginning = page(beginning)
                headers = [(key, value) for key, value in headers if key != b"content-length"]
                headers.append((b"content-length", str(len(beginning)).encode()))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": beginning, "more_body": True})
        await _pass_rest(request, answer, send)
    finally:
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)


async def _pass_rest(request: Request, answer: aiohttp.ClientResponse, send: Send) -> None:
    """Pass the rest back. If the other server breaks off, this one does too: no other answer can be given any more."""
    import aiohttp  # start-up time: with the first request that is passed on

    try:
        async for chunk in answer.content.iter_any():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except ClientGone:
        raise
    except (aiohttp.ClientError, OSError) as error:
        _LOG.info("%s was cut short: %s", request.path, network_text(error))
        if request.direct is not None:
            request.direct.break_off()
    else:
        await send({"type": "http.response.body", "body": b""})


def _is_page(answer: aiohttp.ClientResponse) -> bool:
    return answer.content_type == "text/html" and "Content-Encoding" not in answer.headers and answer.method != "HEAD"


async def _beginning(answer: aiohttp.ClientResponse) -> bytes:
    """Return the answer, or a bit more of it than `LONGEST_PAGE`."""
    pieces, size = [], 0
    async for chunk in answer.content.iter_any():
        pieces.append(chunk)
        size += len(chunk)
        if size > LONGEST_PAGE:
            break
    return b"".join(pieces)


async def _until_gone(body: PassedBody, answer: aiohttp.ClientResponse) -> None:
    await body.gone()
    answer.close()


@dataclass(frozen=True, slots=True)
class PassingLimits:
    """Limits of requests that are passed on at the same time."""

    of_user: int
    to_server: int
    total: int


PASSED_ON: Final = PassingLimits(of_user=128, to_server=512, total=1024)
"""kube-apiserver has no such limits except its file descriptors (docs/deviations.md). People have a few streams
open, and tools that follow the logs of all pods have dozens.
"""


class PassedRequests:
    """Counts the requests that are being passed on."""

    def __init__(self, limits: PassingLimits = PASSED_ON) -> None:
        self._limits = limits
        self._of_user: Counter[str] = Counter()
        self._to_server: Counter[str] = Counter()

    @contextlib.contextmanager
    def admitted(self, user: str, server: str) -> Iterator[None]:
        """Count a request of ``user`` to ``server`` for the duration of the block.

        Raises:
            StatusError: 429, there are too many; the message names the limit.
        """
        self._check(user, server)
        self._of_user[user] += 1
        self._to_server[server] += 1
        try:
            yield
        finally:
            _decrease(self._of_user, user)
            _decrease(self._to_server, server)

    def _check(self, user: str, server: str) -> None:
        limits = self._limits
        if self._of_user[user] >= limits.of_user:
            raise _too_many(f"user {user!r} has {limits.of_user} logs and streams open: close some of them")
        if self._to_server[server] >= limits.to_server:
            raise _too_many(f"{limits.to_server} logs and streams of {server} are open: try again later")
        if self._of_user.total() >= limits.total:
            raise _too_many(f"{limits.total} logs and streams are open: try again later")


def _too_many(text: str) -> StatusError:
    return too_many_requests(f"Too many requests are being passed on: {text}", _RETRY_SECONDS)


def _decrease(counter: Counter[str], key: str) -> None:
    # Users and servers without requests are removed: clients could fill the counter with names.
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


async def pass_websocket(
    request: Request, send: Send, session: aiohttp.ClientSession, url: Any, **options: Any
) -> None:
    """Open the WebSocket at ``url``, accept that of the client, and pass frames both ways until one side ends.
    ``options`` are those of aiohttp.

    Raises:
        StatusError: the other server refused the handshake.
        aiohttp.ClientError: it cannot be reached.
    """
    import aiohttp  # start-up time: with the first WebSocket

    connect = await request.receive()
    assert connect["type"] == "websocket.connect"
    headers = [(key, value) for key, value in options.pop("headers", ()) if not key.startswith(_HANDSHAKE)]
    offered = request.scope.get("subprotocols", [])
    try:
        async with session.ws_connect(
            url, protocols=offered, max_msg_size=_LONGEST_MESSAGE, autoping=True, headers=headers, **options
        ) as upstream:
            await send({"type": "websocket.accept", "subprotocol": upstream.protocol})
            await _pump(request, send, upstream)
    except aiohttp.WSServerHandshakeError as error:
        raise refusal_of(error.status, error.message) from None


async def _pump(request: Request, send: Send, upstream: aiohttp.ClientWebSocketResponse) -> None:
    """Pass frames both ways until one side ends."""
    import aiohttp  # as above

    async def outwards() -> None:
        while True:
            message = await request.receive()
            if message["type"] != "websocket.receive":
                await upstream.close()
                return
            data = message.get("bytes")
            if data is not None:
                await upstream.send_bytes(data)
            else:
                await upstream.send_str(message["text"])

    reader = asyncio.create_task(outwards(), name="websocket passed on")
    try:
        async for message in upstream:
            if message.type is aiohttp.WSMsgType.BINARY:
                await send({"type": "websocket.send", "bytes": message.data})
            elif message.type is aiohttp.WSMsgType.TEXT:
                await send({"type": "websocket.send", "text": message.data})
        if not reader.done():
            await send({"type": "websocket.close", "code": _close_code(upstream.close_code)})
    finally:
        # It may wait for a client that sends nothing.
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


def _close_code(code: int | None) -> int:
    """Return the code to pass on. A server that ends the connection without a close frame (1006) has ended normally.

    1004 to 1006 and 1015 only ever stand for something; they cannot be sent (RFC 6455, section 7.4.1).
    """
    return code if code is not None and code in _SENDABLE else 1000


def refusal_of(status: int, text: str) -> StatusError:
    """Return the error for the refusal of another server."""
    reason = {400: "BadRequest", 404: "NotFound", 403: "Forbidden"}.get(status, "InternalError")
    code = status if 400 <= status < 600 else 500
    return failure(code, reason, text.strip() or f"the node answered {status}")
