"""Large answers are compressed for clients that take gzip."""

from __future__ import annotations

import gzip
import json

from tests.unit.apiserver.asgi import open_asgi

MAPS = "/api/v1/namespaces/default/configmaps"


async def test_large_answers_are_small_for_clients_that_take_gzip() -> None:
    async with open_asgi() as asgi:
        for number in range(3):
            await asgi("POST", MAPS, {"metadata": {"name": f"m{number}"}, "data": {"k": "x" * 100_000}})
        plain = await asgi("GET", MAPS)
        small = await asgi("GET", MAPS, accept_encoding="gzip, br")
    assert plain.header("content-encoding") == ""
    assert small.header("content-encoding") == "gzip"
    assert json.loads(gzip.decompress(small.body)) == plain.json
    assert len(small.body) < len(plain.body) // 10
