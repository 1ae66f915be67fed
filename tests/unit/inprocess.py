"""An API server in process and its client, in virtual time: for tests of parts that talk to the API."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.informer import SharedInformers
from cathedra.clock import LoopClock, run_virtual
from cathedra.releases import FeatureGates
from tests.unit.apiserver.plain_definitions import plain_definitions

__all__ = ["API", "with_api"]

T = TypeVar("T")


class API:
    """The test's own client, and informers that run as soon as `follow` is called."""

    def __init__(self, client: Client, clock: LoopClock, transport: Any) -> None:
        self.client = client
        self.clock = clock
        self.transport = transport
        self.informers = SharedInformers(client, clock)
        self._running: asyncio.Future[None] | None = None

    def follow(self) -> None:
        """Let the informers run."""
        self._running = asyncio.ensure_future(self.informers.run())

    async def until(self, condition: Callable[[], object], seconds: float = 600.0) -> None:
        """Wait until ``condition`` is true; fail the test after ``seconds`` of virtual time."""
        deadline = self.clock.monotonic() + seconds
        while not condition():
            assert self.clock.monotonic() < deadline, f"{condition} has not come true"
            await self.clock.sleep(0.01)

    async def close(self) -> None:
        """Stop the informers."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)


def with_api(body: Callable[[API], Awaitable[T]]) -> T:
    """Run ``body`` beside an API server, in virtual time."""

    async def main() -> T:
        clock = LoopClock(asyncio.get_running_loop())
        config = ServerConfig(gates=FeatureGates.for_release(), definitions=plain_definitions())
        server = await APIServer.open(config, clock=clock, random=random.Random(1))
        api = API(Client(server.transport(), clock=clock), clock, server.transport())
        try:
            return await body(api)
        finally:
            await api.close()
            await server.close()

    return run_virtual(main())
