"""An informer over HTTP while its server goes away and comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.informer import Informer
from cathedra.client.kubeconfig import Target
from cathedra.client.resources import PODS
from cathedra.clock import SystemClock


class Hasty(SystemClock):
    """A clock that sleeps for a shorter time than requested."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 100)


class Pods:
    """A server of pods that forgets its watchers, and perhaps its history, when it is started anew."""

    def __init__(self) -> None:
        self.revision = 10
        self.names: dict[str, int] = {}
        self.port = 0
        self.oldest = 0
        self.lists = 0
        self._changed = asyncio.Event()

    def put(self, name: str) -> None:
        self.revision += 1
        self.names[name] = self.revision
        self._changed.set()

    def drop(self, name: str) -> None:
        self.revision += 1
        del self.names[name]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        application = web.Application()
        application.router.add_get("/api/v1/pods", self._answer)
        runner = web.AppRunner(application, shutdown_timeout=0.01)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port, reuse_address=True).start()
        self.port = runner.addresses[0][1]
        try:
            yield f"http://127.0.0.1:{self.port}"
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            self.lists += 1
            items = [self._pod(name) for name in self.names]
            body = {"kind": "PodList", "metadata": {"resourceVersion": str(self.revision)}, "items": items}
            return web.json_response(body)
        seen = int(request.query["resourceVersion"])
        if seen < self.oldest:
            status = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old"}
            return web.json_response(status, status=410)
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            for name, revision in self.names.items():
                if revision > seen:
                    await response.write(json.dumps({"type": "ADDED", "object": self._pod(name)}).encode() + b"\n")
            seen = self.revision
            self._changed.clear()
            await self._changed.wait()

    def _pod(self, name: str) -> dict[str, Any]:
        metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(self.names[name])}
        return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}


async def until_named(informer: Informer[Any], *names: str) -> None:
    """Wait until the informer's store holds exactly these pods."""
    changed = asyncio.Event()
    informer.add_handler(lambda _: changed.set(), lambda *_: changed.set(), lambda _: changed.set())
    async with asyncio.timeout(120):
        while {pod.metadata.name for pod in informer.store.list()} != set(names):
            changed.clear()
            await changed.wait()


@pytest.mark.parametrize("history", [True, False])
async def test_a_server_that_comes_back_is_followed_again(history: bool) -> None:
    """With its history from where the informer was, else from a new list that shows what is gone."""
    server = Pods()
    server.put("a")
    server.put("b")
    async with server.serving() as url:
        transport = await HTTPTransport.open(Target(server=url))
    informer = Informer(Client(transport, clock=Hasty()), PODS, clock=Hasty())
    async with transport, asyncio.TaskGroup() as group:
        async with server.serving():
            following = group.create_task(informer.run())
            await informer.wait_synced()
            await until_named(informer, "a", "b")
        server.put("c")
        if not history:
            server.drop("a")
            server.oldest = server.revision
        async with server.serving():
            await until_named(informer, *server.names)
        assert server.lists == (1 if history else 2)
        following.cancel()
