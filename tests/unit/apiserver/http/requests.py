"""Requests as the server's HTTP layer gets them, without a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cathedra.apiserver.http.request import Request

__all__ = ["request"]


def request(path: str = "/", method: str = "GET", *, chunks: Sequence[bytes] = (b"",), **headers: str) -> Request:
    """A request; ``path`` may have a query. After its ``chunks`` the client is gone."""
    path, _, query = path.partition("?")
    waiting = [
        {"type": "http.request", "body": chunk, "more_body": number < len(chunks)}
        for number, chunk in enumerate(chunks, 1)
    ]

    async def receive() -> dict[str, Any]:
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
    }
    return Request(scope, receive, "audit")
