"""Watches over HTTP, event by event."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cathedra.clock import run_virtual
from tests.running import run_with
from tests.unit.apiserver.asgi import TOKEN, ASGIClient, open_asgi

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


class Stream:
    """A watch under way."""

    def __init__(self, client: ASGIClient, query: str, accept: str) -> None:
        self.status = 0
        self._lines: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._gone = asyncio.Event()
        scope = {
            "type": "http",
            "method": "GET",
            "path": MAPS,
            "raw_path": MAPS.encode(),
            "query_string": f"watch=true&{query}".encode(),
            "headers": [(b"authorization", f"Bearer {TOKEN}".encode()), (b"accept", accept.encode())],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 6443),
            "scheme": "https",
            "http_version": "1.1",
            "extensions": {},
        }
        self.task = asyncio.create_task(client.server.app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        for line in message["body"].splitlines():
            self._lines.put_nowait(json.loads(line))
        if not message.get("more_body"):
            self._lines.put_nowait({"type": "END"})

    async def next(self) -> dict[str, Any]:
        """The next event; one of the type END at the end."""
        return await self._lines.get()

    def leave(self) -> None:
        """The client goes away."""
        self._gone.set()


@asynccontextmanager
async def watching(client: ASGIClient, query: str = "", accept: str = "application/json") -> AsyncIterator[Stream]:
    stream = Stream(client, query, accept)
    try:
        yield stream
    finally:
        stream.leave()
        await asyncio.wait_for(stream.task, 120)


def in_virtual_time(body: Any) -> None:
    async def main() -> None:
        async with open_asgi() as client:
            await client("DELETE", MAPS)
            await body(client)

    run_virtual(main())


@run_with(in_virtual_time)
async def test_what_is_there_comes_first_and_then_every_change(client: ASGIClient) -> None:
    await client("POST", MAPS, {"metadata": {"name": "a"}})
    async with watching(client) as stream:
        first = await stream.next()
        assert (first["type"], first["object"]["kind"]) == ("ADDED", "ConfigMap")
        assert first["object"]["metadata"]["name"] == "a"
        await client("PATCH", f"{MAPS}/a", {"data": {"k": "v"}}, content_type="application/merge-patch+json")
        await client("DELETE", f"{MAPS}/a")
        assert [(await stream.next())["type"] for _ in range(2)] == ["MODIFIED", "DELETED"]
        assert stream.status == 200


@run_with(in_virtual_time)
async def test_a_watch_ends_when_its_time_is_over(client: ASGIClient) -> None:
    async with watching(client, "timeoutSeconds=30") as stream:
        began = asyncio.get_running_loop().time()
        assert (await stream.next())["type"] == "END"
        assert asyncio.get_running_loop().time() - began == pytest.approx(30, abs=1)


@run_with(in_virtual_time)
async def test_bookmarks_come_each_minute_to_those_who_want_them(client: ASGIClient) -> None:
    async with watching(client, "allowWatchBookmarks=true") as stream:
        began = asyncio.get_running_loop().time()
        await client("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
        mark = await stream.next()
        assert mark["type"] == "BOOKMARK"
        assert (mark["object"]["kind"], mark["object"]["apiVersion"]) == ("ConfigMap", "v1")
        assert int(mark["object"]["metadata"]["resourceVersion"]) == client.server.revision
        assert asyncio.get_running_loop().time() - began == pytest.approx(60, abs=1)


@run_with(in_virtual_time)
async def test_a_list_that_is_streamed_ends_with_a_bookmark(client: ASGIClient) -> None:
    await client("POST", MAPS, {"metadata": {"name": "a"}})
    query = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    async with watching(client, query) as stream:
        added, mark = await stream.next(), await stream.next()
        assert (added["type"], mark["type"]) == ("ADDED", "BOOKMARK")
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@run_with(in_virtual_time)
async def test_only_the_first_table_of_a_watch_says_its_columns(client: ASGIClient) -> None:
    async with watching(client, accept=TABLE) as stream:
        for name in ("a", "b"):
            await client("POST", MAPS, {"metadata": {"name": name}})
        first, second = await stream.next(), await stream.next()
        assert (first["object"]["kind"], first["object"]["rows"][0]["cells"][0]) == ("Table", "a")
        assert first["object"]["columnDefinitions"]
        assert second["object"]["columnDefinitions"] is None


@run_with(in_virtual_time)
async def test_metadata_alone_is_watched_without_the_rest(client: ASGIClient) -> None:
    async with watching(client, accept=PARTIAL) as stream:
        await client("POST", MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        event = await stream.next()
        assert event["object"]["kind"] == "PartialObjectMetadata"
        assert "data" not in event["object"]


@run_with(in_virtual_time)
async def test_a_client_that_goes_away_ends_its_watch(client: ASGIClient) -> None:
    async with watching(client) as stream:
        stream.leave()
        await asyncio.wait_for(asyncio.shield(stream.task), 120)
