"""What drivers of 1.30 list becomes ResourceSlices: docs/spec/protocols.md §6."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Node
from cathedra.api.protobuf.wire import ProtobufError
from cathedra.api.struct import from_dict, replace
from cathedra.classic.nodes.client import classic_dial
from cathedra.classic.nodes.listing import ResourceListing, decode_listing, encode_listing
from cathedra.classic.nodes.plugin import NodeClaim, NodeDriver, serving
from cathedra.classic.resources import SLICES
from cathedra.client.client import Client
from cathedra.client.resources import NODES
from cathedra.clock import SystemClock
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins.client import PluginCallError
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


def test_slices_follow_the_driver_with_the_fewest_writes() -> None:
    async def story(world: World) -> None:
        api = await with_node(world)
        listing = ResourceListing(api, "n", NAME, clock=world.clock)
        says: asyncio.Queue[bytes | None] = asyncio.Queue()

        async def listen() -> AsyncGenerator[bytes]:
            while (message := await says.get()) is not None:
                yield message

        following = asyncio.ensure_future(listing.follow(listen))
        await says.put(listed(model("a"), model("b")))
        await asyncio.sleep(1)
        first = await published(world)
        assert sorted(first.values()) == [["a"], ["b"]]
        (kept,) = (name for name, names in first.items() if names == ["a"])
        assert kept.startswith(f"n-{NAME}-")
        stored = await world.of(SLICES).get(kept)
        (owner,) = stored.metadata.owner_references
        assert (owner.kind, owner.name, owner.controller) == ("Node", "n", True)
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
        assert await published(world) == {kept: ["a"]}, "what a driver said last stays true"
        await listing.end()
        assert await published(world) == {}

    play("1.30", story, nodes=0)


def test_a_broken_stream_is_asked_for_again_and_a_missing_one_is_not() -> None:
    async def story(world: World) -> None:
        listing = ResourceListing(await with_node(world), "n", NAME, clock=world.clock)
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

        await listing.follow(listen)
        assert [later - calls[0] for later in calls] == [0, 5, 10]
        assert list((await published(world)).values()) == [["a"]]

    play("1.30", story, nodes=0)


def test_publishing_is_tried_again_until_it_succeeds() -> None:
    async def story(world: World) -> None:
        # The node is not there yet: a slice could have no owner.
        api = world.part("system:node:n", ("system:nodes",))
        listing = ResourceListing(api, "n", NAME, clock=world.clock)

        async def listen() -> AsyncGenerator[bytes]:
            yield listed(model("a"))

        following = asyncio.ensure_future(listing.follow(listen))
        await asyncio.sleep(10)
        assert await published(world) == {}
        await with_node(world)
        await asyncio.wait_for(following, 60)
        assert list((await published(world)).values()) == [["a"]]

    play("1.30", story, nodes=0)


def test_a_driver_that_never_listed_anything_leaves_slices_alone() -> None:
    async def story(world: World) -> None:
        api = await with_node(world)
        by_hand = {"metadata": {"name": "mine"}, "nodeName": "n", "driverName": NAME, "namedResources": {}}
        await world.of(SLICES).create(from_dict(v1alpha2.ResourceSlice, by_hand))
        listing = ResourceListing(api, "n", NAME, clock=world.clock)

        async def listen() -> AsyncGenerator[bytes]:
            raise PluginCallError("Unimplemented", "method not implemented")
            yield b""

        await listing.follow(listen)
        await listing.end()
        assert list(await published(world)) == ["mine"]

    play("1.30", story, nodes=0)


def test_slices_that_cannot_be_removed_do_not_stop_the_node() -> None:
    async def story(world: World) -> None:
        api = await with_node(world)
        listing = ResourceListing(api, "n", NAME, clock=world.clock)

        async def listen() -> AsyncGenerator[bytes]:
            yield listed(model("a"))

        await listing.follow(listen)
        await world.server.close()
        await listing.end()

    play("1.30", story, nodes=0)


def test_a_node_writes_its_own_slices_alone() -> None:
    def piece(name: str, on: str) -> v1alpha2.ResourceSlice:
        fields = {"metadata": {"name": name}, "nodeName": on, "driverName": NAME, "namedResources": {}}
        return from_dict(v1alpha2.ResourceSlice, fields)

    async def story(api: Guarded) -> None:
        await api.admin.resource(SLICES).create(piece("theirs", "n2"))
        slices = api.node("n1").resource(SLICES)
        mine = await slices.create(piece("mine", "n1"))
        await slices.update(replace(mine, named_resources=model("a")))
        await slices.delete("mine")
        message = await refused(slices.create(piece("other", "n2")))
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
    """Wait until the slices say that."""
    async with asyncio.timeout(20), world.of(SLICES).watch() as changes:
        async for _ in changes:
            if list((await published(world)).values()) == expected:
                return


def over_sockets(body: Callable[[World], Awaitable[None]], release: str = "1.30") -> None:
    play(release, body, nodes=0, virtual=False)


def test_the_agent_of_1_30_publishes_what_a_plugin_lists_while_it_is_registered(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        api = await with_node(world)
        driver = Listing()
        async with serving(NAME, driver, plugin_dir=tmp_path / "p", registry_dir=tmp_path / "r") as registration:
            dial = classic_dial(api, gates("1.30"), "n")(SystemClock(), NodeMetrics(SystemClock()))
            client, _ = dial(NAME, registration.info.endpoint, registration.info.supported_versions)
            following = asyncio.ensure_future(client.follow_connection(lambda connected: None))
            await eventually(world, [["a", "b"]])
            driver.change.set()
            await eventually(world, [["a"]])
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await client.close()
            assert await published(world) == {}

    over_sockets(story)


@pytest.mark.parametrize(("release", "driver"), [("1.29", Listing()), ("1.30", Silent())])
def test_elsewhere_plugins_publish_nothing(release: str, driver: Listing, tmp_path: Path) -> None:
    async def story(world: World) -> None:
        api = await with_node(world)
        async with serving(NAME, driver, plugin_dir=tmp_path / "p", registry_dir=tmp_path / "r") as registration:
            dial = classic_dial(api, gates(release), "n")(SystemClock(), NodeMetrics(SystemClock()))
            client, _ = dial(NAME, registration.info.endpoint, registration.info.supported_versions)
            connected = asyncio.Event()
            following = asyncio.ensure_future(client.follow_connection(lambda now: connected.set() if now else None))
            await asyncio.wait_for(connected.wait(), 20)
            await asyncio.sleep(0.2)
            assert release == "1.29" or await published(world) == {}
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await client.close()

    over_sockets(story, release)
