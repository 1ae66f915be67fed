"""WebSockets that are passed on: frames in both directions, as they are."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from cathedra.api.status import StatusError, failure
from cathedra.apiserver.http.request import Request
from cathedra.asgi.application import Send

if TYPE_CHECKING:
    import aiohttp

__all__ = ["pass_websocket", "refusal_of"]

_SENDABLE: Final = frozenset({*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)})
_LONGEST_MESSAGE: Final = 32 * 1024 * 1024
"""Bytes of a message from the other server: as many as a client's may have."""
_HANDSHAKE: Final = "sec-websocket-"


async def pass_websocket(
    request: Request, send: Send, session: aiohttp.ClientSession, url: Any, **options: Any
) -> None:
    """Open the WebSocket at ``url``, take the client's, and hand on frames until one side is done; ``options`` are
    those of aiohttp.

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
    """Frames from the client to the other server and back, until one side is done."""
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
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


def _close_code(code: int | None) -> int:
    """The code to pass on: a server that ends the connection without a close frame (1006) has come to a normal end.

    1004 to 1006 and 1015 only ever stand for something; they cannot be sent (RFC 6455, section 7.4.1).
    """
    return code if code is not None and code in _SENDABLE else 1000


def refusal_of(status: int, text: str) -> StatusError:
    """What another server's refusal becomes."""
    reason = {400: "BadRequest", 404: "NotFound", 403: "Forbidden"}.get(status, "InternalError")
    code = status if 400 <= status < 600 else 500
    return failure(code, reason, text.strip() or f"the node answered {status}")
