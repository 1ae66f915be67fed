"""The API server in memory that drivers are tried with."""

from __future__ import annotations

import asyncio

import pytest

from cathedra.allocation import Allocation, AllocationError
from cathedra.api.core.meta_v1 import DeleteOptions, ObjectMeta
from cathedra.api.resource import AllocationResult, ResourceClaim, ResourceClaimStatus
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.client.transport import APICall, EventType, ListOptions, PatchType, WriteOptions
from cathedra.clock import run_virtual
from cathedra.driver.kit import Kit
from cathedra.driver.kit.bench import NAMESPACE, NODE
from cathedra.driver.kit.memoryapi import MemoryAPI, asked, results_for
from tests.unit.driver.world import DRIVER, Lamps

WRITE = WriteOptions()


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


def test_a_watch_shows_each_change_after_a_version_once_and_in_order() -> None:
    async def body() -> None:
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

    run_virtual(body())


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
