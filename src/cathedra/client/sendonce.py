"""A middleware for aiohttp that sends a write once.

aiohttp repeats PUT and DELETE when a connection that was used before ends without an answer. The server may have
carried the request out: repeated, a compare-and-swap is refused as a conflict, and a DELETE removes an object that was
made meanwhile. Such a request ends with `AnswerLost` instead, and its caller finds out. Reads are repeated as before.
"""

from __future__ import annotations

from typing import Final

import aiohttp

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class AnswerLost(aiohttp.ClientError):
    """The connection ended before the answer of a write came; it may have been carried out."""


async def send_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Send a request, and a write no second time.

    Raises:
        AnswerLost: the connection ended without the answer of a write.
        aiohttp.ClientConnectorError: no connection could be made, so nothing was sent.
        aiohttp.ClientError: anything else that aiohttp reports.
    """
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        if request.method in _READS:
            raise
        # Not a subclass of the errors after which aiohttp sends the request again.
        raise AnswerLost(str(error)) from error
