"""Claims that will not be used any more."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import (
    Binding,
    ObjectReference,
)
from cathedra.api.resource import (
    AllocationResult,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from cathedra.api.struct import replace
from cathedra.client.informer import SharedInformers
from cathedra.client.objects import with_metadata
from cathedra.client.resources import PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES
from cathedra.controllers.resourceclaim.controller import ResourceClaimController
from cathedra.controllers.resourceclaim.release import FINALIZER, ClaimRelease, DeletedPods
from tests.running import run_with
from tests.unit.controllers.resourceclaim.objects import allocate, claim, named, pod, template
from tests.unit.controllers.world import World, play


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@run_with(lambda test: play(ResourceClaimController, test))
async def test_a_finished_pod_frees_its_claim_and_a_generated_one_is_deleted(world: World, *, phase: str) -> None:
    await world.create(RESOURCECLAIMTEMPLATES, template())
    made = await world.create(PODS, pod())
    await world.quiet()
    (name,) = await world.names(RESOURCECLAIMS)
    await allocate(world, name, made)
    await world.of(PODS).create_subresource("p", "binding", Binding(target=ObjectReference(kind="Node", name="n1")))
    await world.quiet()
    assert (await world.of(RESOURCECLAIMS).get(name)).status.allocation is not None
    await world.finish("p", phase)
    await world.quiet()
    assert await world.names(RESOURCECLAIMS) == []


@run_with(lambda test: play(ResourceClaimController, test))
async def test_a_shared_claim_is_freed_when_the_last_consumer_is_gone(world: World) -> None:
    await world.create(RESOURCECLAIMS, claim())
    a = await world.create(PODS, pod("a", named("x", "c"), node="n1"))
    b = await world.create(PODS, pod("b", named("x", "c"), node="n1"))
    await allocate(world, "c", a, b)
    await world.quiet()
    await world.finish("a")
    await world.quiet()
    shared = await world.of(RESOURCECLAIMS).get("c")
    assert [consumer.name for consumer in shared.status.reserved_for] == ["b"]
    assert shared.status.allocation is not None
    await world.of(PODS).delete("b", grace_period_seconds=0)
    await world.quiet()
    free = await world.of(RESOURCECLAIMS).get("c")
    assert free.status == ResourceClaimStatus()
    assert free.metadata.finalizers == ()


@run_with(lambda test: play((), test))
async def test_a_claim_is_looked_at_only_where_something_may_be_due(world: World) -> None:
    informers = world.context.informers
    claims = informers.of(RESOURCECLAIMS)
    release = ClaimRelease(world.client, informers, DeletedPods(), groups=True)
    await world.create(RESOURCECLAIMS, claim())
    a = await world.create(PODS, pod("a", named("x", "c"), node="n1"))
    unsynced = SharedInformers(world.client, world.clock)
    blind = ClaimRelease(world.client, unsynced, DeletedPods(), groups=True)
    assert blind.may_have_work(await world.of(RESOURCECLAIMS).get("c")), "pods are not known yet"
    await world.quiet()
    assert not release.may_have_work(await world.of(RESOURCECLAIMS).get("c")), "it has no consumer"
    await allocate(world, "c", a)
    await world.quiet()
    held = claims.store.get("default", "c")
    assert held is not None
    assert not release.may_have_work(held), "its consumer runs"
    await world.finish("a")
    await world.quiet()
    assert release.may_have_work(held), "its consumer has ended"
    await world.of(PODS).delete("a", grace_period_seconds=0)
    await world.quiet()
    assert release.may_have_work(held), "its consumer is gone"


@run_with(lambda test: play(ResourceClaimController, test))
async def test_other_consumers_are_kept_for_ever_and_an_unused_allocation_too(world: World) -> None:
    await world.create(RESOURCECLAIMS, claim("foreign"))
    await world.create(RESOURCECLAIMS, claim("unused"))
    await allocate(world, "unused")
    foreign = ResourceClaimConsumerReference(api_group="example.com", resource="things", name="t", uid="1")
    status = ResourceClaimStatus(allocation=AllocationResult(), reserved_for=(foreign,))
    await world.change(RESOURCECLAIMS, "foreign", lambda c: with_metadata(c, finalizers=(FINALIZER,)))
    await world.change(RESOURCECLAIMS, "foreign", lambda c: replace(c, status=status), status=True)
    await world.clock.sleep(30)
    assert (await world.of(RESOURCECLAIMS).get("foreign")).status.reserved_for == (foreign,)
    assert (await world.of(RESOURCECLAIMS).get("unused")).status.allocation is not None


@run_with(lambda test: play(ResourceClaimController, test))
async def test_a_reservation_for_a_namesake_of_the_pod_is_dropped(world: World) -> None:
    await world.create(RESOURCECLAIMS, claim())
    namesake = await world.create(PODS, pod("p", named("x", "c"), node="n1"))
    await allocate(world, "c", with_metadata(namesake, uid="of-the-one-before"))
    await world.quiet()
    assert [consumer.uid for consumer in (await world.of(RESOURCECLAIMS).get("c")).status.reserved_for] in (
        [],
        [namesake.metadata.uid],
    )
