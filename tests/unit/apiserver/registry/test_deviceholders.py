"""Allocations of what another claim holds: refused with a conflict, also while the other write is under way."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from cathedra.api.resource import ResourceClaim, ResourceSlice
from cathedra.api.status import StatusError
from cathedra.api.struct import from_dict
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.resources import NAMESPACES, RESOURCECLAIMS, RESOURCESLICES
from cathedra.client.transport import PatchType
from cathedra.clock import LoopClock, run_virtual
from cathedra.faultsim.stores import SYNC_SECONDS, Disk, DiskStore, SharedMedium, SharedStore
from tests.running import run_with

REQUESTS = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}


def published(devices: list[dict[str, Any]], *, generation: int = 1, name: str = "s", **spec: Any) -> ResourceSlice:
    pool = {"name": "p", "generation": generation, "resourceSliceCount": 1}
    body = {"driver": "d.example.com", "pool": pool, "nodeName": "n", "devices": devices, **spec}
    return from_dict(ResourceSlice, {"metadata": {"name": name}, "spec": body})


def result(device: str, *, pool: str = "p", **more: Any) -> dict[str, Any]:
    return {"request": "r", "driver": "d.example.com", "pool": pool, "device": device, **more}


class Claims:
    """Claims of one server whose store takes a moment."""

    def __init__(self, client: Client) -> None:
        self.claims = client.resource(RESOURCECLAIMS, "default")
        self.slices = client.resource(RESOURCESLICES)
        self.namespaces = client.resource(NAMESPACES)

    async def make(self, *names: str) -> None:
        for name in names:
            await self.claims.create(from_dict(ResourceClaim, {"metadata": {"name": name}, "spec": REQUESTS}))

    async def allocate(self, name: str, *results: dict[str, Any]) -> str:
        """Allocate, and return the error."""
        status = {"allocation": {"devices": {"results": list(results)}} if results else None}
        claim = await self.claims.get(name)
        body = {"metadata": {"name": name, "resourceVersion": claim.metadata.resource_version}, "status": status}
        try:
            await self.claims.update_status(from_dict(ResourceClaim, body))
        except StatusError as error:
            return str(error) if error.is_conflict else f"no conflict: {error}"
        return ""


def run(story: Any) -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        store = DiskStore(Disk(Random(1), lambda _: None))
        server = await APIServer.open(ServerConfig(), clock=clock, random=Random(1), store=store)
        try:
            await story(Claims(Client(server.transport(), clock=clock)))
        finally:
            await server.close()

    run_virtual(main())


@run_with(run)
async def test_a_device_that_another_claim_holds_is_refused_until_it_is_free(cluster: Claims) -> None:
    await cluster.slices.create(published([{"name": "gpu-0"}, {"name": "gpu-1"}]))
    await cluster.make("a", "b")
    assert await cluster.allocate("a", result("gpu-0")) == ""
    refusal = await cluster.allocate("b", result("gpu-0"))
    assert refusal.endswith('"b": device d.example.com/p/gpu-0 is allocated to claim default/a')
    assert await cluster.allocate("b", result("gpu-1")) == ""
    assert await cluster.allocate("a") == ""
    await cluster.make("c")
    assert await cluster.allocate("c", result("gpu-0")) == ""


@run_with(run)
async def test_of_two_writes_at_one_moment_the_second_is_refused(cluster: Claims) -> None:
    await cluster.slices.create(published([{"name": "gpu-0"}]))
    await cluster.make("a", "b")
    errors = await asyncio.gather(*(cluster.allocate(name, result("gpu-0")) for name in ("a", "b")))
    assert [bool(error) for error in errors] == [False, True]


@run_with(run)
async def test_a_device_is_free_while_its_former_claim_is_written_again(cluster: Claims) -> None:
    await cluster.slices.create(published([{"name": "gpu-0"}]))
    await cluster.make("a", "b")
    assert await cluster.allocate("a", result("gpu-0")) == ""
    assert await cluster.allocate("a") == ""
    labels = {"metadata": {"labels": {"x": "y"}}}
    labelled = asyncio.ensure_future(cluster.claims.patch("a", PatchType.MERGE, labels))
    assert await cluster.allocate("b", result("gpu-0")) == ""
    await labelled


@run_with(run)
async def test_administrators_and_devices_without_a_slice_are_not_compared(cluster: Claims) -> None:
    await cluster.slices.create(published([{"name": "gpu-0"}]))
    labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await cluster.namespaces.patch("default", PatchType.MERGE, labels)
    await cluster.make("a", "b", "c", "d")
    assert await cluster.allocate("a", result("gpu-0")) == ""
    assert await cluster.allocate("b", result("gpu-0", adminAccess=True)) == ""
    assert await cluster.allocate("c", result("unknown")) == ""
    assert await cluster.allocate("d", result("unknown")) == ""


@run_with(run)
async def test_shares_of_a_device_stay_within_its_capacity(cluster: Claims) -> None:
    gpu = {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "40Gi"}}}
    await cluster.slices.create(published([gpu]))
    names = ("a", "b", "c")
    await cluster.make(*names)
    shares = [
        result("gpu-0", shareID=f"2b7a6d3e-0000-4000-8000-00000000000{number}", consumedCapacity={"memory": "20Gi"})
        for number in range(3)
    ]
    errors = [await cluster.allocate(name, share) for name, share in zip(names, shares, strict=True)]
    assert errors[:2] == ["", ""]
    assert "has 40Gi of capacity memory, and claims would use 60Gi" in errors[2]
    assert "is allocated to claim" in await cluster.allocate("c", result("gpu-0"))


@run_with(run)
async def test_counters_of_a_pool_are_not_overdrawn(cluster: Claims) -> None:
    uses = [{"counterSet": "gpu", "counters": {"memory": {"value": "30Gi"}}}]
    parts = [{"name": f"part-{number}", "consumesCounters": uses} for number in range(3)]
    counters = [{"name": "gpu", "counters": {"memory": {"value": "60Gi"}}}]
    await cluster.slices.create(published(parts))
    extra = published([], name="counters", sharedCounters=counters)
    await cluster.slices.create(extra)
    await cluster.make("a", "b", "c")
    assert await cluster.allocate("a", result("part-0"), result("part-1")) == ""
    refusal = await cluster.allocate("b", result("part-2"))
    assert "pool d.example.com/p has 60Gi of counter gpu/memory, and claims would use 90Gi" in refusal
    assert await cluster.allocate("a") == ""
    assert await cluster.allocate("b", result("part-2")) == ""


@pytest.mark.parametrize("generation", [1, 2])
@run_with(run)
async def test_a_pool_is_its_newest_generation(cluster: Claims, *, generation: int) -> None:
    await cluster.slices.create(published([{"name": "gpu-0"}]))
    await cluster.slices.create(published([{"name": "gpu-1"}], generation=generation, name="t"))
    await cluster.make("a", "b")
    assert await cluster.allocate("a", result("gpu-0")) == ""
    assert bool(await cluster.allocate("b", result("gpu-0"))) == (generation == 1)


def on_a_shared_store(story: Any) -> None:
    """Two servers, and the store beneath them."""

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        medium = SharedMedium(Random(1), lambda _: None)
        servers = [
            await APIServer.open(ServerConfig(), clock=clock, random=Random(number), store=SharedStore(medium))
            for number in range(2)
        ]
        try:
            await story(*(Claims(Client(one.transport(), clock=clock)) for one in servers), medium)
        finally:
            for one in servers:
                await one.close()

    run_virtual(main())


@run_with(on_a_shared_store)
async def test_of_two_writes_through_two_servers_on_a_store_one_is_refused(
    one: Claims, other: Claims, medium: SharedMedium
) -> None:
    await one.slices.create(published([{"name": "gpu-0"}]))
    await one.make("a", "b")
    errors = await asyncio.gather(one.allocate("a", result("gpu-0")), other.allocate("b", result("gpu-0")))
    assert sorted(map(bool, errors)) == [False, True]
    assert "device d.example.com/p/gpu-0 is allocated to claim default/" in "".join(errors)


@run_with(on_a_shared_store)
async def test_allocations_from_one_pool_through_two_servers_all_succeed(
    one: Claims, other: Claims, medium: SharedMedium
) -> None:
    names = [f"c{number}" for number in range(8)]
    await one.slices.create(published([{"name": name} for name in names]))
    await one.make(*names)
    before = medium.attempts
    allocations = (server.allocate(name, result(name)) for server, name in zip((one, other) * 4, names, strict=True))
    assert set(await asyncio.gather(*allocations)) == {""}
    # Each server sends its writes one after the other. At the same moment, all but one would fail and be repeated.
    assert medium.attempts - before <= 3 * len(names)


@run_with(on_a_shared_store)
async def test_an_allocation_behind_a_repeated_one_is_compared_again(
    one: Claims, other: Claims, medium: SharedMedium
) -> None:
    """The second allocation of a server waits for its first, which loses to another server at first."""
    await one.slices.create(published([{"name": "gpu-0"}, {"name": "gpu-1"}]))
    await one.make("a", "b", "c")
    winning = asyncio.ensure_future(other.allocate("a", result("gpu-1")))
    # So late that the first allocation begins before that of the other server has arrived, and loses to it.
    await asyncio.sleep(SYNC_SECONDS * 0.75)
    before = medium.attempts
    first, second = await asyncio.gather(one.allocate("b", result("gpu-0")), one.allocate("c", result("gpu-1")))
    assert (await winning, first, medium.attempts - before) == ("", "", 3)
    assert "is allocated to claim default/a" in second


@run_with(on_a_shared_store)
async def test_pools_do_not_wait_for_each_other(one: Claims, other: Claims, medium: SharedMedium) -> None:
    await one.make("a", "b", "c")
    before = medium.attempts
    pools = (("a", "p"), ("b", "q"), ("c", "r"))
    allocations = (one.allocate(name, result("gpu-0", pool=pool)) for name, pool in pools)
    assert set(await asyncio.gather(*allocations)) == {""}
    assert medium.attempts - before == 3


@run_with(on_a_shared_store)
async def test_a_write_without_an_answer_is_seen_by_the_next_allocation(
    one: Claims, other: Claims, medium: SharedMedium
) -> None:
    await one.slices.create(published([{"name": "gpu-0"}]))
    await one.make("a", "b")
    medium.failing = 1.0
    errors: set[str] = set()
    while "no conflict: Timeout" not in "".join(errors):
        errors.add((await one.allocate("a", result("gpu-0")))[:60])
    medium.failing = 0.0
    errors_of_b = await asyncio.gather(*(server.allocate("b", result("gpu-0")) for server in (one, other)))
    assert all("is allocated to claim default/a" in error for error in errors_of_b)


FENCE = "cathedra.dev/allocations/d.example.com/p"


@run_with(on_a_shared_store)
async def test_the_fence_of_a_pool_stays_while_it_has_a_slice_or_a_claim_holds_a_device(
    one: Claims, other: Claims, medium: SharedMedium
) -> None:
    await one.make("a")
    for slice_goes_first in (True, False):
        await one.slices.create(published([{"name": "gpu-0"}]))
        assert await one.allocate("a", result("gpu-0")) == ""
        assert FENCE in medium.records
        steps = [lambda: one.slices.delete("s"), lambda: other.allocate("a")]
        first, last = steps if slice_goes_first else reversed(steps)
        await first()
        await asyncio.sleep(1)
        assert FENCE in medium.records
        await last()
        await asyncio.sleep(1)
        assert FENCE not in medium.records
    # Also of a server that has seen neither the fence nor its removal.
    assert await other.allocate("a", result("gpu-0")) == ""
    assert FENCE in medium.records


@pytest.mark.parametrize("quarters", range(9))
@run_with(on_a_shared_store)
async def test_a_pool_that_returns_while_its_fence_is_removed_gives_a_device_to_one_claim(
    one: Claims, other: Claims, medium: SharedMedium, *, quarters: int
) -> None:
    await one.make("a", "b", "c")
    await one.slices.create(published([{"name": "gpu-0"}]))
    assert await one.allocate("a", result("gpu-0")) == ""
    assert await other.allocate("a") == ""
    await one.slices.delete("s")
    await other.slices.create(published([{"name": "gpu-0"}]))
    await asyncio.sleep(SYNC_SECONDS * quarters / 4)
    errors = await asyncio.gather(one.allocate("b", result("gpu-0")), other.allocate("c", result("gpu-0")))
    assert sorted(map(bool, errors)) == [False, True]
    assert FENCE in medium.records


@run_with(on_a_shared_store)
async def test_a_server_that_starts_removes_the_fences_of_pools_that_are_gone(
    one: Claims, other: Claims, medium: SharedMedium
) -> None:
    await one.make("a", "b")
    await one.slices.create(published([{"name": "gpu-0"}]))
    assert await one.allocate("a", result("gpu-0")) == ""
    gone = "cathedra.dev/allocations/d.example.com/rack/1"
    medium.write(gone, b"", {gone: 0})
    server = await APIServer.open(
        ServerConfig(), clock=LoopClock(asyncio.get_running_loop()), random=Random(3), store=SharedStore(medium)
    )
    await asyncio.sleep(1)
    await server.close()
    assert [key for key in medium.records if key.startswith("cathedra.dev/allocations/")] == [FENCE]
