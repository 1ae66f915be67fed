"""Faults between a part and the API server: slow answers, lost requests, lost answers, broken watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from cathedra.api.status import expired
from cathedra.client.transport import APICall, Transport, WatchEvent

__all__ = ["FaultPlan", "FaultyTransport"]

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """How bad it is: probabilities for each request, seconds for delays and for the life of a watch."""

    lost_requests: float = 0.02
    lost_answers: float = 0.02
    longest_delay: float = 0.3
    watch_lives: float = 600.0
    """A watch breaks after so many seconds on average."""
    lost_history: float = 0.2
    """How often a watch that broke cannot be taken up where it ended."""

    def over(self, inner: Transport, random: Random) -> Transport:
        """``inner`` behind these faults."""
        return FaultyTransport(inner, self, random)


class FaultyTransport:
    """A transport that fails as networks and servers do: a request that failed may have been carried out."""

    def __init__(self, inner: Transport, plan: FaultPlan, random: Random) -> None:
        self._inner = inner
        self._storm = plan
        self._random = random

    async def call(self, call: APICall) -> Any:
        return await self._pass(lambda: self._inner.call(call))

    async def close(self) -> None:
        await self._inner.close()

    @asynccontextmanager
    async def watch(self, call: APICall) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        random, plan = self._random, self._storm
        async with self._inner.watch(call) as events:
            yield self._until_broken(events, random.expovariate(1 / plan.watch_lives))

    async def _until_broken(
        self, events: AsyncIterator[WatchEvent[Any]], seconds: float
    ) -> AsyncIterator[WatchEvent[Any]]:
        end = asyncio.get_running_loop().time() + seconds
        while True:
            try:
                async with asyncio.timeout_at(end):
                    event = await anext(events)
            except StopAsyncIteration:
                return
            except TimeoutError as broken:
                if self._random.random() < self._storm.lost_history:
                    raise expired("too old resource version") from broken
                raise ConnectionError("the watch broke") from broken
            yield event

    async def _pass(self, request: Callable[[], Awaitable[R]]) -> R:
        random, plan = self._random, self._storm
        fate = random.random()
        before, after = random.uniform(0, plan.longest_delay), random.uniform(0, plan.longest_delay)
        await asyncio.sleep(before)
        if fate < plan.lost_requests:
            raise ConnectionError("the request was lost")
        answer = await request()
        await asyncio.sleep(after)
        if fate < plan.lost_requests + plan.lost_answers:
            raise ConnectionError("the answer was lost")
        return answer
