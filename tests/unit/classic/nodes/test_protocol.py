"""Both sides of the kubelet's protocol of 1.26 to 1.30, over a real socket: docs/spec/protocols.md §6."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.struct import from_dict, replace
from cathedra.classic.nodes.client import (
    AgentContext,
    ClassicPluginClient,
    Handle,
    classic_dial,
    handle_of,
    services_of,
)
from cathedra.classic.nodes.plugin import NodeClaim, NodeDriver, StructuredHandle, serving
from cathedra.classic.resources import CLAIMS
from cathedra.clock import SystemClock
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins.client import ClaimReference, PluginCallError, RegistrationError
from tests.running import run_with
from tests.unit.classic.world import World, gates, play, resource_class
from tests.unit.classic.world import claim as new_claim

NAME = "d.example.com"
T = TypeVar("T")


class Recording(NodeDriver):
    """Records its claims; refuses those whose handle requests it."""

    def __init__(self) -> None:
        self.prepared: list[NodeClaim] = []
        self.unprepared: list[NodeClaim] = []

    async def prepare(self, claim: NodeClaim) -> Sequence[str]:
        """One device for each claim."""
        if claim.handle == "broken":
            raise ValueError("this one is broken")
        self.prepared.append(claim)
        return [f"example.com/test={claim.uid}"]

    async def unprepare(self, claim: NodeClaim) -> None:
        """Remember that."""
        self.unprepared.append(claim)


def reference(claim: v1alpha2.ResourceClaim) -> ClaimReference:
    return ClaimReference(claim.metadata.namespace, claim.metadata.uid, claim.metadata.name)


async def allocated(world: World, name: str, **handle: object) -> ClaimReference:
    """A claim with a handle for the driver."""
    created = await world.of(CLAIMS).create(new_claim(name))
    status = {"driverName": NAME, "allocation": {"resourceHandles": [{"driverName": NAME, **handle}]}}
    changed = from_dict(v1alpha2.ResourceClaim, {"status": status})
    updated = replace(created, status=changed.status)
    return reference(await world.of(CLAIMS).update_status(updated))


def over_sockets(release: str, body: Callable[[World], Awaitable[T]]) -> T:
    """Run ``body`` beside an API server of the release: sockets need real time."""
    return play(release, body, nodes=0, virtual=False)


@pytest.mark.parametrize("release", ["1.26", "1.27", "1.28", "1.30"])
def test_a_node_of_each_release_prepares_and_lets_go_with_the_handle_of_the_claim(release: str, tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.create(resource_class(driver=NAME))
        claims = [await allocated(world, "a", data="first"), await allocated(world, "b", data="second")]
        driver = Recording()
        async with serving(NAME, driver, plugin_dir=tmp_path / "p", registry_dir=tmp_path / "r") as registration:
            assert registration.info.supported_versions == ("1.0.0",)
            dial = classic_dial(world.client, gates(release), "n")(SystemClock(), NodeMetrics(SystemClock()))
            client, health = dial(NAME, registration.info.endpoint, registration.info.supported_versions)
            assert health is None
            outcomes = await client.prepare(claims)
            assert {uid: outcome.devices[0].cdi_device_ids for uid, outcome in outcomes.items()} == {
                claim.uid: (f"example.com/test={claim.uid}",) for claim in claims
            }
            assert sorted(claim.handle for claim in driver.prepared) == ["first", "second"]
            assert await client.unprepare(claims) == {claim.uid: "" for claim in claims}
            assert [claim.uid for claim in driver.unprepared] == [claim.uid for claim in claims]
            # Only 1.26 does not send the handle again.
            assert (driver.unprepared[0].handle == "first") is (release != "1.26")
            await client.close()

    over_sockets(release, story)


@run_with(lambda test: over_sockets("1.28", test))
async def test_what_a_driver_raises_is_told_of_its_claim_alone(world: World, *, tmp_path: Path) -> None:
    await world.create(resource_class(driver=NAME))
    good, bad = await allocated(world, "a", data="x"), await allocated(world, "b", data="broken")
    async with serving(NAME, Recording(), plugin_dir=tmp_path / "p", registry_dir=tmp_path / "r") as registration:
        client = _client(world, registration.info.endpoint, ("v1alpha3",))
        outcomes = await client.prepare([good, bad])
        assert outcomes[good.uid].error == ""
        assert outcomes[bad.uid].error == "this one is broken"
        older = _client(world, registration.info.endpoint, ("v1alpha2",))
        with pytest.raises(PluginCallError, match="code = Unknown desc = this one is broken"):
            await older.prepare([bad])
        await asyncio.gather(client.close(), older.close())


@run_with(lambda test: over_sockets("1.28", test))
async def test_an_older_service_is_used_where_the_newer_one_is_not_implemented(world: World, *, tmp_path: Path) -> None:
    await world.create(resource_class(driver=NAME))
    claim = await allocated(world, "a", data="x")
    async with serving(NAME, Recording(), plugin_dir=tmp_path / "p", registry_dir=tmp_path / "r") as registration:
        client = _client(world, registration.info.endpoint, ("v1alpha9", "v1alpha2"))
        assert (await client.prepare([claim]))[claim.uid].error == ""
        nothing = _client(world, registration.info.endpoint, ("v1alpha9",))
        with pytest.raises(PluginCallError, match="Unimplemented"):
            await nothing.prepare([claim])
        await asyncio.gather(client.close(), nothing.close())


@run_with(lambda test: over_sockets("1.30", test))
async def test_a_structured_handle_arrives_with_its_parameters(world: World, *, tmp_path: Path) -> None:
    await world.create(resource_class(driver=NAME))
    result = {"vendorRequestParameters": {"a": "b"}, "namedResources": {"name": "big"}}
    structured = {"nodeName": "n", "vendorClassParameters": {"x": "y"}, "results": [result]}
    claim = await allocated(world, "a", structuredData=structured)
    driver = Recording()
    async with serving(NAME, driver, plugin_dir=tmp_path / "p", registry_dir=tmp_path / "r") as registration:
        client = _client(world, registration.info.endpoint, services_of(gates("1.30")))
        await client.prepare([claim])
        await client.close()
    (prepared,) = driver.prepared
    assert prepared.structured == StructuredHandle(
        node="n", instances=("big",), class_parameters=b'{"x":"y"}', request_parameters=(b'{"a":"b"}',)
    )


def _client(world: World, endpoint: str, services: Sequence[str]) -> ClassicPluginClient:
    clock = SystemClock()
    return ClassicPluginClient(NAME, endpoint, AgentContext(world.client, services, clock, NodeMetrics(clock)))


@run_with(lambda test: play("1.26", test, nodes=0))
async def test_a_driver_of_today_cannot_register_at_a_classic_node(world: World) -> None:
    dial = classic_dial(world.client, gates("1.26"), "n")(SystemClock(), NodeMetrics(SystemClock()))
    with pytest.raises(RegistrationError, match=r"None of the versions specified \[.v1.DRAPlugin.\] are"):
        dial(NAME, "/nowhere", ("v1.DRAPlugin",))


def test_an_allocation_without_a_handle_for_the_driver_tells_it_nothing() -> None:
    claim = from_dict(v1alpha2.ResourceClaim, {"status": {"driverName": NAME, "allocation": {}}})
    assert handle_of(claim, NAME) == Handle()
    status = {"driverName": NAME, "allocation": {"resourceHandles": [{"data": "x"}]}}
    named_by_status = from_dict(v1alpha2.ResourceClaim, {"status": status})
    assert handle_of(named_by_status, NAME) == Handle("x")
    assert handle_of(named_by_status, "other.example.com") == Handle()
