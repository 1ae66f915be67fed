"""Reports of a driver about its devices in the status of a claim."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from cathedra.api.core.meta_v1 import Condition
from cathedra.api.resource import AllocatedDeviceStatus
from cathedra.api.status import StatusError
from cathedra.api.struct import RawJSON
from cathedra.client.client import Client
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.client.transport import APICall, Transport
from cathedra.driver.claim import DeviceStatus, Prepared, Ref
from cathedra.driver.preparing.status import device_entries, write_device_status
from tests.running import run_with
from tests.unit.driver.world import DRIVER, NODE, World, in_virtual_time, opaque, result

OTHER = "other.example.com"


def entry(text: str, device: str = "lamp-0") -> AllocatedDeviceStatus:
    (made,) = device_entries(DRIVER, [Prepared(device, NODE, status=DeviceStatus(data={"text": text}))])
    return made


async def said(world: World, *names: str) -> dict[str, Any]:
    """Device → data and types of conditions, of the entries of the claim ``c``."""
    return {
        one.device: (one.data and one.data.load(), [each.type for each in one.conditions or ()])
        for one in (await world.claim("c")).status.devices
    }


def test_only_devices_with_something_to_say_have_an_entry() -> None:
    told = Prepared("d", "p", share_id="s", status=DeviceStatus(data={"a": 1}))
    (made,) = device_entries("mine", [Prepared("silent", "p"), told])
    assert (made.driver, made.pool, made.device, made.share_id) == ("mine", "p", "d", "s")
    assert made.data == RawJSON(b'{"a":1}')


@run_with(in_virtual_time)
async def test_entries_of_others_and_their_conditions_stay(world: World) -> None:
    ref = await world.allocate("c", "lamp-0", result("x-0", request="x", driver=OTHER))
    mine, others = world.client.as_manager("mine"), world.client.as_manager("others")
    await write_device_status(mine, ref, [entry("old")])
    theirs = {"driver": OTHER, "pool": NODE, "device": "x-0", "data": {"theirs": True}}
    ready = {"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": None}
    ready["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    on_mine = {"driver": DRIVER, "pool": NODE, "device": "lamp-0", "conditions": [ready]}
    fields = {"status": {"devices": [theirs, on_mine]}}
    await others.resource(RESOURCECLAIMS, "default").apply("c", fields, "status")
    await write_device_status(mine, ref, [entry("new")])
    assert await said(world) == {"lamp-0": ({"text": "new"}, ["Ready"]), "x-0": ({"theirs": True}, [])}


@run_with(in_virtual_time)
async def test_what_is_not_said_again_is_removed(world: World) -> None:
    ref = await world.allocate("c", "lamp-0", "lamp-1")
    mine = world.client.as_manager("mine")
    await write_device_status(mine, ref, [entry("a"), entry("b", "lamp-1")])
    await write_device_status(mine, ref, [entry("c", "lamp-1")])
    assert await said(world) == {"lamp-1": ({"text": "c"}, [])}


@run_with(in_virtual_time)
async def test_what_is_there_already_is_not_written_again(world: World) -> None:
    ref = await world.allocate("c", "lamp-0")
    await write_device_status(world.client, ref, [entry("same")])
    before = (await world.claim("c")).metadata.resource_version
    await write_device_status(world.client, ref, [entry("same")])
    assert (await world.claim("c")).metadata.resource_version == before


@run_with(in_virtual_time)
async def test_another_claim_of_that_name_is_left_alone(world: World) -> None:
    await world.allocate("c", "lamp-0")
    assert await write_device_status(world.client, Ref("default", "c", "another"), [entry("x")]) is None
    assert await said(world) == {}


@run_with(in_virtual_time)
async def test_a_device_that_the_claim_does_not_hold_is_refused_at_once(world: World) -> None:
    """Nothing is updated after the refusal: the error of an update could be about a right that no driver needs."""
    ref = await world.allocate("c", "lamp-0")
    counting = Counting(world.client.transport)
    with pytest.raises(StatusError, match="must be an allocated device"):
        await write_device_status(Client(counting, clock=world.client.clock), ref, [entry("x", "lamp-3")])
    assert "patch" in counting.verbs
    assert "update" not in counting.verbs


class Counting:
    """A transport that notes the verbs of its calls."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.verbs: list[str] = []

    def call(self, call: APICall) -> Coroutine[Any, Any, Any]:
        self.verbs.append(call.verb)
        return self._transport.call(call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


@run_with(in_virtual_time)
async def test_parameters_with_keys_in_any_order_do_not_keep_the_status_from_being_written(world: World) -> None:
    """An apply writes them in sorted order, which the server takes for a changed allocation."""
    ref = await world.allocate("c", "lamp-0", config=[opaque({"z": 1, "a": 2})])
    await write_device_status(world.client.as_manager("mine"), ref, [entry("told")])
    assert await said(world) == {"lamp-0": ({"text": "told"}, [])}


def stated(status: str, kind: str = "Linked") -> AllocatedDeviceStatus:
    condition = Condition(type=kind, status=status, reason="Cable", message="plugged")
    (made,) = device_entries(DRIVER, [Prepared("lamp-0", NODE, status=DeviceStatus(conditions=[condition]))])
    return made


async def conditions(world: World) -> dict[str, tuple[str, str]]:
    """Type → status and since when, of the conditions of the claim's only entry."""
    (entry,) = (await world.claim("c")).status.devices
    return {one.type: (one.status, str(one.last_transition_time)) for one in entry.conditions or ()}


@run_with(in_virtual_time)
async def test_a_condition_holds_since_it_was_first_stated(world: World) -> None:
    ref = await world.allocate("c", "lamp-0")
    mine = world.client.as_manager("mine")
    await write_device_status(mine, ref, [stated("True")])
    first = await conditions(world)
    await world.clock.sleep(60)
    await write_device_status(mine, ref, [stated("True")])
    assert await conditions(world) == first
    await write_device_status(mine, ref, [stated("False")])
    (status, since) = (await conditions(world))["Linked"]
    assert status == "False"
    assert since > first["Linked"][1]


@run_with(in_virtual_time)
async def test_conditions_of_others_stay_beside_the_drivers_own(world: World) -> None:
    ref = await world.allocate("c", "lamp-0")
    mine, others = world.client.as_manager("mine"), world.client.as_manager("others")
    await write_device_status(others, ref, [stated("True", "Ready")])
    await write_device_status(mine, ref, [stated("True")])
    assert set(await conditions(world)) == {"Ready", "Linked"}
    await write_device_status(mine, ref, [entry("no condition any more")])
    assert set(await conditions(world)) == {"Ready"}
