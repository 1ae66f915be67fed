"""The API server of a workload in a process of its own, and the ways to it: a socket, sessions over TLS, or HTTP."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import Target
from cathedra.client.transport import Transport
from cathedra.session.opening import open_transport
from cathedra.session.transport import SessionTransport, UnixConnection

__all__ = ["USERS", "TransportOf", "served_apart"]

USERS: Final = ("bench", "system:kube-controller-manager", "system:kube-scheduler")
"""Each with its name as its token: the server lives for one workload, in a folder that is removed."""

TransportOf = Callable[[str], Transport]
Ways = Callable[[Path, str], AbstractAsyncContextManager[TransportOf]]
"""Return the credentials of each user for the server with this folder and URL."""


@asynccontextmanager
async def served_apart(ways: Ways) -> AsyncIterator[tuple[TransportOf, int]]:
    """An API server in a process of its own: a transport for each user, and its process id."""
    with tempfile.TemporaryDirectory() as folder:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.scheduler.server", folder), stdin=PIPE, stdout=PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            opened = json.loads(await process.stdout.readline())
            async with ways(Path(folder), opened["url"]) as transport_of:
                yield transport_of, process.pid
        finally:
            process.stdin.close()
            await process.wait()


@asynccontextmanager
async def over_socket(folder: Path, url: str) -> AsyncIterator[TransportOf]:
    connection = UnixConnection(folder / "api.sock")
    try:
        yield lambda user: SessionTransport(connection, user)
    finally:
        connection.close()


@asynccontextmanager
async def over_tls(folder: Path, url: str) -> AsyncIterator[TransportOf]:
    """Sessions, each with a connection of its own."""
    async with AsyncExitStack() as opened:
        ways = {
            user: await opened.enter_async_context(open_transport(_target(folder, url, user), user_agent=user))
            for user in USERS
        }
        yield ways.__getitem__


@asynccontextmanager
async def over_http(folder: Path, url: str) -> AsyncIterator[TransportOf]:
    """HTTP alone, as any client of Kubernetes."""
    opened = {user: await HTTPTransport.open(_target(folder, url, user)) for user in USERS}
    try:
        yield opened.__getitem__
    finally:
        for transport in opened.values():
            await transport.close()


def _target(folder: Path, url: str, user: str) -> Target:
    authority = (folder / "pki" / "ca.crt").read_bytes()
    return Target(server=url, certificate_authority=authority, token=user)
