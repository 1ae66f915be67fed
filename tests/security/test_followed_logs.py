"""A client that leaves takes its log with it: the connection to the node does not stay open behind it."""

from __future__ import annotations

import asyncio
import random

import aiohttp
from aiohttp import web

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.clock import SystemClock
from tests.unit.apiserver.asgi import TOKEN, ASGIClient


async def test_a_followed_log_ends_with_its_client() -> None:
    server = await APIServer.open(ServerConfig(), clock=SystemClock(), random=random.Random(1))
    server.add_tokens({TOKEN: UserInfo("admin", ("system:masters",))})
    url = await server.serve(ServeOptions())
    asgi = ASGIClient(server)
    left = asyncio.Event()

    async def follow(asked: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(asked)
        await answer.write(b"line\n")
        try:
            await asyncio.Event().wait()  # until the connection is lost
        finally:
            left.set()
        return answer

    app = web.Application()
    app.router.add_get("/containerLogs/{path:.*}", follow)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": runner.addresses[0][1]}},
    }
    await asgi("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    kind = "application/merge-patch+json"
    assert (await asgi("PATCH", "/api/v1/nodes/n/status", {"status": status}, content_type=kind)).status == 200
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    await asgi("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session:
        answer = await session.get(f"{url}/api/v1/namespaces/default/pods/p/log?follow=true")
        assert await answer.content.readline() == b"line\n"
        answer.close()
        async with asyncio.timeout(120):
            await left.wait()
        await asgi.settle()
        text = (await asgi("GET", "/metrics")).body.decode()
    assert not [
        line for line in text.splitlines() if line.startswith("apiserver_request_total") and 'code="500"' in line
    ]
    await server.close()
    await runner.cleanup()
