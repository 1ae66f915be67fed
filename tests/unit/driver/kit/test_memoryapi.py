"""The API server in memory that drivers are tried with."""

from __future__ import annotations

import asyncio

import pytest

from cathedra.api.core.meta_v1 import DeleteOptions, ObjectMeta
from cathedra.api.resource import AllocationResult, ResourceClaim, ResourceClaimStatus
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.client.transport import EventType, ListOptions, PatchType, WriteOptions
from cathedra.clock import run_virtual
from cathedra.driver.kit.memoryapi import MemoryAPI

WRITE = WriteOptions()


async def made(api: MemoryAPI, name: str = "c", **metadata: str) -> ResourceClaim:
    found: ResourceClaim = await api.create(
        RESOURCECLAIMS, "default", ResourceClaim(metadata=ObjectMeta(name=name, **metadata)), WRITE
    )
    return found


async def test_a_new_object_has_uid_namespace_and_version_and_a_name_of_its_own() -> None:
    api = MemoryAPI()
    claim = await made(api)
    assert (claim.metadata.namespace, claim.metadata.resource_version) == ("default", "1")
    assert await api.get(RESOURCECLAIMS, "default", "c") == claim
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
    changed = await api.update(RESOURCECLAIMS, "default", both, WRITE)
    assert (changed.metadata.labels, changed.status) == ({"a": "b"}, ResourceClaimStatus())
    other = replace(changed, metadata=replace(changed.metadata, labels={}), status=status)
    told = await api.update(RESOURCECLAIMS, "default", other, WRITE, subresource="status")
    assert (told.metadata.labels, told.status) == ({"a": "b"}, status)


async def test_an_older_state_is_a_conflict_and_what_is_gone_is_not_found() -> None:
    api = MemoryAPI()
    claim = await made(api)
    await api.update(RESOURCECLAIMS, "default", claim, WRITE)
    with pytest.raises(StatusError) as stale:
        await api.update(RESOURCECLAIMS, "default", claim, WRITE)
    assert stale.value.is_conflict
    await api.delete(RESOURCECLAIMS, "default", "c", DeleteOptions())
    with pytest.raises(StatusError) as gone:
        await api.get(RESOURCECLAIMS, "default", "c")
    assert gone.value.is_not_found


async def test_lists_are_of_one_namespace_or_of_all() -> None:
    api = MemoryAPI()
    await made(api, "a")
    await api.create(RESOURCECLAIMS, "other", ResourceClaim(metadata=ObjectMeta(name="b")), WRITE)
    for namespace, names in (("default", ["a"]), ("other", ["b"]), ("", ["a", "b"])):
        page = await api.list(RESOURCECLAIMS, namespace, ListOptions())
        assert [claim.metadata.name for claim in page.items] == names
        assert page.resource_version == "2"
    await api.delete_collection(RESOURCECLAIMS, "other", ListOptions(), DeleteOptions())
    assert len((await api.list(RESOURCECLAIMS, "", ListOptions())).items) == 1


def test_a_watch_shows_each_change_after_a_version_once_and_in_order() -> None:
    async def body() -> None:
        api = MemoryAPI()
        first = await made(api, "a")
        seen: list[tuple[EventType, str]] = []

        async def follow() -> None:
            options = ListOptions(resource_version=first.metadata.resource_version)
            async with api.watch(RESOURCECLAIMS, "default", options) as events:
                async for event in events:
                    seen.append((event.type, event.object.metadata.name))

        watching = asyncio.create_task(follow())
        await asyncio.sleep(1)
        second = await made(api, "b")
        await asyncio.sleep(1)
        await api.update(RESOURCECLAIMS, "default", second, WRITE)
        await api.create(RESOURCECLAIMS, "other", ResourceClaim(metadata=ObjectMeta(name="c")), WRITE)
        await api.delete(RESOURCECLAIMS, "default", "a", DeleteOptions())
        await asyncio.sleep(1)
        watching.cancel()
        assert seen == [(EventType.ADDED, "b"), (EventType.MODIFIED, "b"), (EventType.DELETED, "a")]

    run_virtual(body())


async def test_what_it_cannot_do_it_refuses() -> None:
    api = MemoryAPI()
    with pytest.raises(StatusError, match="knows no patches"):
        await api.patch(RESOURCECLAIMS, "default", "c", PatchType.MERGE, {}, WRITE)
    with pytest.raises(StatusError, match="is not served here"):
        await api.create(RESOURCECLAIMS, "default", ResourceClaim(), WRITE, subresource="binding")
