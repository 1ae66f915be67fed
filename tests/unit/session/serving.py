"""An API server that listens on a unix socket, or on a port with TLS, and users of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from cathedra.apiserver.authentication.authenticator import PUBLIC_PATHS
from cathedra.apiserver.authentication.user import MASTERS_GROUP, UserInfo
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.pipeline.flowcontrol import SEATS
from cathedra.apiserver.server import APIServer
from cathedra.client.kubeconfig import Target
from cathedra.clock import LoopClock, SystemClock
from cathedra.releases import NEWEST, FeatureGates
from cathedra.session.opening import UpgradingTransport, open_transport
from cathedra.session.server import listen_on_socket, serve_sessions
from cathedra.session.transport import SessionTransport, UnixConnection

ADMIN = "token of an administrator"
UNKNOWN = "a token that was never handed out"
VIEWER = "token of a user without rights"
TOKENS = {ADMIN: UserInfo("admin", (MASTERS_GROUP,)), VIEWER: UserInfo("viewer")}


@dataclass(frozen=True)
class Served:
    """A server and one connection to it."""

    server: APIServer
    socket: Path
    connection: UnixConnection

    def user(self, token: str = ADMIN) -> SessionTransport:
        return SessionTransport(self.connection, token, agent="tests")


@asynccontextmanager
async def served(folder: Path, *, authorization: bool = False, audit_log: Path | None = None) -> AsyncIterator[Served]:
    clock = LoopClock(asyncio.get_running_loop())
    config = ServerConfig(gates=FeatureGates.for_release(), authorization=authorization, audit_log=audit_log)
    server = await APIServer.open(config, clock=clock, random=random.Random(1))
    connection = UnixConnection(folder / "api.sock")
    try:
        await listen_on_socket(server, folder / "api.sock", TOKENS)
        yield Served(server, folder / "api.sock", connection)
    finally:
        connection.close()
        await server.close()


@dataclass(frozen=True)
class Networked:
    """A server on a port with TLS."""

    server: APIServer

    def target(self, token: str = ADMIN) -> Target:
        assert self.server.pki is not None
        return Target(self.server.url, certificate_authority=self.server.pki.authority_certificate, token=token)

    @asynccontextmanager
    async def user(self, token: str = ADMIN) -> AsyncIterator[UpgradingTransport]:
        """Return the credentials of a user of that server; sessions are requested."""
        async with open_transport(self.target(token), user_agent="tests") as transport:
            assert isinstance(transport, UpgradingTransport)
            yield transport


@asynccontextmanager
async def networked(
    folder: Path,
    *,
    authorization: bool = False,
    audit_log: Path | None = None,
    seats: int = SEATS,
    port: int = 0,
    release: str = NEWEST,
    gates: Mapping[str, bool] = MappingProxyType({}),
    runtime_config: Mapping[str, bool] = MappingProxyType({}),
) -> AsyncIterator[Networked]:
    config = ServerConfig(
        gates=FeatureGates.for_release(release, gates),
        runtime_config=dict(runtime_config),
        authorization=authorization,
        audit_log=audit_log,
        max_requests_inflight=seats,
    )
    server = await APIServer.open(config, clock=SystemClock(), random=random.Random(1))
    serve_sessions(server)
    try:
        await server.serve(ServeOptions(port=port, pki=folder / "pki", tokens=TOKENS, anonymous=PUBLIC_PATHS))
        yield Networked(server)
    finally:
        await server.close()
