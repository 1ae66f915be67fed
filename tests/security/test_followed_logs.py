"""A client that leaves takes its log with it: the connection to the node does not stay open behind it, nor the file."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import tempfile
from pathlib import Path

import aiohttp
from aiohttp import web

from cathedra.api.core.core_v1 import Container
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.clock import SystemClock
from tests.integration.real_node import TOKEN as NODE_TOKEN
from tests.integration.real_node import RealNode, running
from tests.unit.apiserver.asgi import TOKEN, ASGIClient
from tests.unit.node.fakes import make_pod


async def test_a_followed_log_ends_with_its_client() -> None:
    server = await APIServer.open(ServerConfig(), clock=SystemClock(), random=random.Random(1))
    server.context.static_tokens.add({TOKEN: UserInfo("admin", ("system:masters",))})
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


def open_files(*words: str) -> list[str]:
    """Return the open files of this process whose name includes one of ``words``."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    return [target for target in found if any(word in target for word in words)]


async def test_a_follower_of_a_silent_pod_leaves_nothing_open() -> None:
    """A host has 128 inotify instances for each user; 51 followers that had disconnected used up the rest."""
    directory = Path(tempfile.mkdtemp(prefix="node-"))
    node = RealNode(directory / "node", "process")
    async with running(node.agent):
        await node.run_pod(make_pod("p", Container(name="c", command=("sh", "-c", "echo once; exec sleep 600"))))
        await node.until_phase("Running")
        before = len(open_files("inotify"))
        url = f"https://127.0.0.1:{node.agent.port}/containerLogs/default/p/c?follow=true"
        headers = {"Authorization": f"Bearer {NODE_TOKEN}"}
        sessions = [node.session() for _ in range(20)]
        answers = [await session.get(url, headers=headers) for session in sessions]
        for answer in answers:
            assert await answer.content.readline() == b"once\n"
        assert len(open_files("inotify")) - before == 1
        assert len(open_files("/0.log")) == 20
        for session in sessions:
            await session.close()
        await node.until(lambda: not open_files("/0.log"))
        assert len(open_files("inotify")) == before
    shutil.rmtree(directory, ignore_errors=True)
