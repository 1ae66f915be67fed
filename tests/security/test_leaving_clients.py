"""Clients of streams that vanish are no errors, and leave nothing behind: by real sockets, reset in the middle."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import ssl
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cathedra.api.core.core_v1 import Container
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.clock import SystemClock
from cathedra.node.spdy import Writer
from cathedra.releases import FeatureGates
from tests.integration.real_node import TOKEN, RealNode, running
from tests.unit.node.fakes import make_pod

EXEC = "stdin=1&stdout=1&stderr=1&input=1&output=1&error=1"
REQUESTS = (
    ("/exec/default/p/c?command=yes&" + EXEC, "v5.channel.k8s.io", "v4.channel.k8s.io"),
    ("/exec/default/p/c?command=cat&" + EXEC, "v5.channel.k8s.io", "v4.channel.k8s.io"),
    ("/attach/default/p/c?" + EXEC, "v5.channel.k8s.io", "v4.channel.k8s.io"),
    ("/portForward/default/p", "SPDY/3.1+portforward.k8s.io", "portforward.k8s.io"),
    ("/exec/default/p/c?command=yes&" + EXEC, "base64.channel.k8s.io", ""),
    ("/attach/default/p/c?" + EXEC, "", ""),
    ("/portForward/default/p?port=1", "v4.channel.k8s.io", ""),
    ("/portForward/default/p?port=1", "v4.base64.channel.k8s.io", ""),
)


@pytest.fixture
async def node() -> AsyncIterator[RealNode]:
    directory = Path(tempfile.mkdtemp(prefix="node-"))
    found = RealNode(directory / "node", "process")
    found.server.grants.add(("operator", "create", "proxy"))
    async with running(found.agent):
        script = "while :; do echo line; sleep 0.01; done"
        await found.run_pod(make_pod("p", Container(name="c", command=("sh", "-c", script), stdin=True)))
        await found.until_phase("Running")
        yield found
    shutil.rmtree(directory, ignore_errors=True)


async def opened(node: RealNode, path: str, *headers: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which a stream has begun; nothing is read from it after the head of the answer."""
    trusted = ssl.create_default_context(cafile=str(node.root / "pki" / "kubelet.crt"))
    reader, writer = await asyncio.open_connection("127.0.0.1", node.agent.port, ssl=trusted, limit=1024)
    method = "POST" if "Upgrade: SPDY/3.1" in headers else "GET"
    lines = [f"{method} {path} HTTP/1.1", "Host: node", f"Authorization: Bearer {TOKEN}", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 101 ", b"HTTP/1.1 200 ")), head
    return reader, writer


async def begun(node: RealNode) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    upgrade = ("Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
    found = [await opened(node, "/containerLogs/default/p/c?follow=true")]
    for path, subprotocol, protocol in REQUESTS:
        found.append(await opened(node, path, *upgrade, "Upgrade: websocket", f"Sec-WebSocket-Protocol: {subprotocol}"))
        if not protocol:
            continue
        spdy = ("Connection: Upgrade", "Upgrade: SPDY/3.1", "Content-Length: 0")
        reader, writer = await opened(node, path, *spdy, f"X-Stream-Protocol-Version: {protocol}")
        frames, kinds = Writer(), ("error", "data") if "portForward" in path else ("error", "stdin", "stdout", "stderr")
        for number, kind in enumerate(kinds):
            writer.write(frames.open(2 * number + 1, {"streamType": kind, "port": "1", "requestID": "0"}))
        found.append((reader, writer))
    return found


async def test_clients_that_vanish_are_no_errors_and_leave_nothing_open(
    node: RealNode, caplog: pytest.LogCaptureFixture
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        connections = await begun(node)
        await asyncio.sleep(0.3)  # commands whose output is never read fill the buffers
        for _, writer in connections:
            writer.transport.abort()
        connections.clear()
        await node.until(lambda: len(os.listdir("/proc/self/fd")) <= before + 2)
    assert [record.getMessage() for record in caplog.records if record.levelname in ("ERROR", "WARNING")] == []


async def test_clients_of_the_api_server_that_vanish_are_no_errors(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = ServerConfig(gates=FeatureGates.for_release())
    server = await APIServer.open(config, clock=SystemClock(), random=random.Random(1))
    user = UserInfo("u", ("system:masters",))
    await server.serve(ServeOptions(pki=tmp_path / "pki", tokens={"t": user}))
    maps = "/api/v1/namespaces/default/configmaps"
    before = len(os.listdir("/proc/self/fd"))
    try:
        trusted = ssl.create_default_context(cafile=str(tmp_path / "pki" / "ca.crt"))
        writers = []
        for path in (f"{maps}?watch=1", f"{maps}?watch=1&sendInitialEvents=true", maps, "/metrics", "/openapi/v2"):
            _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=trusted, limit=1024)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer t\r\n\r\n".encode())
            writers.append(writer)
        _, halfway = await asyncio.open_connection("127.0.0.1", server.port, ssl=trusted)
        head = f"POST {maps} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer t\r\nContent-Length: 9\r\n\r\n"
        halfway.write(head.encode() + b"{")
        await asyncio.sleep(0.3)  # the answers have begun
        for writer in (*writers, halfway):
            writer.transport.abort()
        writers.clear()
        async with asyncio.timeout(30):
            while len(os.listdir("/proc/self/fd")) > before + 1:  # noqa: ASYNC110 - sockets set no events
                await asyncio.sleep(0.01)
    finally:
        await server.close()
    assert [record.getMessage() for record in caplog.records if record.levelname in ("ERROR", "WARNING")] == []
