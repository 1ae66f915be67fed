"""The store of another server, which answers when the test lets it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cathedra.apiserver.storage.primary import Change, FromReplica, PrimaryStore, Question, Refused, Settled
from cathedra.apiserver.storage.protocol import StorageError, StoreUnavailable, Superseded, Write
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
        """Return the next message of the replica."""
        return await self._said.get()

    def answer(self, *messages: Any) -> None:
        self.transport.write(write_frame(messages))


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


async def test_each_question_has_its_answer() -> None:
    async with connected() as (store, primary):
        first, gone, last = (asyncio.ensure_future(store.latest()) for _ in range(3))
        asked = [await primary.heard() for _ in range(3)]
        assert {type(one) for one in asked} == {Question}
        gone.cancel()
        for number, revision in ((0, 3), (1, 4), (2, 5)):
            primary.answer(Settled(asked[number].id, revision))
        assert (await first, await last) == (3, 5)


async def test_a_write_is_yielded_before_its_revision_is_returned() -> None:
    async with connected() as (store, primary):
        seen: list[Write] = []

        async def follow() -> None:
            async for progress in store.follow(0):
                seen.extend(progress.writes)

        following = asyncio.create_task(follow())
        writing = asyncio.ensure_future(store.write("/k", b"v", expected=0))
        forward = await primary.heard()
        assert (forward.key, forward.value, forward.expected) == ("/k", b"v", 0)
        primary.answer(Change("/other", 7, None), Settled(forward.id, 8))
        assert await writing == 8
        assert seen == [Write("/other", 7, None), Write("/k", 8, b"v")]
        primary.transport.close()
        with pytest.raises(StoreUnavailable):
            await following


async def test_a_refusal_is_raised() -> None:
    async with connected() as (store, primary):
        writing = [asyncio.ensure_future(store.write("/k", b"v", expected=3)) for _ in range(2)]
        first, second = await primary.heard(), await primary.heard()
        primary.answer(Refused(second.id, 0, "the disk is full"), Refused(first.id, 9))
        with pytest.raises(Superseded) as newer:
            await writing[0]
        assert newer.value.revision == 9
        with pytest.raises(StorageError, match="the disk is full"):
            await writing[1]


async def test_what_waits_fails_when_the_primary_has_gone() -> None:
    async with connected() as (store, primary):
        asking = asyncio.ensure_future(store.latest())
        writing = asyncio.ensure_future(store.write("/k", b"v", expected=0))
        await primary.heard()
        primary.transport.close()
        with pytest.raises(StoreUnavailable) as known:
            await asking
        assert not known.value.unknown
        with pytest.raises(StoreUnavailable) as unknown:
            await writing
        assert unknown.value.unknown, "the primary may have kept it"
        with pytest.raises(StoreUnavailable):
            await store.latest()
        with pytest.raises(StoreUnavailable):
            await store.write("/k", b"v", expected=0)
