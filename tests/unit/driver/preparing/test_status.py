"""What a driver says about its devices in the status of a claim."""

from __future__ import annotations

from cathedra.api.core.meta_v1 import Condition
from cathedra.api.resource import AllocatedDeviceStatus, ResourceClaim, ResourceClaimStatus
from cathedra.api.scheme import GroupResource
from cathedra.api.status import conflict
from cathedra.api.struct import RawJSON, replace
from cathedra.client.client import Client
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.clock import run_virtual
from cathedra.driver.claim import DeviceStatus, Prepared, Ref
from cathedra.driver.preparing.status import device_entries, write_device_status
from tests.unit.node.fakes import NodeTransport, make_claim

REF = Ref("default", "c", "uid-c")
THEIRS = AllocatedDeviceStatus(driver="other", pool="p", device="x")


def entry(text: str) -> AllocatedDeviceStatus:
    (made,) = device_entries("mine", [Prepared("d", "p", status=DeviceStatus(data={"text": text}))])
    return made


def stored(server: NodeTransport) -> ResourceClaim:
    found = server.objects["resourceclaims", "default", "c"]
    assert isinstance(found, ResourceClaim)
    return found


async def claim_with(server: NodeTransport, *entries: AllocatedDeviceStatus) -> Client:
    client = Client(server, clock=server.clock())
    claim = replace(make_claim("c", "p"), status=ResourceClaimStatus(devices=entries))
    await client.resource(RESOURCECLAIMS, "default").create(claim)
    return client


def test_only_devices_with_something_to_say_have_an_entry() -> None:
    said = Prepared("d", "p", share_id="s", status=DeviceStatus(data={"a": 1}))
    (made,) = device_entries("mine", [Prepared("silent", "p"), said])
    assert (made.driver, made.pool, made.device, made.share_id) == ("mine", "p", "d", "s")
    assert made.data == RawJSON(b'{"a":1}')


def test_entries_of_others_and_their_conditions_stay() -> None:
    async def body() -> None:
        server = NodeTransport()
        condition = Condition(type="Ready", status="True", reason="R", message="m")
        client = await claim_with(server, THEIRS, replace(entry("old"), conditions=(condition,)))
        await write_device_status(client, REF, [entry("new")])
        assert stored(server).status.devices == (THEIRS, replace(entry("new"), conditions=(condition,)))

    run_virtual(body())


def test_what_is_there_already_is_not_written_again() -> None:
    async def body() -> None:
        server = NodeTransport()
        client = await claim_with(server, entry("same"))
        await write_device_status(client, REF, [entry("same")])
        assert "update" not in [verb for verb, *_ in server.requests]

    run_virtual(body())


def test_a_write_that_lost_a_race_is_made_again_and_another_claim_is_left_alone() -> None:
    async def body() -> None:
        server = NodeTransport()
        client = await claim_with(server)
        lost = [conflict(GroupResource("resource.k8s.io", "resourceclaims"), "c", "changed")]
        update = server.update

        async def racing(*arguments: object, **options: object) -> object:
            if lost:
                raise lost.pop()
            return await update(*arguments, **options)  # type: ignore[arg-type]  # handed on as it came

        server.update = racing  # type: ignore[method-assign,assignment]  # a race for the first write
        await write_device_status(client, REF, [entry("new")])
        assert stored(server).status.devices == (entry("new"),)
        assert await write_device_status(client, Ref("default", "c", "another"), [entry("x")]) is None
        assert stored(server).status.devices == (entry("new"),)

    run_virtual(body())
