"""Either changes are applied or a thread computes on the model, and the event loop goes on in both cases."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from cathedra.advisor.turns import ModelTurns, TurnTransport
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, not_found
from cathedra.client.client import Client
from cathedra.client.informer import Informer
from cathedra.client.resources import PODS
from cathedra.client.transport import APICall, EventType, Page, WatchEvent
from cathedra.clock import SystemClock


class OnePodServer:
    """A server whose list is empty, and whose watch adds one pod."""

    def __init__(self) -> None:
        self.served = True
        self.sent = asyncio.Event()

    async def call(self, call: APICall) -> Any:
        if not self.served:
            raise not_found(GroupResource("", "pods"), "")
        return Page((), "1")

    def watch(self, call: APICall) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]]:
        return self._watch()

    @asynccontextmanager
    async def _watch(self) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        async def events() -> AsyncIterator[WatchEvent[Any]]:
            await self.sent.wait()
            metadata = ObjectMeta(name="p", namespace="default", uid="u", resource_version="2")
            yield WatchEvent(EventType.ADDED, Pod(metadata=metadata))
            await asyncio.get_running_loop().create_future()

        yield events()

    async def close(self) -> None:
        pass


class Held:
    """A computation that a test ends."""

    def __init__(self, turns: ModelTurns) -> None:
        self.begun, self.end = threading.Event(), threading.Event()
        self.task = asyncio.ensure_future(turns.run(self._work))

    def _work(self) -> str:
        self.begun.set()
        assert self.end.wait(60)
        return "done"

    async def wait_begun(self) -> None:
        while not self.begun.is_set():  # noqa: ASYNC110 - set by a thread
            await asyncio.sleep(0)


async def test_the_event_loop_goes_on_while_the_thread_computes() -> None:
    turns = ModelTurns()
    held = Held(turns)
    await held.wait_begun()
    waiting = asyncio.ensure_future(turns.changes())
    for _ in range(100):
        await asyncio.sleep(0)
    assert not waiting.done()
    held.end.set()
    assert await held.task == "done"
    await waiting
    turns.close()


async def test_a_change_is_applied_after_the_computation_and_not_during_it() -> None:
    turns, server = ModelTurns(), OnePodServer()
    clock = SystemClock()
    informer = Informer(Client(TurnTransport(server, turns), clock=clock), PODS, clock=clock)  # type: ignore[arg-type]
    running = asyncio.ensure_future(informer.run())
    await informer.wait_synced()
    held = Held(turns)
    await held.wait_begun()
    server.sent.set()
    for _ in range(100):
        await asyncio.sleep(0)
    assert not informer.store.list()
    applied = asyncio.Event()
    informer.add_handler(lambda _: applied.set())
    held.end.set()
    await asyncio.wait_for(applied.wait(), 60)
    running.cancel()
    turns.close()


async def test_a_refusal_waits_too_because_an_informer_empties_its_store() -> None:
    turns, server = ModelTurns(), OnePodServer()
    server.served = False
    held = Held(turns)
    await held.wait_begun()
    call = APICall("list", PODS)
    refused = asyncio.ensure_future(TurnTransport(server, turns).call(call))  # type: ignore[arg-type]
    for _ in range(100):
        await asyncio.sleep(0)
    assert not refused.done()
    held.end.set()
    with pytest.raises(StatusError):
        await refused
    turns.close()


async def test_a_fault_of_a_computation_is_its_callers() -> None:
    turns = ModelTurns()
    with pytest.raises(ZeroDivisionError):
        await turns.run(lambda: 1 // 0)
    assert await turns.run(lambda: 1) == 1
    turns.close()
