"""The engine's state and the map follow the cluster; a lost connection is reported and made up for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from cathedra.allocation.supply.devices import PoolID
from cathedra.api.core.core_v1 import Event, Node, ObjectReference
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import Device, DeviceTaint, ResourcePool, ResourceSlice, ResourceSliceSpec
from cathedra.api.struct import replace
from cathedra.api.timestamp import Time
from cathedra.client.resources import EVENTS, NODES, RESOURCESLICES
from cathedra.client.transport import APICall, Transport, WatchEvent
from cathedra.engine import Engine
from cathedra.insight.inventory.listing import DeviceListing
from cathedra.insight.inventory.report import DeviceEntry
from cathedra.insight.reading.live import read_client
from cathedra.page.following import ClusterFollower
from tests.running import beside, run_with
from tests.unit.inprocess import API, with_api


class Inline(Executor):
    """Runs everything at once: virtual time does not wait for threads."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class Cuttable:
    """A transport that can be cut."""

    def __init__(self, inner: Transport) -> None:
        self.inner, self.cut = inner, asyncio.Event()

    async def call(self, call: APICall) -> Any:
        if self.cut.is_set():
            raise ConnectionError("cut")
        return await self.inner.call(call)

    def watch(self, call: APICall) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]]:
        return self._watch(call)

    @asynccontextmanager
    async def _watch(self, call: APICall) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        if self.cut.is_set():
            raise ConnectionError("cut")
        async with self.inner.watch(call) as events:
            yield self._until_cut(events)

    async def _until_cut(self, events: AsyncIterator[WatchEvent[Any]]) -> AsyncIterator[WatchEvent[Any]]:
        cut = asyncio.create_task(self.cut.wait())
        while True:
            following = asyncio.ensure_future(anext(events))
            await asyncio.wait((following, cut), return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                following.cancel()
                raise ConnectionError("cut")
            yield following.result()

    async def close(self) -> None:
        pass


def slice_of(node: str) -> ResourceSlice:
    pool = ResourcePool(name=node, generation=1, resource_slice_count=1)
    spec = ResourceSliceSpec(driver="gpu.example.com", node_name=node, pool=pool, devices=(Device(name="gpu-0"),))
    return ResourceSlice(metadata=ObjectMeta(name=node), spec=spec)


async def next_of(lines: AsyncIterator[bytes], kind: str) -> dict[str, Any]:
    async for line in lines:
        found: dict[str, Any] = json.loads(line)
        if found["type"] == kind:
            return found
    raise AssertionError("the stream has ended")


@asynccontextmanager
async def following(api: API, transport: Transport) -> AsyncIterator[tuple[Engine, ClusterFollower]]:
    engine = Engine(await read_client(api.client, source="cluster"))
    follower = ClusterFollower(engine, transport, namespace="default", clock=api.clock, executor=Inline())
    async with beside(follower.run()):
        yield engine, follower


@run_with(with_api)
async def test_a_new_device_is_in_the_state_of_the_engine_and_in_a_change(api: API) -> None:
    async with following(api, api.transport) as (engine, follower):
        lines = follower.lines()
        assert (await next_of(lines, "start"))["map"]["devices"] == []
        await api.client.resource(NODES).create(Node(metadata=ObjectMeta(name="n1", labels={"zone": "a"})))
        await api.client.resource(RESOURCESLICES).create(slice_of("n1"))
        change = await next_of(lines, "change")
        assert [one["device"] for one in change["devices"]] == ["gpu-0"]
        assert change["nodes"][0]["labels"] == {"zone": "a"}
        assert engine.state.get(ResourceSlice, "n1") is not None


@run_with(with_api)
async def test_a_change_computes_the_devices_of_its_own_pool_only(api: API, *, monkeypatch: pytest.MonkeyPatch) -> None:
    """100 changes per second are followed if none of them costs the whole cluster."""
    computed: list[PoolID] = []
    of_pool = DeviceListing.of_pool

    def counted(listing: DeviceListing, pool: PoolID) -> Iterator[DeviceEntry]:
        computed.append(pool)
        return of_pool(listing, pool)

    slices = api.client.resource(RESOURCESLICES)
    for number in range(20):
        await slices.create(slice_of(f"n{number}"))
    async with following(api, api.transport) as (_, follower):
        lines = follower.lines()
        await next_of(lines, "start")
        # Also the first state that the informers have is compared with the one that was read before.
        monkeypatch.setattr(DeviceListing, "of_pool", counted)
        for number in range(5):
            one = await slices.get(f"n{number}")
            device = replace(one.spec.devices[0], taints=(DeviceTaint(key="broken", effect="NoSchedule"),))  # type: ignore[index]
            await slices.update(replace(one, spec=replace(one.spec, devices=(device,))))
            change = await next_of(lines, "change")
            assert [one["taints"] for one in change["devices"]] == [["broken:NoSchedule"]]
        assert computed == [("gpu.example.com", f"n{number}") for number in range(5)]


@run_with(with_api)
async def test_questions_about_an_earlier_moment_are_answered_from_its_state(api: API) -> None:
    async with following(api, api.transport) as (engine, follower):
        lines = follower.lines()
        await next_of(lines, "start")
        for name in ("n1", "n2"):
            await api.clock.sleep(10)
            await api.client.resource(RESOURCESLICES).create(slice_of(name))
            await next_of(lines, "change")

        def devices(at: float) -> int:
            answer = json.loads(engine.answer_json(json.dumps({"question": "devices", "at": at})))
            return len(answer["result"]["devices"])

        now = api.clock.now()
        assert [devices(at) for at in (now - 15, now - 5, now, 0)] == [0, 1, 2, 2]


@run_with(with_api)
async def test_warnings_are_events_of_the_timeline(api: API) -> None:
    async with following(api, api.transport) as (_, follower):
        lines = follower.lines()
        await next_of(lines, "start")
        await api.clock.sleep(5)
        event = Event(
            metadata=ObjectMeta(name="e", namespace="default"),
            involved_object=ObjectReference(kind="Pod", namespace="default", name="train"),
            reason="FailedScheduling",
            message="no device",
            type="Warning",
            last_timestamp=Time(api.clock.now()),
        )
        await api.client.resource(EVENTS, "default").create(event)
        change = await next_of(lines, "change")
        assert change["events"] == [
            {"kind": "failed", "text": "pod default/train: FailedScheduling: no device", "claim": ""}
        ]


@run_with(with_api)
async def test_a_lost_connection_is_reported_and_changes_are_made_up_for(api: API) -> None:
    transport = Cuttable(api.transport)
    async with following(api, transport) as (_, follower):
        lines = follower.lines()
        await next_of(lines, "tick")
        transport.cut.set()
        while (tick := await next_of(lines, "tick"))["lostSince"] is None:
            pass
        assert tick["readAt"] <= tick["lostSince"]
        assert follower.lost_since == tick["lostSince"]
        await api.client.resource(RESOURCESLICES).create(slice_of("n1"))
        transport.cut.clear()
        assert (await next_of(lines, "change"))["devices"][0]["pool"] == "n1"
        while (tick := await next_of(lines, "tick"))["lostSince"] is not None:
            pass
        assert follower.lost_since is None
