"""Large answers made small for clients that take gzip (docs/spec/apimachinery.md §1)."""

from __future__ import annotations

import asyncio
import gzip
from typing import Final

import msgspec

from cathedra.apiserver.http.answers.response import Response

__all__ = ["compressed", "takes_gzip", "worth_compressing"]

THRESHOLD: Final = 128 * 1024
_LEVEL: Final = 1


def worth_compressing(response: Response) -> bool:
    """Whether the answer is large enough for it to pay."""
    return response.status == 200 and len(response.body) + len(response.tail) > THRESHOLD


def takes_gzip(accept_encoding: str) -> bool:
    """Whether the client takes it."""
    return any(part.partition(";")[0].strip() == "gzip" for part in accept_encoding.split(","))


async def compressed(response: Response) -> Response:
    """The same answer in gzip; made in a thread, so that the loop goes on."""
    body = await asyncio.to_thread(_gzip, response.body, response.tail)
    headers = (*response.headers, (b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))
    return msgspec.structs.replace(response, body=body, tail=b"", headers=headers)


def _gzip(body: bytes, tail: bytes) -> bytes:
    return gzip.compress(body + tail if tail else body, compresslevel=_LEVEL, mtime=0)
