"""A client certificate is valid until it expires, also on a connection that began before."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cathedra.apiserver.authentication.user import MASTERS_GROUP, UserInfo
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.clock import SystemClock
from cathedra.releases import FeatureGates
from cathedra.session.server import serve_sessions

TOKEN = "token of an administrator"
YEARS = 20 * 365 * 86_400.0


class AdvancedClock(SystemClock):
    """The system's clock, some seconds ahead."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


@dataclass(frozen=True)
class Served:
    server: APIServer
    clock: AdvancedClock
    context: ssl.SSLContext


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Served]:
    """A server, and the context of a client with the administrator's certificate."""
    clock = AdvancedClock()
    server = await APIServer.open(ServerConfig(gates=FeatureGates.for_release()), clock=clock, random=random.Random(1))
    tokens = {TOKEN: UserInfo("admin", (MASTERS_GROUP,))}
    serve_sessions(server)
    await server.serve(ServeOptions(pki=folder / "pki", tokens=tokens))
    assert server.pki is not None
    pair = server.pki.administrator()
    file = folder / "client.pem"
    file.write_bytes(pair.certificate + pair.key)
    context = ssl.create_default_context(cadata=server.pki.authority_certificate.decode())
    context.load_cert_chain(file)
    try:
        yield Served(server, clock, context)
    finally:
        await server.close()


async def status(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *headers: str) -> bytes:
    """The status of one request on a kept connection."""
    writer.write("\r\n".join(("GET /api/v1/namespaces HTTP/1.1", "Host: x", *headers, "", "")).encode())
    async with asyncio.timeout(60):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
    return head.split(b" ")[1]


async def test_a_kept_connection_is_refused_once_its_certificate_has_ended(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        reader, writer = await asyncio.open_connection("127.0.0.1", there.server.port, ssl=there.context)
        assert await status(reader, writer) == b"200"
        there.clock.ahead = YEARS
        assert await status(reader, writer) == b"401"
        assert await status(reader, writer, "Authorization: Basic eDp5") == b"401"
        assert await status(reader, writer, f"Authorization: Bearer {TOKEN}") == b"200"
        there.clock.ahead = 0.0
        assert await status(reader, writer) == b"200"
        writer.close()


async def test_a_websocket_and_a_session_do_not_begin_with_a_certificate_that_has_ended(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        for upgrade, path in (
            ("websocket", "/api/v1/namespaces/default/pods/p/exec?command=x"),
            ("cathedra-session/2", "/api/session"),
            ("SPDY/3.1", "/api/v1/namespaces/default/pods/p/exec?command=x"),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", there.server.port, ssl=there.context)
            assert await status(reader, writer) == b"200"
            there.clock.ahead = YEARS
            lines = (f"GET {path} HTTP/1.1", "Host: x", "Connection: Upgrade", f"Upgrade: {upgrade}")
            key = ("Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
            writer.write("\r\n".join((*lines, *key, "", "")).encode())
            async with asyncio.timeout(60):
                assert (await reader.readline()).split(b" ")[1] == b"401", upgrade
            writer.close()
            there.clock.ahead = 0.0


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_no_session_is_resumed_with_a_ticket(tmp_path: Path, version: ssl.TLSVersion) -> None:
    async with served(tmp_path) as there:
        there.context.maximum_version = version
        assert not await asyncio.to_thread(_ticket, there.context, there.server.port)


def _ticket(context: ssl.SSLContext, port: int) -> bool:
    """Return True if the server sends a ticket, with or after the handshake."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
    ):
        secured.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        while secured.recv(65_536):
            pass
        return secured.session is not None and secured.session.has_ticket
