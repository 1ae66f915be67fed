"""Requests straight into the server's ASGI application, without a socket."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.apiserver.storage.protocol import Storage
from cathedra.clock import Clock, LoopClock

TOKEN = "sesame"


@dataclass
class Answer:
    """A response."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def warnings(self) -> list[str]:
        return [value for key, value in self.headers if key == "warning"]

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")


class ASGIClient:
    """A server, and requests to it as one of its administrators."""

    def __init__(self, server: APIServer) -> None:
        self.server = server

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        user: str = TOKEN,
        **headers: str,
    ) -> Answer:
        path, _, query = path.partition("?")
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        given = {"user-agent": "test/1", **headers}
        if user:
            given["authorization"] = f"Bearer {user}"
        if raw:
            given["content-type"] = content_type
        answer = Answer()
        waiting = [{"type": "http.request", "body": raw, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if waiting:
                return waiting.pop()
            await asyncio.Event().wait()
            raise AssertionError("never set")

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = [(k.decode().lower(), v.decode()) for k, v in message["headers"]]
            else:
                answer.body += message.get("body", b"")

        scope = {
            "type": "http",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in given.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 6443),
            "scheme": "https",
            "http_version": "1.1",
            "extensions": {},
        }
        await self.server.app(scope, receive, send)
        return answer

    async def upgrade(self, path: str, *, user: str = TOKEN) -> Answer:
        """Request a WebSocket; the response has status 101 if it was accepted."""
        path, _, query = path.partition("?")
        answer = Answer()
        waiting = [{"type": "websocket.connect"}, {"type": "websocket.disconnect"}]

        async def receive() -> dict[str, Any]:
            return waiting.pop(0)

        async def send(message: Any) -> None:
            if message["type"] == "websocket.accept":
                answer.status = 101
            elif message["type"] == "websocket.http.response.start":
                answer.status = message["status"]
            elif message["type"] == "websocket.http.response.body":
                answer.body += message["body"]

        scope = {
            "type": "websocket",
            "path": unquote(path),
            "query_string": query.encode(),
            "headers": [(b"authorization", f"Bearer {user}".encode())] if user else [],
            "client": ("127.0.0.1", 1),
            "subprotocols": ["v5.channel.k8s.io"],
            "extensions": {},
        }
        await self.server.app(scope, receive, send)
        return answer

    async def settle(self) -> None:
        """Let everything that is ready run."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def gone(self, path: str) -> None:
        """Wait until the object is removed. Its controller may compute in a thread, which `settle` does not await."""
        status = 200
        while status != 404:
            await asyncio.sleep(0)
            status = (await self("GET", path)).status


@asynccontextmanager
async def open_asgi(
    config: ServerConfig | None = None, *, store: Storage | None = None, clock: Clock | None = None
) -> AsyncIterator[ASGIClient]:
    """A server of every built-in kind."""
    clock = clock or LoopClock(asyncio.get_running_loop())
    server = await APIServer.open(config or ServerConfig(), clock=clock, random=random.Random(3), store=store)
    server.context.static_tokens.add({TOKEN: UserInfo("admin", ("system:masters",))})
    try:
        yield ASGIClient(server)
    finally:
        await server.close()
