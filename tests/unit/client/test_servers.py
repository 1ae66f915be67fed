"""Several API servers of one cluster: one is used at a time, and left when it does not answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.asgi.listener import bind
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import Target
from cathedra.client.resources import PODS
from cathedra.client.servers import INTERVAL, ServerLeft, Servers
from cathedra.client.transport import APICall
from tests.running import beside, on_virtual_clock

POD = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "ns", "resourceVersion": "7"}}
FIRST, SECOND, THIRD = "https://a", "https://b", "https://c"


@dataclass
class Probes:
    """Answers to probes: the servers in ``ready`` are."""

    ready: set[str]
    probed: list[str] = field(default_factory=list)

    async def __call__(self, url: str) -> bool:
        self.probed.append(url)
        await asyncio.sleep(0.01)
        return url in self.ready


@asynccontextmanager
async def followed(probes: Probes, *urls: str) -> AsyncIterator[Servers]:
    servers = Servers(urls)
    async with beside(servers.follow(probes)):
        yield servers


@on_virtual_clock
async def test_a_server_that_is_not_ready_is_left_for_one_that_is() -> None:
    probes = Probes({FIRST, THIRD})
    async with followed(probes, FIRST, SECOND, THIRD) as servers:
        await asyncio.sleep(10 * INTERVAL)
        assert servers.current == FIRST
        probes.ready.discard(FIRST)
        await asyncio.sleep(INTERVAL + 1)
        assert servers.current == THIRD
        # It stays there: a change back would end all watches once more.
        probes.ready.add(FIRST)
        await asyncio.sleep(10 * INTERVAL)
        assert servers.current == THIRD


@on_virtual_clock
async def test_a_server_stays_in_use_while_no_other_is_ready() -> None:
    probes = Probes(set())
    async with followed(probes, FIRST, SECOND) as servers, servers.using() as url:
        await asyncio.sleep(10 * INTERVAL)
        assert servers.current == url == FIRST


@on_virtual_clock
async def test_a_failed_connection_leads_to_a_probe_at_once() -> None:
    probes = Probes({FIRST, SECOND})
    async with followed(probes, FIRST, SECOND) as servers:
        await asyncio.sleep(0.1)
        probes.ready.discard(FIRST)
        with contextlib.suppress(ConnectionError):
            async with servers.using():
                raise ConnectionRefusedError
        # Far less than the time until the next regular probe.
        await asyncio.sleep(INTERVAL / 10)
        assert servers.current == SECOND


@on_virtual_clock
async def test_uses_of_a_server_end_when_it_is_left() -> None:
    probes = Probes({FIRST, SECOND})
    async with followed(probes, FIRST, SECOND) as servers:

        async def use() -> None:
            async with servers.using():
                await asyncio.sleep(3600)

        async def nested() -> None:
            async with servers.using():
                await use()

        uses = [asyncio.create_task(use()), asyncio.create_task(nested())]
        await asyncio.sleep(0.1)
        probes.ready.discard(FIRST)
        results = await asyncio.gather(*uses, return_exceptions=True)
        assert [type(result) for result in results] == [ServerLeft, ServerLeft]
        async with servers.using() as url:
            assert url == SECOND


@on_virtual_clock
async def test_a_cancelled_use_is_cancelled() -> None:
    async with followed(Probes({FIRST}), FIRST, SECOND) as servers:

        async def use() -> None:
            async with servers.using():
                await asyncio.sleep(3600)

        task = asyncio.create_task(use())
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@dataclass
class Place:
    """A server over HTTP that answers, or hangs with its connections open."""

    hangs: bool = False
    writes: int = 0
    url: str = ""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.writes += request.method == "POST"
        if self.hangs:
            await self.ended.wait()
        if request.query.get("watch"):
            answer = web.StreamResponse()
            await answer.prepare(request)
            await self.ended.wait()
        return web.json_response({} if request.path == "/readyz" else POD)


@asynccontextmanager
async def places(*chosen: Place) -> AsyncIterator[HTTPTransport]:
    async with contextlib.AsyncExitStack() as stack:
        for place in chosen:
            application = web.Application()
            application.router.add_route("*", "/{path:.*}", place.answer)
            runner = web.AppRunner(application, shutdown_timeout=0)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            stack.callback(place.ended.set)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            place.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        target = Target(chosen[0].url, further=tuple(place.url for place in chosen[1:]))
        yield await stack.enter_async_context(await HTTPTransport.open(target))


async def test_requests_and_watches_at_a_server_that_hangs_end_and_none_is_sent_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cathedra.client.servers.INTERVAL", 0.05)
    monkeypatch.setattr("cathedra.client.http.ANSWER_SECONDS", 0.1)
    first, second = Place(), Place()
    async with places(first, second) as api:

        async def watch() -> None:
            async with api.watch(APICall("watch", PODS, "ns")) as events:
                async for _ in events:
                    pass

        create = APICall("create", PODS, "ns", body=Pod(metadata=ObjectMeta(name="p")))
        watching = asyncio.create_task(watch())
        await api.call(create)
        first.hangs = True
        with pytest.raises(ServerLeft):
            await api.call(create)
        with pytest.raises(ServerLeft):
            await watching
        assert (first.writes, second.writes) == (2, 0)
        await api.call(create)
        assert (first.writes, second.writes) == (2, 1)


async def test_a_client_of_one_server_sends_no_probes() -> None:
    place = Place()
    async with places(place) as api:
        assert not api.servers.several
        assert api._following is None
        await api.call(APICall("get", PODS, "ns", "p"))


async def test_a_read_is_sent_again_to_the_other_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cathedra.client.servers.INTERVAL", 0.05)
    monkeypatch.setattr("cathedra.client.http.ANSWER_SECONDS", 0.1)
    first, second = Place(hangs=True), Place()
    async with places(first, second) as api:
        assert (await api.call(APICall("get", PODS, "ns", "p"))).metadata.name == "p"
        assert api.servers.current == second.url


async def test_a_write_that_could_not_be_sent_is_sent_to_the_other_server() -> None:
    nobody = bind("127.0.0.1", 0)
    port = nobody.getsockname()[1]
    nobody.close()
    place = Place()
    async with places(place):
        target = Target(f"http://127.0.0.1:{port}", further=(place.url,))
        async with await HTTPTransport.open(target) as api:
            await api.call(APICall("create", PODS, "ns", body=Pod(metadata=ObjectMeta(name="p"))))
        assert place.writes == 1


@on_virtual_clock
async def test_a_request_waits_for_another_server_for_a_limited_time() -> None:
    async with followed(Probes(set()), FIRST, SECOND) as servers:
        assert not await servers.await_other(FIRST)
    assert not await Servers((FIRST,)).await_other(FIRST)
