"""The API server follows no redirect of a node: the node could choose the target of a request in its name."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
import pytest
from aiohttp import web

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.clock import SystemClock
from tests.unit.apiserver.asgi import TOKEN, ASGIClient

STREAMS = ("exec", "attach", "portforward")


@dataclass
class Redirecting:
    """An API server, and a node all of whose answers point to a page that only the server can reach."""

    asgi: ASGIClient
    url: str
    asked: list[str] = field(default_factory=list)
    """The requested paths of the page."""


@pytest.fixture(params=[301, 302, 303, 307, 308])
async def redirecting(request: pytest.FixtureRequest) -> AsyncIterator[Redirecting]:
    server = await APIServer.open(ServerConfig(), clock=SystemClock(), random=random.Random(1))
    server.context.static_tokens.add({TOKEN: UserInfo("admin", ("system:masters",))})
    found = Redirecting(ASGIClient(server), await server.serve(ServeOptions()))

    async def node(asked: web.Request) -> web.Response:
        if asked.path.startswith("/secret"):
            found.asked.append(asked.path)
            return web.Response(text="secret")
        return web.Response(status=request.param, headers={"Location": "/secret"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", node)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    await found.asgi("POST", "/api/v1/nodes", {"metadata": {"name": "rogue"}, "status": status})
    spec = {"nodeName": "rogue", "containers": [{"name": "c", "image": "i"}]}
    await found.asgi("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})
    await found.asgi(
        "PATCH", "/api/v1/nodes/rogue/status", {"status": status}, content_type="application/merge-patch+json"
    )
    yield found
    await server.close()
    await runner.cleanup()


async def test_a_log_is_not_fetched_from_elsewhere(redirecting: Redirecting) -> None:
    answer = await redirecting.asgi("GET", "/api/v1/namespaces/default/pods/p/log")
    assert (answer.status, redirecting.asked) == (500, []), answer.body
    assert "redirect" in answer.json["message"]
    assert b"secret" not in answer.body


@pytest.mark.parametrize("stream", STREAMS)
async def test_nor_is_a_connection_opened_elsewhere(redirecting: Redirecting, stream: str) -> None:
    url = f"{redirecting.url}/api/v1/namespaces/default/pods/p/{stream}?command=id"
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(url, headers=headers)
    assert (refused.value.status, redirecting.asked) == (500, [])
