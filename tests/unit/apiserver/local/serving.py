"""An API server that listens on a unix socket, and users of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cathedra.api.gates import FeatureGates
from cathedra.apiserver.authentication.user import MASTERS_GROUP, UserInfo
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.local.transport import LocalTransport
from cathedra.client.local.unix import LocalConnection
from cathedra.clock import LoopClock

ADMIN = "token of an administrator"
UNKNOWN = "a token that was never handed out"
VIEWER = "token of a user without rights"
TOKENS = {ADMIN: UserInfo("admin", (MASTERS_GROUP,)), VIEWER: UserInfo("viewer")}


@dataclass(frozen=True)
class Served:
    """A server and one connection to it."""

    server: APIServer
    socket: Path
    connection: LocalConnection

    def user(self, token: str = ADMIN) -> LocalTransport:
        return LocalTransport(self.connection, token, agent="tests")


@asynccontextmanager
async def served(folder: Path, *, authorization: bool = False, audit_log: Path | None = None) -> AsyncIterator[Served]:
    clock = LoopClock(asyncio.get_running_loop())
    config = ServerConfig(gates=FeatureGates.for_release(), authorization=authorization, audit_log=audit_log)
    server = await APIServer.open(config, clock=clock, random=random.Random(1))
    connection = LocalConnection(folder / "api.sock")
    try:
        await server.serve_locally(folder / "api.sock", TOKENS)
        yield Served(server, folder / "api.sock", connection)
    finally:
        connection.close()
        await server.close()
