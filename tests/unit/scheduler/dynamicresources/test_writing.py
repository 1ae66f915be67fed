"""Decisions are written into claims, and taken out again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from cathedra.api.struct import replace
from cathedra.client.client import Client, ResourceClient
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.scheduler.dynamicresources.writing import FINALIZER, PAUSES_SECONDS, ClaimWriter, WriteFailed
from tests.running import run_with
from tests.unit.inprocess import API, with_api
from tests.unit.passedon import PassedOn
from tests.unit.scheduler.objects import claim, pod

RESULT = DeviceRequestAllocationResult(request="gpu", driver="gpu.example.com", pool="n1", device="gpu-0")
ALLOCATION = AllocationResult(devices=DeviceAllocationResult(results=(RESULT,)))
USER = ResourceClaimConsumerReference(resource="pods", name="p", uid="uid-p")


def claims_of(api: API) -> ResourceClient[ResourceClaim]:
    return api.client.resource(RESOURCECLAIMS, "default")


def writer(api: API, client: Client | None = None, *, stamps: bool = False) -> ClaimWriter:
    return ClaimWriter(client or api.client, api.clock, lambda _: None, stamps=stamps)


@run_with(with_api)
async def test_finalizer_allocation_and_reservation_are_written(api: API) -> None:
    created = await claims_of(api).create(claim("c"))
    written = await writer(api).bind(created, ALLOCATION, USER)
    assert written == await claims_of(api).get("c")
    assert written.metadata.finalizers == (FINALIZER,)
    assert written.status.reserved_for == (USER,)
    assert written.status.allocation is not None
    assert written.status.allocation.allocation_timestamp is None


@run_with(with_api)
async def test_what_was_bound_or_released_is_assumed(api: API) -> None:
    created = await claims_of(api).create(claim("c"))
    assumed: list[ResourceClaim] = []
    under_test = ClaimWriter(api.client, api.clock, assumed.append, stamps=False)
    bound = await under_test.bind(created, ALLOCATION, USER)
    released = await under_test.release(bound, pod("p"))
    assert assumed == [bound, released]


@run_with(with_api)
async def test_allocations_are_stamped_where_binding_conditions_may_time_out(api: API) -> None:
    created = await claims_of(api).create(claim("c"))
    written = await writer(api, stamps=True).bind(created, ALLOCATION, USER)
    assert written.status.allocation is not None
    assert written.status.allocation.allocation_timestamp is not None


@run_with(with_api)
async def test_a_second_pod_is_added_to_the_consumers(api: API) -> None:
    created = await claims_of(api).create(claim("c"))
    written = await writer(api).bind(created, ALLOCATION, USER)
    other = ResourceClaimConsumerReference(resource="pods", name="q", uid="uid-q")
    assert (await writer(api).bind(written, None, other)).status.reserved_for == (USER, other)


class Contended(Client):
    """Another client writes to the claim before each of the first ``times`` updates."""

    def __init__(self, api: API, times: int, change: Callable[[ResourceClaim], ResourceClaim]) -> None:
        super().__init__(api.transport, clock=api.clock)
        self._claims, self._times, self._change = claims_of(api), times, change

    def resource(self, *args: Any, **more: Any) -> Any:
        return self._Resource(super().resource(*args, **more), self)

    class _Resource(PassedOn):
        def __init__(self, inner: Any, contended: Contended) -> None:
            self._inner, self._contended = inner, contended

        async def update(self, obj: ResourceClaim) -> Any:
            await self._contended.interfere(obj)
            return await self._inner.update(obj)

    async def interfere(self, obj: ResourceClaim) -> None:
        if self._times:
            self._times -= 1
            await self._claims.update(self._change(await self._claims.get(obj.metadata.name)))


def relabelled(known: ResourceClaim) -> ResourceClaim:
    labels = {"step": f"{known.metadata.labels.get('step', '')}x"}
    return replace(known, metadata=replace(known.metadata, labels=labels))


@run_with(with_api)
async def test_writes_of_others_in_between_are_kept(api: API) -> None:
    created = await claims_of(api).create(claim("c"))
    contended = writer(api, Contended(api, len(PAUSES_SECONDS), relabelled))
    written = await contended.bind(created, ALLOCATION, USER)
    assert written.metadata.labels == {"step": "x" * len(PAUSES_SECONDS)}
    assert written.status.reserved_for == (USER,)


@run_with(with_api)
async def test_the_fifth_conflict_ends_the_attempt(api: API) -> None:
    created = await claims_of(api).create(claim("c"))
    contended = writer(api, Contended(api, len(PAUSES_SECONDS) + 1, relabelled))
    with pytest.raises(WriteFailed, match="add finalizer to claim default/c"):
        await contended.bind(created, ALLOCATION, USER)
    assert (await claims_of(api).get("c")).status.allocation is None


@run_with(with_api)
async def test_a_claim_that_was_allocated_meanwhile_is_left_alone(api: API) -> None:
    created = await claims_of(api).create(claim("c"))
    taken = await writer(api).bind(created, ALLOCATION, USER)
    with pytest.raises(WriteFailed, match="claim default/c got allocated elsewhere in the meantime"):
        await writer(api).bind(taken, ALLOCATION, USER)


@run_with(with_api)
async def test_a_release_takes_out_the_pod_alone_and_deallocation_everything(api: API) -> None:
    user: Pod = pod("p")
    created = await claims_of(api).create(claim("c"))
    written = await writer(api).bind(created, ALLOCATION, USER)
    released = await writer(api).release(written, user)
    assert released.status.reserved_for == ()
    assert released.status.allocation is not None
    freed = await writer(api).deallocate(released)
    assert freed.status.allocation is None


@run_with(with_api)
async def test_a_claim_of_the_schedulers_own_goes_at_once_and_may_be_gone_already(api: API) -> None:
    created = await claims_of(api).create(claim("c"))
    written = await writer(api).bind(created, ALLOCATION, USER)
    released = await writer(api).release(written, pod("p"))
    freed = await writer(api).deallocate(released)
    await writer(api).delete(freed)
    assert await writer(api).latest(freed) is None
    await writer(api).delete(freed)
