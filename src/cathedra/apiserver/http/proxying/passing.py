"""HTTP requests and answers that are passed on: which headers go along, and the body as it comes.

Headers of one connection stay with it, credentials for this server stay here, and headers by which a client could claim
to be another user never reach a server that might believe them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Final

from cathedra.apiserver.admission.webhooks.networktexts import network_text
from cathedra.apiserver.http.request import ClientGone, Request
from cathedra.asgi.application import Send

if TYPE_CHECKING:
    import aiohttp

__all__ = ["LONGEST_PAGE", "PassedBody", "pass_back", "passed_headers"]

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


def passed_headers(request: Request) -> list[tuple[str, str]]:
    """The headers of a request that the server behind gets to see."""
    return [
        (key.decode("latin-1"), value.decode("latin-1"))
        for key, value in request.scope["headers"]
        if not _is_withheld(key.lower().replace(b"_", b"-"))
    ]


def _is_withheld(name: bytes) -> bool:
    """Return True for a header that stays here. Many servers read ``_`` in a name as ``-``."""
    return name in _OWN or name.startswith(_CLAIMS)


class PassedBody:
    """The body of a request, of any size: handed on as it comes, and read by nothing else. Made by `of`."""

    def __init__(self, request: Request, first: bytes, *, more: bool) -> None:
        self._request = request
        self._first = first
        self._complete = asyncio.Event()
        if not more:
            self._complete.set()

    @classmethod
    async def of(cls, request: Request) -> PassedBody:
        """The body, of which the beginning has come.

        Raises:
            ClientGone: the client went away.
        """
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientGone(request.path)
        return cls(request, message.get("body", b""), more=message.get("more_body", False))

    @property
    def data(self) -> bytes | AsyncIterator[bytes] | None:
        """What is sent; None if there is no body."""
        return (self._first or None) if self._complete.is_set() else self._chunks()

    @property
    def headers(self) -> list[tuple[str, str]]:
        """How long it is, where the client has said it and it is not known from the data."""
        length = self._request.header(b"content-length")
        return [("Content-Length", length)] if length and not self._complete.is_set() else []

    async def gone(self) -> None:
        """Wait for the client to go, once all of the body has come."""
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
    """Hand an answer on as it comes, with some of its headers ``replaced``; it ends when the client goes.

    A whole HTML page is what ``page`` makes of it, unless it is longer than `LONGEST_PAGE`.
    """
    instead = dict(replaced)
    named = [(key.lower().encode("latin-1"), value.encode("latin-1")) for key, value in answer.headers.items()]
    headers = [(key, instead.get(key, value)) for key, value in named if key not in _OWN or key == b"content-length"]
    headers.append((b"audit-id", request.audit_id))
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
    """Hand on what follows; where the other server breaks off, so does this one: no other answer can be given now."""
    import aiohttp  # start-up time: with the first request that is passed on

    try:
        async for chunk in answer.content.iter_any():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except ClientGone:
        raise
    except (aiohttp.ClientError, OSError) as error:
        _LOG.info("%s was cut short: %s", request.path, network_text(error))
        if request.exchange is not None:
            request.exchange.break_off()
    else:
        await send({"type": "http.response.body", "body": b""})


def _is_page(answer: aiohttp.ClientResponse) -> bool:
    return answer.content_type == "text/html" and "Content-Encoding" not in answer.headers and answer.method != "HEAD"


async def _beginning(answer: aiohttp.ClientResponse) -> bytes:
    """The answer, or a bit more of it than the longest page has."""
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
