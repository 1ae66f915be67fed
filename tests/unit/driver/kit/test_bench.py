"""A driver at work on a node that does not exist."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from cathedra.allocation import Allocation, AllocationError
from cathedra.api.core.meta_v1 import DeleteOptions, ObjectMeta
from cathedra.api.quantity import Quantity
from cathedra.api.resource import (
    AllocationResult,
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    DeviceCapacity,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.client.transport import APICall, EventType, ListOptions, PatchType
from cathedra.driver import Claim, Device, Driver, Edits, Prepared
from cathedra.driver.kit import Kit, KitError
from cathedra.driver.kit.bench import NAMESPACE, NODE, MemoryAPI, asked, results_for
from tests.running import on_virtual_clock
from tests.unit.driver.world import DRIVER, Lamps


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


# The API server in memory that drivers are tried with.


async def made(api: MemoryAPI, name: str = "c", **metadata: str) -> ResourceClaim:
    found: ResourceClaim = await api.call(
        APICall("create", RESOURCECLAIMS, "default", body=ResourceClaim(metadata=ObjectMeta(name=name, **metadata)))
    )
    return found


async def test_a_new_object_has_uid_namespace_and_version_and_a_name_of_its_own() -> None:
    api = MemoryAPI()
    claim = await made(api)
    assert (claim.metadata.namespace, claim.metadata.resource_version) == ("default", "1")
    assert await api.call(APICall("get", RESOURCECLAIMS, "default", "c")) == claim
    with pytest.raises(StatusError) as taken:
        await made(api)
    assert taken.value.code == 409
    first, second = [await made(api, "", generate_name="g-") for _ in range(2)]
    assert first.metadata.name != second.metadata.name
    assert first.metadata.uid != second.metadata.uid


async def test_spec_and_status_are_written_apart() -> None:
    api = MemoryAPI()
    claim = await made(api)
    status = ResourceClaimStatus(allocation=AllocationResult())
    both = replace(claim, metadata=replace(claim.metadata, labels={"a": "b"}), status=status)
    changed = await api.call(APICall("update", RESOURCECLAIMS, "default", both.metadata.name, body=both))
    assert (changed.metadata.labels, changed.status) == ({"a": "b"}, ResourceClaimStatus())
    other = replace(changed, metadata=replace(changed.metadata, labels={}), status=status)
    told = await api.call(APICall("update", RESOURCECLAIMS, "default", other.metadata.name, "status", body=other))
    assert (told.metadata.labels, told.status) == ({"a": "b"}, status)


async def test_an_older_state_is_a_conflict_and_what_is_gone_is_not_found() -> None:
    api = MemoryAPI()
    claim = await made(api)
    await api.call(APICall("update", RESOURCECLAIMS, "default", claim.metadata.name, body=claim))
    with pytest.raises(StatusError) as stale:
        await api.call(APICall("update", RESOURCECLAIMS, "default", claim.metadata.name, body=claim))
    assert stale.value.is_conflict
    await api.call(APICall("delete", RESOURCECLAIMS, "default", "c", body=DeleteOptions()))
    with pytest.raises(StatusError) as gone:
        await api.call(APICall("get", RESOURCECLAIMS, "default", "c"))
    assert gone.value.is_not_found


async def test_lists_are_of_one_namespace_or_of_all() -> None:
    api = MemoryAPI()
    await made(api, "a")
    await api.call(APICall("create", RESOURCECLAIMS, "other", body=ResourceClaim(metadata=ObjectMeta(name="b"))))
    for namespace, names in (("default", ["a"]), ("other", ["b"]), ("", ["a", "b"])):
        page = await api.call(APICall("list", RESOURCECLAIMS, namespace))
        assert [claim.metadata.name for claim in page.items] == names
        assert page.resource_version == "2"
    await api.call(APICall("deletecollection", RESOURCECLAIMS, "other", body=DeleteOptions()))
    assert len((await api.call(APICall("list", RESOURCECLAIMS, ""))).items) == 1


@on_virtual_clock
async def test_a_watch_shows_each_change_after_a_version_once_and_in_order() -> None:
    api = MemoryAPI()
    first = await made(api, "a")
    seen: list[tuple[EventType, str]] = []

    async def follow() -> None:
        options = ListOptions(resource_version=first.metadata.resource_version)
        async with api.watch(APICall("watch", RESOURCECLAIMS, "default", selection=options)) as events:
            async for event in events:
                seen.append((event.type, event.object.metadata.name))

    watching = asyncio.create_task(follow())
    await asyncio.sleep(1)
    second = await made(api, "b")
    await asyncio.sleep(1)
    await api.call(APICall("update", RESOURCECLAIMS, "default", second.metadata.name, body=second))
    await api.call(APICall("create", RESOURCECLAIMS, "other", body=ResourceClaim(metadata=ObjectMeta(name="c"))))
    await api.call(APICall("delete", RESOURCECLAIMS, "default", "a", body=DeleteOptions()))
    await asyncio.sleep(1)
    watching.cancel()
    assert seen == [(EventType.ADDED, "b"), (EventType.MODIFIED, "b"), (EventType.DELETED, "a")]


async def test_what_it_cannot_do_it_refuses() -> None:
    api = MemoryAPI()
    with pytest.raises(StatusError, match="knows no patches"):
        await api.call(APICall("patch", RESOURCECLAIMS, "default", "c", body={}, patch_type=PatchType.MERGE))
    with pytest.raises(StatusError, match="is not served here"):
        await api.call(APICall("create", RESOURCECLAIMS, "default", subresource="binding", body=ResourceClaim()))


async def given(kit: Kit, selector: str, count: int = 1) -> list[str] | str:
    claim = asked(DRIVER, "c", NAMESPACE, selector, count)
    outcome = await results_for(kit.client, DRIVER, NODE, claim)
    if not isinstance(outcome, Allocation):
        return outcome
    (allocation,) = outcome.results
    return [result.device for result in allocation.devices.results]


def test_a_claim_asks_for_so_many_devices_of_the_driver() -> None:
    (request,) = asked(DRIVER, "c", "ns", "", 2).spec.devices.requests
    assert request.exactly is not None
    assert (request.exactly.device_class_name, request.exactly.count, request.exactly.selectors) == (DRIVER, 2, ())
    (request,) = asked(DRIVER, "c", "ns", "true", 1).spec.devices.requests
    assert request.exactly is not None
    (selector,) = request.exactly.selectors
    assert selector.cel is not None
    assert selector.cel.expression == "true"


async def test_what_is_published_is_given_out_and_what_is_held_is_not() -> None:
    index = f'device.attributes["{DRIVER}"].index'
    async with Kit(Lamps) as kit:
        assert await given(kit, f"{index} == 2") == ["lamp-2"]
        assert sorted(await given(kit, "", 4)) == [f"lamp-{i}" for i in range(4)]
        await kit.claim("lamp-2")
        assert isinstance(await given(kit, f"{index} == 2"), str), "why not, in words"
        assert await given(kit, f"{index} > 1") == ["lamp-3"]


async def test_a_selector_that_fails_is_an_error_and_no_refusal() -> None:
    async with Kit(Lamps) as kit:
        with pytest.raises(AllocationError):
            await given(kit, "device.nothing")
