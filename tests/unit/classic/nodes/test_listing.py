"""Resources that drivers of 1.30 list become ResourceSlices: docs/spec/protocols.md §6."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Node
from cathedra.api.protobuf.wire import ProtobufError
from cathedra.api.struct import from_dict, replace
from cathedra.classic.nodes.client import classic_dial
from cathedra.classic.nodes.listing import NodeSlices, ResourceListing, decode_listing, encode_listing
from cathedra.classic.nodes.plugin import NodeClaim, NodeDriver, serving
from cathedra.classic.resources import SLICES
from cathedra.client.client import Client
from cathedra.client.resources import NODES
from cathedra.clock import SystemClock
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins.client import PluginCallError
from tests.running import beside, run_with
from tests.unit.apiserver.guarded import Guarded, guarded, refused
from tests.unit.classic.world import World, gates, play

NAME = "d.example.com"
Model = v1alpha2.NamedResourcesResources


def model(*names: str) -> Model:
    """Instances with these names."""
    return from_dict(Model, {"instances": [{"name": name} for name in names]})


def listed(*models: Model) -> bytes:
    return encode_listing(models)


async def with_node(world: World, name: str = "n") -> Client:
    """The client of a node, which is there."""
    await world.client.resource(NODES).create(from_dict(Node, {"metadata": {"name": name}}))
    return world.part(f"system:node:{name}", ("system:nodes",))


async def published(world: World) -> dict[str, list[str]]:
    """The names of instances by slice."""
    found = (await world.of(SLICES).list()).items
    return {
        piece.metadata.name: [instance.name for instance in piece.named_resources.instances]
        for piece in found
        if piece.named_resources is not None
    }


def test_a_listing_is_the_message_of_1_30() -> None:
    data = listed(model("a"), model("b", "c"))
    assert data.hex() == "0a07" + "0a050a030a0161" + "0a0c" + "0a0a0a030a01620a030a0163"
    assert decode_listing(data) == (model("a"), model("b", "c"))
    assert decode_listing(b"\x0a\x00\x10\x01") == (), "a model of a later kind, and a field of a later release"
    with pytest.raises(ProtobufError):
        decode_listing(b"\x0a\x07")


@asynccontextmanager
async def keeping(world: World, api: Client) -> AsyncIterator[NodeSlices]:
    """The slices of node n, kept."""
    slices = NodeSlices(api, "n", clock=world.clock)
    async with beside(slices.run()):
        yield slices


def by_hand(name: str, on: str = "n", driver: str = NAME) -> v1alpha2.ResourceSlice:
    fields = {"metadata": {"name": name}, "nodeName": on, "driverName": driver, "namedResources": {}}
    return from_dict(v1alpha2.ResourceSlice, fields)


@run_with(lambda test: play("1.30", test, nodes=0))
async def test_slices_follow_the_driver_with_the_fewest_writes(world: World) -> None:
    says: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def listen() -> AsyncGenerator[bytes]:
        while (message := await says.get()) is not None:
            yield message

    async with keeping(world, await with_node(world)) as slices:
        listing = ResourceListing(slices, NAME, clock=world.clock)
        following = asyncio.ensure_future(listing.follow(listen))
        await says.put(listed(model("a"), model("b")))
        await asyncio.sleep(1)
        first = await published(world)
        assert sorted(first.values()) == [["a"], ["b"]]
        (kept,) = (name for name, names in first.items() if names == ["a"])
        assert kept.startswith(f"n-{NAME}-")
        stored = await world.of(SLICES).get(kept)
        assert (stored.node_name, stored.driver_name) == ("n", NAME)
        await says.put(listed(model("a"), model("c")))
        await asyncio.sleep(1)
        second = await published(world)
        assert set(second) == set(first), "a slice whose content is gone is written anew"
        assert second[kept] == ["a"]
        assert (await world.of(SLICES).get(kept)).metadata.resource_version == stored.metadata.resource_version
        await says.put(listed(model("a")))
        await says.put(None)
        await following
        await asyncio.sleep(1)
        assert await published(world) == {kept: ["a"]}, "what a driver said last stays true"
        listing.end()
        await asyncio.sleep(1)
        assert await published(world) == {}


@run_with(lambda test: play("1.30", test, nodes=0))
async def test_a_slice_that_is_deleted_by_hand_is_written_again(world: World) -> None:
    async def listen() -> AsyncGenerator[bytes]:
        yield listed(model("a"))

    async with keeping(world, await with_node(world)) as slices:
        await ResourceListing(slices, NAME, clock=world.clock).follow(listen)
        await asyncio.sleep(1)
        (first,) = await published(world)
        await world.of(SLICES).delete(first)
        await asyncio.sleep(1)
        (second,) = await published(world)
        assert second != first


@run_with(lambda test: play("1.30", test, nodes=0))
async def test_slices_of_drivers_that_are_not_registered_go(world: World) -> None:
    """At the start, and later those that are written by hand; other nodes' stay."""
    api = await with_node(world)
    for piece in (by_hand("old"), by_hand("of-another", driver="e.example.com"), by_hand("elsewhere", on="m")):
        await world.of(SLICES).create(piece)
    async with keeping(world, api):
        await asyncio.sleep(1)
        assert list(await published(world)) == ["elsewhere"]
        await world.of(SLICES).create(by_hand("new"))
        await asyncio.sleep(1)
        assert list(await published(world)) == ["elsewhere"]


@run_with(lambda test: play("1.30", test, nodes=0))
async def test_a_driver_that_lists_nothing_has_no_slices(world: World) -> None:
    async def listen() -> AsyncGenerator[bytes]:
        raise PluginCallError("Unimplemented", "method not implemented")
        yield b""

    async with keeping(world, await with_node(world)) as slices:
        await ResourceListing(slices, NAME, clock=world.clock).follow(listen)
        await world.of(SLICES).create(by_hand("mine"))
        await asyncio.sleep(1)
        assert await published(world) == {}


@run_with(lambda test: play("1.30", test, nodes=0))
async def test_an_instance_that_was_replaced_takes_nothing_with_it(world: World) -> None:
    async def listen() -> AsyncGenerator[bytes]:
        yield listed(model("a"))

    async with keeping(world, await with_node(world)) as slices:
        first, second = (ResourceListing(slices, NAME, clock=world.clock) for _ in range(2))
        await first.follow(listen)
        await second.follow(listen)
        first.end()
        await asyncio.sleep(1)
        assert list((await published(world)).values()) == [["a"]]


@run_with(lambda test: play("1.30", test, nodes=0))
async def test_a_broken_stream_is_asked_for_again_and_a_missing_one_is_not(world: World) -> None:
    calls: list[float] = []

    async def listen() -> AsyncGenerator[bytes]:
        calls.append(world.clock.monotonic())
        if len(calls) == 1:
            raise PluginCallError("Unavailable", "connection refused")
        if len(calls) == 2:
            yield b"\x0a\x07"
        if len(calls) == 3:
            yield listed(model("a"))
            raise PluginCallError("Unimplemented", "method not implemented")

    async with keeping(world, await with_node(world)) as slices:
        await ResourceListing(slices, NAME, clock=world.clock).follow(listen)
        assert [later - calls[0] for later in calls] == [0, 5, 10]
        await asyncio.sleep(1)
        assert list((await published(world)).values()) == [["a"]]


def test_a_node_writes_its_own_slices_alone() -> None:
    async def story(api: Guarded) -> None:
        await api.admin.resource(SLICES).create(by_hand("theirs", "n2"))
        slices = api.node("n1").resource(SLICES)
        mine = await slices.create(by_hand("mine", "n1"))
        await slices.update(replace(mine, named_resources=model("a")))
        await slices.delete("mine")
        message = await refused(slices.create(by_hand("other", "n2")))
        assert message.endswith("can only create ResourceSlice with the same NodeName as the requesting node")
        for attempt in (slices.get("theirs"), slices.delete("theirs")):
            await refused(attempt)

    served = ("resource.k8s.io/v1alpha2",)
    guarded(story, gates={"DynamicResourceAllocation": True}, serve=served, release="1.30")


class Listing(NodeDriver):
    """Lists two instances, and one of them later."""

    def __init__(self) -> None:
        self.change = asyncio.Event()

    async def prepare(self, claim: NodeClaim) -> Sequence[str]:
        """Nothing to do."""
        return []

    async def unprepare(self, claim: NodeClaim) -> None:
        """Nothing to do."""

    def resources(self) -> AsyncIterator[Sequence[Model]]:
        """The driver's instances."""
        return self._resources()

    async def _resources(self) -> AsyncIterator[Sequence[Model]]:
        yield [model("a", "b")]
        await self.change.wait()
        yield [model("a")]


class Silent(Listing):
    """Lists nothing."""

    def resources(self) -> None:  # type: ignore[override]
        """Nothing."""


async def eventually(world: World, expected: list[list[str]]) -> None:
    """Wait until the slices have that content."""
    async with asyncio.timeout(20), world.of(SLICES).watch() as changes:
        if list((await published(world)).values()) == expected:
            return
        async for _ in changes:
            if list((await published(world)).values()) == expected:
                return


def over_sockets(body: Callable[[World], Awaitable[None]], release: str = "1.30") -> None:
    play(release, body, nodes=0, virtual=False)


@run_with(over_sockets)
async def test_the_agent_of_1_30_publishes_what_a_plugin_lists_while_it_is_registered(
    world: World, *, tmp_path: Path
) -> None:
    api = await with_node(world)
    driver = Listing()
    async with serving(NAME, driver, plugin_dir=tmp_path / "p", registry_dir=tmp_path / "r") as registration:
        dial = classic_dial(api, gates("1.30"), "n")(SystemClock(), NodeMetrics(SystemClock()))
        async with beside(dial.run()):
            client, _ = dial(NAME, registration.info.endpoint, registration.info.supported_versions)
            async with beside(client.follow_connection(lambda connected: None)):
                await eventually(world, [["a", "b"]])
                driver.change.set()
                await eventually(world, [["a"]])
            await client.close()
            await eventually(world, [])


@pytest.mark.parametrize(("release", "driver"), [("1.29", Listing()), ("1.30", Silent())])
def test_elsewhere_plugins_publish_nothing(release: str, driver: Listing, tmp_path: Path) -> None:
    async def story(world: World) -> None:
        api = await with_node(world)
        async with serving(NAME, driver, plugin_dir=tmp_path / "p", registry_dir=tmp_path / "r") as registration:
            dial = classic_dial(api, gates(release), "n")(SystemClock(), NodeMetrics(SystemClock()))
            client, _ = dial(NAME, registration.info.endpoint, registration.info.supported_versions)
            connected = asyncio.Event()
            async with beside(client.follow_connection(lambda now: connected.set() if now else None)):
                await asyncio.wait_for(connected.wait(), 20)
                await asyncio.sleep(0.2)
                assert release == "1.29" or await published(world) == {}
            await client.close()

    over_sockets(story, release)
