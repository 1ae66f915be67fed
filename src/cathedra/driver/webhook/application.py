"""What an API server calls: one path for reviews, one for readiness."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from cathedra.driver.parameters import ConfigModels
from cathedra.driver.webhook.review import BadReview, judge

__all__ = ["PATH", "WebhookApplication"]

PATH: Final = "/validate-resource-claim-parameters"
_MOST_BYTES: Final = 8 * 1024 * 1024
"""More than twice the largest object, since an update carries two."""
_PLAIN: Final = b"text/plain; charset=utf-8"
_LOG = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[Mapping[str, Any]]]


class WebhookApplication:
    """The ASGI application of a driver's webhook.

    It knows its callers by nothing but what they ask: an answer tells no more than the question itself.
    """

    def __init__(self, driver: str, models: ConfigModels) -> None:
        self._driver = driver
        self._models = models

    async def __call__(
        self, scope: Mapping[str, Any], receive: Receive, send: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        code, body, kind = await self._answer(scope, receive)
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Mapping[str, Any], receive: Receive) -> tuple[int, bytes, bytes]:
        if scope["path"] == "/readyz":
            return 200, b"ok", _PLAIN
        if scope["path"] != PATH:
            return 404, b"404 page not found\n", _PLAIN
        if scope["method"] != "POST":
            return 405, b"method not allowed\n", _PLAIN
        kinds = [value for name, value in scope["headers"] if name == b"content-type"]
        if not kinds or kinds[0].partition(b";")[0].strip() != b"application/json":
            return 415, b"the body must be application/json\n", _PLAIN
        body = await _read(receive)
        if body is None:
            return 413, b"the body is too large\n", _PLAIN
        try:
            answer = judge(body, self._driver, self._models)
        except BadReview as error:
            return 400, f"{error}\n".encode(), _PLAIN
        if not answer["response"]["allowed"]:
            _LOG.info("refused: %s", answer["response"]["status"]["message"])
        return 200, json.dumps(answer).encode(), b"application/json"


async def _read(receive: Receive) -> bytes | None:
    """The body; None if it is larger than any review."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size > _MOST_BYTES:
            return None
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)
