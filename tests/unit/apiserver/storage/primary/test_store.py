"""The replica's end of the line, against a primary that answers when the test says so."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cathedra.apiserver.storage.primary import PrimaryStore
from cathedra.apiserver.storage.primary.messages import FromReplica, Question, Reached
from cathedra.apiserver.storage.protocol import StoreUnavailable
from cathedra.frames import MessageReader, write_frame


class Primary(asyncio.Protocol):
    """The other end of the line."""

    def __init__(self) -> None:
        self._reader = MessageReader(FromReplica, 1024)
        self._said: asyncio.Queue[Any] = asyncio.Queue()
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for batch in self._reader.feed(data):
            for message in batch:
                self._said.put_nowait(message)

    async def heard(self) -> Any:
        """What the replica says next."""
        return await self._said.get()

    def is_silent(self) -> bool:
        """Whether the replica has said nothing more."""
        return self._said.empty()

    def answer(self, revision: int) -> None:
        self.transport.write(write_frame([Reached(revision)]))


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[PrimaryStore, Primary]]:
    one, other = socket.socketpair()
    one.setblocking(False)
    primary = Primary()
    await asyncio.get_running_loop().create_unix_connection(lambda: primary, sock=one)
    store = await PrimaryStore.over(other)
    try:
        yield store, primary
    finally:
        primary.transport.close()
        await store.lost()
        await store.close()


async def test_those_who_ask_while_a_question_is_under_way_share_the_next() -> None:
    async with connected() as (store, primary):
        first = asyncio.create_task(store.latest())
        assert await primary.heard() == Question()
        later = [asyncio.create_task(store.latest()) for _ in range(5)]
        primary.answer(7)
        assert await first == 7
        assert await primary.heard() == Question()
        assert not any(task.done() for task in later), "what was acknowledged meanwhile may not be here"
        primary.answer(9)
        assert await asyncio.gather(*later) == [9] * 5
        assert primary.is_silent()


async def test_a_question_whose_callers_have_gone_holds_up_none_that_come_later() -> None:
    async with connected() as (store, primary):
        gone = [asyncio.create_task(store.latest()) for _ in range(2)]
        assert await primary.heard() == Question()
        for task in gone:
            task.cancel()
        await asyncio.wait(gone)
        asked = asyncio.create_task(store.latest())
        primary.answer(3)
        assert await primary.heard() == Question()
        primary.answer(4)
        assert await asked == 4


async def test_all_who_wait_hear_that_the_primary_has_gone() -> None:
    async with connected() as (store, primary):
        first = asyncio.create_task(store.latest())
        assert await primary.heard() == Question()
        second = asyncio.create_task(store.latest())
        await asyncio.sleep(0)
        primary.transport.close()
        for task in (first, second):
            with pytest.raises(StoreUnavailable):
                await task
        with pytest.raises(StoreUnavailable):
            await store.latest()
