"""Bodies of answers that the API server receives from other servers: webhooks, nodes and aggregated APIs.

`aiohttp`'s ``StreamReader.read(n)`` returns as soon as *something* has arrived. A server that writes its answer in two
pieces would be judged by the first one, and a webhook's refusal behind ``failurePolicy: Ignore`` would be lost. Every
bounded read of a peer's answer goes through this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp


class BodyTooLarge(ValueError):
    """The peer sent more than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"the answer is longer than {limit} bytes")


async def read_whole(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    """Return the whole body of ``answer``.

    Raises:
        BodyTooLarge: it has more than ``limit`` bytes; the rest is not read.
        aiohttp.ClientError: the connection ended before the body did.
    """
    body = await read_start(answer, limit + 1)
    if len(body) > limit:
        raise BodyTooLarge(limit)
    return body


async def read_start(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    """Return the first ``limit`` bytes of the body of ``answer``, or all of it if it is shorter.

    Raises:
        aiohttp.ClientError: the connection ended before the body did.
    """
    pieces: list[bytes] = []
    left = limit
    while left > 0 and (piece := await answer.content.read(left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
