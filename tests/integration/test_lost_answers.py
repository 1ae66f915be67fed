"""Writes whose answer is lost on its way from the store: none is sent again, and only what a read proves succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cathedra.apiserver.storage.etcd import EtcdAddress, EtcdStorage
from cathedra.apiserver.storage.protocol import StoreUnavailable
from cathedra.clock import SystemClock
from tests.integration.etcd import STORES, Etcd, Kine

KEY = "configmaps/default/a"


@pytest.fixture(params=STORES)
def etcd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Etcd | Kine]:
    with STORES[request.param](tmp_path / "etcd") as running:
        yield running


class Proxy:
    """Forwards bytes to the store and back, unless ``holding``: then nothing comes back."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._forward = asyncio.Event()
        self._forward.set()
        self._writers: set[asyncio.StreamWriter] = set()

    def hold(self) -> None:
        self._forward.clear()

    def cut(self) -> None:
        """Close all connections without what was held, and serve new ones."""
        for writer in self._writers:
            writer.transport.abort()
        self._forward.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        store_reader, store_writer = await asyncio.open_connection("127.0.0.1", self._port)
        pair = {writer, store_writer}
        self._writers |= pair
        back = asyncio.create_task(self._back(store_reader, writer))
        try:
            while data := await reader.read(65536):
                store_writer.write(data)
        except OSError:
            pass
        finally:
            back.cancel()
            self._writers -= pair
            for one in pair:
                one.close()

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self._forward.wait()
            if not writer.is_closing():
                writer.write(data)


@asynccontextmanager
async def stores(etcd: Etcd | Kine) -> AsyncIterator[tuple[Proxy, EtcdStorage, EtcdStorage]]:
    """A proxy, the store of a server behind it, and that of another server."""
    proxy = Proxy(etcd.port)
    listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    behind, direct = (
        EtcdStorage(EtcdAddress.parse(url), clock=SystemClock()) for url in (f"etcd://127.0.0.1:{port}", etcd.url)
    )
    await behind.load(lambda _: None)
    await direct.load(lambda _: None)
    try:
        yield proxy, behind, direct
    finally:
        await behind.close()
        await direct.close()
        listening.close()


async def stored(store: EtcdStorage) -> dict[str, tuple[int, bytes]]:
    content = await store.load(lambda _: None)
    return {record.key: (record.revision, record.value) for record in content.records}


async def until(store: EtcdStorage, holds: Callable[[dict[str, tuple[int, bytes]]], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds(await stored(store)):  # noqa: ASYNC110 - happens in another process
            await asyncio.sleep(0.01)


async def test_a_creation_that_was_carried_out_succeeds(etcd: Etcd | Kine) -> None:
    async with stores(etcd) as (proxy, behind, direct):
        proxy.hold()
        writing = asyncio.ensure_future(behind.write(KEY, b"ours", expected=0))
        await until(direct, lambda found: KEY in found)
        proxy.cut()
        assert await writing == (await stored(direct))[KEY][0]


async def test_an_object_that_was_deleted_meanwhile_does_not_come_back(etcd: Etcd | Kine) -> None:
    async with stores(etcd) as (proxy, behind, direct):
        proxy.hold()
        writing = asyncio.ensure_future(behind.write(KEY, b"ours", expected=0))
        await until(direct, lambda found: KEY in found)
        await direct.write(KEY, None, expected=(await stored(direct))[KEY][0])
        proxy.cut()
        with pytest.raises(StoreUnavailable) as caught:
            await writing
        assert caught.value.unknown
        assert KEY not in await stored(direct)


async def test_an_update_that_was_carried_out_is_no_conflict(etcd: Etcd | Kine) -> None:
    async with stores(etcd) as (proxy, behind, direct):
        first = await behind.write(KEY, b"1", expected=0)
        proxy.hold()
        writing = asyncio.ensure_future(behind.write(KEY, b"2", expected=first))
        await until(direct, lambda found: found[KEY][1] == b"2")
        await direct.write(KEY, b"3", expected=(await stored(direct))[KEY][0])
        proxy.cut()
        with pytest.raises(StoreUnavailable) as caught:
            await writing
        assert caught.value.unknown
        assert (await stored(direct))[KEY][1] == b"3"


async def test_a_removal_that_was_carried_out_spares_what_was_created_since(etcd: Etcd | Kine) -> None:
    async with stores(etcd) as (proxy, behind, direct):
        first = await behind.write(KEY, b"1", expected=0)
        proxy.hold()
        writing = asyncio.ensure_future(behind.write(KEY, None, expected=first))
        await until(direct, lambda found: KEY not in found)
        await direct.write(KEY, b"new", expected=0)
        proxy.cut()
        with pytest.raises(StoreUnavailable) as caught:
            await writing
        assert caught.value.unknown
        assert (await stored(direct))[KEY][1] == b"new"
