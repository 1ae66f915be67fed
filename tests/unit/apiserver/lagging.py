"""A primary, and a replica whose connection delivers nothing until the replica sends something."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.apiserver.storage.primary import PrimaryStore
from cathedra.clock import LoopClock
from tests.unit.apiserver.asgi import TOKEN, ASGIClient

USER = "token of a user without rights"
TOKENS = {TOKEN: UserInfo("admin", ("system:masters",)), USER: UserInfo("viewer")}
_ROLES: Final = ServerConfig(authorization=True)


class LaggingStore(PrimaryStore):
    """A connection to a primary that holds back messages, from `hold` until something is written or requested."""

    def __init__(self) -> None:
        super().__init__()
        self.questions = 0
        """Number of requests for the revision of the primary."""
        self.writes = 0
        """Number of writes that were sent to the primary."""
        self.asked = asyncio.Event()
        """Set by a request after `mute`."""
        self._held: list[bytes] | None = None
        self._mute = False

    def hold(self) -> None:
        """From now on nothing arrives."""
        if self._held is None:
            self._held = []

    def mute(self) -> None:
        """Deliver nothing until `unmute`, whatever is written or requested."""
        self.hold()
        self._mute = True
        self.asked.clear()

    def unmute(self) -> None:
        """Let everything arrive."""
        self._mute = False
        self._release()

    def write(self, key: str, value: bytes | None, *, expected: int) -> asyncio.Future[int]:
        self.writes += 1
        self._release()
        return super().write(key, value, expected=expected)

    def latest(self) -> asyncio.Future[int]:
        self.questions += 1
        self.asked.set()
        self._release()
        return super().latest()

    def data_received(self, data: bytes) -> None:
        if self._held is not None:
            self._held.append(data)
        else:
            super().data_received(data)

    def _release(self) -> None:
        if self._mute:
            return
        held, self._held = self._held or [], None
        for data in held:
            super().data_received(data)


@dataclass
class Lagging:
    """Requests to a primary and to its replica."""

    primary: ASGIClient
    replica: ASGIClient
    line: LaggingStore

    async def behind(self, *writes: tuple[str, str, Any]) -> None:
        """Have the primary acknowledge writes (method, path, body) of which the replica knows nothing yet."""
        self.line.hold()
        for method, path, body in writes:
            answer = await self.primary(method, path, body)
            assert answer.status < 300, answer.body
        self.line.questions = self.line.writes = 0


@asynccontextmanager
async def lagging(config: ServerConfig = _ROLES) -> AsyncIterator[Lagging]:
    """Both servers, with roles."""
    clock = LoopClock(asyncio.get_running_loop())
    primary = await APIServer.open(config, clock=clock, random=random.Random(3))
    primary.context.static_tokens.add(TOKENS)
    try:
        async with joined(primary) as (replica, line):
            yield Lagging(ASGIClient(primary), replica, line)
    finally:
        await primary.close()


@asynccontextmanager
async def joined(primary: APIServer) -> AsyncIterator[tuple[ASGIClient, LaggingStore]]:
    """A replica, and its line."""
    one, other = socket.socketpair()
    await primary.serve_replica(one)
    line = await LaggingStore.over(other)
    replica = await APIServer.open(primary.config, clock=primary.context.clock, random=random.Random(4), store=line)
    replica.context.tokens.key = primary.context.tokens.key
    replica.context.static_tokens.add(TOKENS)
    try:
        yield ASGIClient(replica), line
    finally:
        await replica.close()
