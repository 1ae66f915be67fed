"""Which instance of a driver serves."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cathedra.api.status import internal_error
from cathedra.certificates.authority import self_signed
from cathedra.client.client import Client
from cathedra.client.transport import APICall
from cathedra.clock import run_virtual
from cathedra.node.agent import NodeAgent, NodeDependencies
from cathedra.node.config import NodeConfig
from cathedra.node.plugins.client import PluginNotRegistered, RegistrationError
from cathedra.node.plugins.registry import PluginInstance, PluginRegistry, RegistryListener, SliceWiper
from cathedra.releases import FeatureGates
from tests.running import beside, run_with
from tests.unit.node.fakes import DRIVER, FakeDriver, NodeTransport, Setting


class Told:
    """Notifications of a listener."""

    def __init__(self, registry: PluginRegistry) -> None:
        self.events: list[str] = []
        registry.listen(
            RegistryListener(
                on_usable=lambda driver: self.events.append(f"{driver} usable"),
                on_unusable=lambda driver: self.events.append(f"{driver} unusable"),
                on_preferred=lambda driver, one: self.events.append(f"{driver} is {one.endpoint if one else 'gone'}"),
            )
        )

    def take(self) -> list[str]:
        taken, self.events = self.events, []
        return taken


def instance(endpoint: str, *, connected: bool = True) -> PluginInstance:
    return PluginInstance("d", endpoint, FakeDriver(), connected=connected)


def test_the_latest_connected_instance_serves_else_the_latest() -> None:
    registry = PluginRegistry()
    old, new = instance("old"), instance("new")
    registry.add(old)
    registry.add(new)
    assert registry.get("d") is new
    registry.set_connected(new, False)
    assert registry.get("d") is old
    registry.set_connected(old, False)
    assert registry.get("d") is new
    assert registry.instances("d") == (old, new)
    assert registry.drivers() == ("d",)


def test_listeners_hear_of_every_turn_of_a_rolling_update() -> None:
    registry = PluginRegistry()
    told = Told(registry)
    old, new = instance("old"), instance("new", connected=False)
    registry.add(old)
    assert told.take() == ["d is old", "d usable"]
    registry.add(new)
    registry.set_connected(new, True)
    registry.set_connected(new, True)
    assert told.take() == ["d is new"]
    assert registry.remove("d", "old") is old
    assert told.take() == []
    registry.remove("d", "new")
    assert told.take() == ["d is gone", "d unusable"]
    assert registry.remove("d", "new") is None


def test_an_endpoint_is_registered_once_and_a_missing_driver_is_named() -> None:
    registry = PluginRegistry()
    registry.add(instance("one"))
    with pytest.raises(RegistrationError, match="endpoint one already registered for DRA driver plugin d"):
        registry.add(instance("one"))
    with pytest.raises(PluginNotRegistered, match="DRA driver other is not registered"):
        registry.get("other")
    with pytest.raises(PluginNotRegistered, match="DRA driver name is empty"):
        registry.get("")


class Bench:
    def __init__(self) -> None:
        self.server = NodeTransport()
        self.registry = PluginRegistry()
        self.node_known = asyncio.Event()
        self.wiper: SliceWiper | None = None

    def wiped(self) -> list[str]:
        return [selector for verb, _, selector in self.server.requests if verb == "deletecollection"]

    def instance(self, endpoint: str, *, connected: bool = True) -> PluginInstance:
        made = PluginInstance(DRIVER, endpoint, FakeDriver(), connected=connected)
        self.registry.add(made)
        return made


@asynccontextmanager
async def wiping() -> AsyncIterator[Bench]:
    bench = Bench()
    clock = bench.server.clock()
    wiper = SliceWiper(
        Client(bench.server, clock=clock),
        "n1",
        clock=clock,
        random=random.Random(1),
        wait_for_node=bench.node_known.wait,
    )
    bench.wiper = wiper
    wiper.follow(bench.registry)
    async with beside(wiper.run()):
        await asyncio.sleep(0.01)
        yield bench


def play(body: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        async with wiping() as bench:
            await body(bench)

    run_virtual(main())


ALL = "spec.nodeName=n1"
OF_DRIVER = f"spec.nodeName=n1,spec.driver={DRIVER}"


@run_with(play)
async def test_all_slices_go_at_the_start_once_the_node_is_known(bench: Bench) -> None:
    assert bench.wiper is not None
    assert bench.wiped() == []
    bench.node_known.set()
    await bench.wiper.wait_wiped()
    assert bench.wiped() == [ALL]


@run_with(play)
async def test_a_driver_that_stays_away_loses_its_slices_after_half_a_minute(bench: Bench) -> None:
    bench.node_known.set()
    bench.instance("a")
    await asyncio.sleep(100)
    assert bench.wiped() == [ALL]
    bench.registry.remove(DRIVER, "a")
    await asyncio.sleep(29)
    assert bench.wiped() == [ALL]
    await asyncio.sleep(2)
    assert bench.wiped() == [ALL, OF_DRIVER]


@run_with(play)
async def test_a_driver_that_comes_back_in_time_keeps_its_slices(bench: Bench) -> None:
    bench.node_known.set()
    instance = bench.instance("a")
    bench.registry.set_connected(instance, False)
    await asyncio.sleep(25)
    bench.registry.set_connected(instance, True)
    await asyncio.sleep(100)
    assert bench.wiped() == [ALL]


@run_with(play)
async def test_a_driver_that_is_registered_and_never_connects_counts_as_away(bench: Bench) -> None:
    bench.node_known.set()
    bench.instance("a", connected=False)
    await asyncio.sleep(31)
    assert bench.wiped() == [ALL, OF_DRIVER]


@run_with(play)
async def test_one_instance_of_two_is_enough(bench: Bench) -> None:
    bench.node_known.set()
    bench.instance("old")
    bench.instance("new")
    bench.registry.remove(DRIVER, "old")
    await asyncio.sleep(100)
    assert bench.wiped() == [ALL]


@run_with(play)
async def test_what_fails_is_tried_again(bench: Bench) -> None:
    calls = 0
    carry_out = bench.server.call

    async def fail(call: APICall) -> Any:
        nonlocal calls
        if call.verb == "deletecollection":
            calls += 1
            if calls < 4:
                raise internal_error("not now")
        return await carry_out(call)

    bench.server.call = fail  # type: ignore[method-assign]  # three failures, then not
    bench.node_known.set()
    await asyncio.sleep(6)
    assert calls < 4
    await asyncio.sleep(4)
    assert bench.wiped() == [ALL]


@pytest.mark.parametrize(("release", "wipes"), [("1.30", False), ("1.31", True)])
@run_with(lambda test: asyncio.run(test()))
async def test_an_agent_wipes_since_drivers_write_their_slices_themselves(
    *, release: str, wipes: bool, tmp_path: Path
) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_bytes(self_signed("ca", ("ca",), time.time()).certificate)
    setting = Setting()
    agent = NodeAgent(
        setting.client,
        NodeConfig(name="n1", root=tmp_path / "n1", port=0, client_authority=authority),
        clock=setting.clock,
        random=random.Random(1),
        gates=FeatureGates.for_release(release, {"DynamicResourceAllocation": True}),
        dependencies=NodeDependencies(runtime=setting.runtime),
    )
    async with beside(agent.run()):
        await asyncio.wait_for(agent.wait_ready(), 20)
    wiped = [selector for verb, _, selector in setting.server.requests if verb == "deletecollection"]
    assert wiped == (["spec.nodeName=n1"] if wipes else [])

    # Sockets need real time.
