"""Requests in binary messages are recorded as those over HTTP, at a bounded cost."""

from __future__ import annotations

import tracemalloc

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.local.records import Recorder
from cathedra.client.local.messages import LocalRequest, Options
from tests.unit.apiserver.asgi import open_asgi

MEGABYTE = 1_000_000


async def test_names_as_long_as_messages_are_not_kept() -> None:
    async with open_asgi() as asgi:
        recorder = Recorder(asgi.server.context, asgi.server.app.metrics, None)
        tracemalloc.start()
        try:
            for number in range(20):
                resource = f"{number}{'x' * MEGABYTE}"
                request = LocalRequest(1, 1, "get", "", "v1", resource, "default", "a", "", 0, Options())
                recorder.end(recorder.begin(request, UserInfo("ada"), "agent"), 404)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert held < 3 * MEGABYTE
