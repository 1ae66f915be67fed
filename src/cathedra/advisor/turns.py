"""Turns of the model: either changes of the cluster are applied, or a thread computes on it.

Filters, inventory and ledger are updated in place by informers, so nothing may change them while a pod is judged. A
judgement of a large cluster takes half a second, and one of a gang several. On the event loop that would stop health,
metrics and answers to users; in the thread only the changes wait.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

from cathedra.api.status import StatusError
from cathedra.client.transport import APICall, Transport, WatchEvent
from cathedra.offload import ComputeThread

T = TypeVar("T")


class ModelTurns:
    """The turns of one model. `run` is a turn of the thread, and `changes` waits for one of the informers."""

    def __init__(self) -> None:
        self._thread = ComputeThread()
        self._computing = asyncio.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns, called in the thread while no change is applied."""
        async with self._computing:
            return await self._thread.run(lambda _: work(), seconds=math.inf)

    async def changes(self) -> None:
        """Wait until changes may be applied. They may until the caller waits for something else."""
        # A loop, because the next computation may have begun before this task runs again.
        while self._computing.locked():
            async with self._computing:
                pass

    @asynccontextmanager
    async def still(self) -> AsyncIterator[None]:
        """Keep the thread from computing while the body runs, which is to be short: changes wait, too."""
        async with self._computing:
            yield

    def close(self) -> None:
        """End the thread when it is idle."""
        self._thread.close()


class TurnTransport:
    """A transport whose lists and events arrive when changes may be applied.

    An informer applies what it receives before it waits again, so it never does while the thread computes.
    """

    def __init__(self, inner: Transport, turns: ModelTurns) -> None:
        self._inner, self._turns = inner, turns

    async def call(self, call: APICall) -> Any:
        """Carry out a call."""
        try:
            found = await self._inner.call(call)
        except StatusError:
            # After a refusal too: an informer empties its store if the server has no such resource any more.
            await self._turns.changes()
            raise
        await self._turns.changes()
        return found

    def watch(self, call: APICall) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]]:
        """Yield the changes of the watch, each in a turn without a computation."""
        return self._watch(call)

    @asynccontextmanager
    async def _watch(self, call: APICall) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        try:
            async with self._inner.watch(call) as events:
                yield self._in_turn(events)
        except StatusError:
            await self._turns.changes()
            raise

    async def _in_turn(self, events: AsyncIterator[WatchEvent[Any]]) -> AsyncIterator[WatchEvent[Any]]:
        async for event in events:
            await self._turns.changes()
            yield event

    async def close(self) -> None:
        """Close the connections of the transport inside."""
        await self._inner.close()
