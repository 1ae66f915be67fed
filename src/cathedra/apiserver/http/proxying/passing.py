"""HTTP requests and answers that are passed on: which headers go along, and the body as it comes.

Headers of one connection stay with it, credentials for this server stay here, and headers by which a client could claim
to be another user never reach a server that might believe them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from cathedra.apiserver.http.request import Request
from cathedra.asgi.application import Send

if TYPE_CHECKING:
    import aiohttp

__all__ = ["pass_back", "passed_headers"]

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
_CLAIMS: Final = (b"x-remote-", b"impersonate-")
"""Headers by which a client could claim to be another user."""


def passed_headers(request: Request) -> list[tuple[str, str]]:
    """The headers of a request that the server behind gets to see."""
    return [
        (key.decode("latin-1"), value.decode("latin-1"))
        for key, value in request.scope["headers"]
        if key not in _OWN and not key.startswith(_CLAIMS)
    ]


async def pass_back(
    request: Request, answer: aiohttp.ClientResponse, send: Send, *, replaced: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Hand an answer on as it comes, with some of its headers ``replaced``; it ends when the client goes."""
    instead = dict(replaced)
    named = [(key.lower().encode("latin-1"), value.encode("latin-1")) for key, value in answer.headers.items()]
    headers = [(key, instead.get(key, value)) for key, value in named if key not in _OWN or key == b"content-length"]
    headers.append((b"audit-id", request.audit_id))
    gone = asyncio.create_task(_until_gone(request, answer), name="passed request disconnect")
    try:
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        async for chunk in answer.content.iter_any():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)


async def _until_gone(request: Request, answer: aiohttp.ClientResponse) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    answer.close()
