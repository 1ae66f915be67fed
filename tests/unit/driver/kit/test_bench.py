"""A driver at work on a node that does not exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from cathedra.api.quantity import Quantity
from cathedra.api.resource import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    DeviceCapacity,
    DeviceRequestAllocationResult,
)
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.driver import Claim, Device, Driver, Edits, Prepared
from cathedra.driver.kit import Kit, KitError
from cathedra.driver.kit.bench import NAMESPACE
from tests.unit.driver.world import Lamps


async def test_a_claim_is_prepared_looked_at_and_let_go() -> None:
    class Coloured(Lamps):
        def devices(self) -> list[Device]:
            return [Device("lamp-0")]

        def prepare(self, claim: Claim) -> Iterator[Prepared]:
            for lamp in claim.allocations:
                yield lamp.prepared(Edits(env={"LAMP": f"{lamp.device} for {claim.name}"}))

    async with Kit(Coloured) as kit:
        assert await kit.devices() == [("kit-node", "lamp-0")]
        claim = await kit.claim("lamp-0", name="light")
        devices = await kit.prepare(claim)
        assert kit.edits(devices).env == ("LAMP=lamp-0 for light",)
        await kit.unprepare(claim)
        assert list(kit.cdi_directory.iterdir()) == []
        with pytest.raises(KitError, match="no device lamp-9"):
            await kit.claim("lamp-9")


def form(name: str) -> str:
    return f'device.attributes["slicer.example.com"].form == "{name}"'


async def test_the_allocator_gives_out_parts_while_their_counters_suffice(slicer: Callable[[], Driver]) -> None:
    async with Kit(slicer) as kit:
        whole = await kit.allocate(form("whole"))
        assert kit.edits(await kit.prepare(whole)).env == ("CARD_0_SLOTS=0,1,2,3",)
        quarter = await kit.allocate(form("quarter"))
        assert kit.edits(await kit.prepare(quarter)).env == ("CARD_1_SLOTS=0",)
        half = await kit.allocate(form("half"), name="bigger")
        assert kit.edits(await kit.prepare(half)).env == ("CARD_1_SLOTS=2,3",)
        with pytest.raises(KitError, match="4 selected, 3 free, 0 with counters"):
            await kit.allocate(form("half"))
        await kit.unprepare(whole)
        await kit.delete(whole)
        halves = await kit.allocate(form("half"), count=2)
        assert set(kit.edits(await kit.prepare(halves)).env) == {"CARD_0_SLOTS=0,1", "CARD_0_SLOTS=2,3"}


async def test_a_selector_that_cannot_be_compiled_is_told(slicer: Callable[[], Driver]) -> None:
    async with Kit(slicer) as kit:
        with pytest.raises(KitError, match="undefined field 'nothing'"):
            await kit.allocate("device.nothing")


async def test_a_restart_loses_memory_and_keeps_files_and_a_reboot_loses_cdi_too() -> None:
    async with Kit(Lamps) as kit:
        claim = await kit.claim("lamp-0")
        devices = await kit.prepare(claim)
        first = kit.driver
        await kit.restart()
        assert kit.driver is not first
        assert kit.edits(devices).env == ("LAMP_0=on",)
        assert await kit.prepare(claim) == devices
        assert kit.driver.calls == [], "it was prepared, and that is remembered"
        await kit.reboot()
        assert await kit.prepare(claim) == devices
        assert kit.edits(devices).env == ("LAMP_0=on",)
        assert kit.driver.calls != [], "a machine that was restarted has nothing prepared"


async def test_a_claim_may_have_parameters_and_devices_of_other_drivers() -> None:
    other = DeviceRequestAllocationResult(request="nic", driver="nic.example.com", pool="p", device="nic-0")
    async with Kit(Lamps) as kit:
        claim = await kit.claim("lamp-1", request="lamp", config={"colour": "red"}, others=[other])
        assert [device.device_name for device in await kit.prepare(claim)] == ["lamp-1"]
        made = await kit.client.resource(RESOURCECLAIMS, NAMESPACE).get(claim.name)
    assert [request.name for request in made.spec.devices.requests] == ["lamp", "nic"]
    assert made.status.allocation is not None
    (config,) = made.status.allocation.devices.config
    assert config.source == "FromClaim"


async def test_what_the_driver_refuses_is_told_in_its_words() -> None:
    async with Kit(Lamps) as kit:
        claim = await kit.claim("lamp-0")
        kit.driver.faults.append(RuntimeError("no bulb"))
        with pytest.raises(KitError, match="no bulb"):
            await kit.prepare(claim)
        await kit.prepare(claim)
        kit.driver.faults.append(RuntimeError("it is hot"))
        with pytest.raises(KitError, match="it is hot"):
            await kit.unprepare(claim)
        await kit.delete(claim)
        await kit.unprepare(claim)


def test_there_is_no_driver_before_the_bench_is_entered() -> None:
    with pytest.raises(KitError, match="not running"):
        assert Kit(Lamps).driver


class Ports(Lamps):
    """Ports of which several claims have a share, with amounts that begin at different minimums."""

    def devices(self) -> list[Device]:
        policy = CapacityRequestPolicy(
            default=Quantity("2G"), valid_range=CapacityRequestPolicyRange(min=Quantity("1G"))
        )
        capacity = {"bandwidth": DeviceCapacity(value=Quantity("10G"), request_policy=policy), "queues": 8}
        return [Device("port-0", capacity=capacity, multiple_allocations=True)]


async def test_claims_on_a_shared_device_take_the_least_amount() -> None:
    async with Kit(Ports) as kit:
        claims = [await kit.allocate() for _ in range(8)]
        made = await kit.client.resource(RESOURCECLAIMS, NAMESPACE).get(claims[0].name)
        with pytest.raises(KitError):
            await kit.allocate()  # all eight queues are taken
    assert made.status.allocation is not None
    (result,) = made.status.allocation.devices.results
    assert result.consumed_capacity == {"bandwidth": Quantity("1G"), "queues": Quantity(1)}
