"""The resource claim controller, from template to freedom."""

from __future__ import annotations

import asyncio
from typing import Any

from cathedra.api.core.core_v1 import Pod, PodResourceClaimStatus, PodSchedulingGroup
from cathedra.api.core.meta_v1 import OwnerReference
from cathedra.api.struct import replace
from cathedra.client.objects import with_metadata
from cathedra.client.resources import PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES
from cathedra.client.transport import ResourceRef
from cathedra.controllers.resourceclaim.controller import ResourceClaimController
from cathedra.releases import FeatureGates
from tests.running import run_with
from tests.unit.controllers.resourceclaim.objects import allocate, claim, from_template, named, pod, reference, template
from tests.unit.controllers.world import World, play
from tests.unit.spoiled import SPOILED, SpoiledTransport


@run_with(lambda test: play(ResourceClaimController, test))
async def test_a_pod_gets_its_claim_from_the_template(world: World) -> None:
    await world.create(RESOURCECLAIMTEMPLATES, template())
    made = await world.create(PODS, pod())
    await world.quiet()
    (generated,) = await world.list(RESOURCECLAIMS)
    assert generated.metadata.name.startswith("p-gpu-")
    assert generated.metadata.labels == {"team": "a"}
    assert generated.metadata.annotations == {"note": "b", "resource.kubernetes.io/pod-claim-name": "gpu"}
    assert generated.metadata.owner_references == (
        OwnerReference(api_version="v1", kind="Pod", name="p", uid=made.metadata.uid, controller=True),
    )
    assert generated.spec.devices.requests is not None
    assert generated.spec.devices.requests[0].name == "gpu"
    assert (await world.of(PODS).get("p")).status.resource_claim_statuses == (
        PodResourceClaimStatus(name="gpu", resource_claim_name=generated.metadata.name),
    )


@run_with(lambda test: play(ResourceClaimController, test))
async def test_a_missing_template_is_told_and_made_up_for_as_soon_as_it_comes(world: World) -> None:
    await world.create(PODS, pod("p", from_template("gpu", "notpl")))
    await world.clock.sleep(20)
    assert (
        "Warning",
        "FailedResourceClaimCreation",
        'PodResourceClaim gpu: resource claim template "notpl": '
        'resourceclaimtemplate.resource.k8s.io "notpl" not found',
    ) in await world.events()
    assert max(event.count for event in await world.event_objects()) > 3
    await world.create(RESOURCECLAIMTEMPLATES, template("notpl"))
    await asyncio.sleep(0.1)
    assert len(await world.list(RESOURCECLAIMS)) == 1


@run_with(lambda test: play(ResourceClaimController, test))
async def test_a_template_retries_only_pods_of_its_namespace_that_name_it(world: World) -> None:
    await world.create(PODS, pod("p", from_template("gpu", "notpl")))
    await world.create(PODS, pod("q", from_template("gpu", "other")))
    await world.clock.sleep(20)

    async def failures() -> dict[str, int]:
        events = await world.event_objects()
        return {event.involved_object.name: event.count for event in events}

    before = await failures()
    await world.create(RESOURCECLAIMTEMPLATES, template("notpl"))
    await asyncio.sleep(0.1)
    assert await failures() == before
    assert [made.metadata.owner_references[0].name for made in await world.list(RESOURCECLAIMS)] == ["p"]


@run_with(lambda test: play(ResourceClaimController, test))
async def test_one_failing_entry_does_not_hold_up_the_other_and_names_are_recorded_together(world: World) -> None:
    await world.create(RESOURCECLAIMTEMPLATES, template())
    await world.create(PODS, pod("p", from_template("bad", "notpl"), from_template("good")))
    await world.clock.sleep(30)
    assert (await world.of(PODS).get("p")).status.resource_claim_statuses == ()
    assert len(await world.list(RESOURCECLAIMS)) == 1
    await world.create(RESOURCECLAIMTEMPLATES, template("notpl"))
    await world.quiet()
    statuses = (await world.of(PODS).get("p")).status.resource_claim_statuses
    assert [status.name for status in statuses] == ["bad", "good"]
    assert len(await world.list(RESOURCECLAIMS)) == 2


@run_with(lambda test: play(ResourceClaimController, test))
async def test_a_claim_that_is_deleted_just_after_it_was_made_is_not_made_again(world: World) -> None:
    await world.create(RESOURCECLAIMTEMPLATES, template())
    await world.create(PODS, pod("p", from_template("gpu")))
    await world.quiet()
    (claim,) = await world.list(RESOURCECLAIMS)
    await world.of(RESOURCECLAIMS).delete(claim.metadata.name)
    await world.quiet()
    assert await world.list(RESOURCECLAIMS) == ()


@run_with(lambda test: play(ResourceClaimController, test))
async def test_several_templates_make_one_claim_each_and_all_names_stay(world: World) -> None:
    await world.create(RESOURCECLAIMTEMPLATES, template())
    await world.create(PODS, pod("p", from_template("a"), from_template("b"), named("c", "shared")))
    await world.quiet()
    statuses = (await world.of(PODS).get("p")).status.resource_claim_statuses
    assert [status.name for status in statuses] == ["a", "b"]
    lost = statuses[0].resource_claim_name
    assert lost
    await world.clock.sleep(61)
    await world.of(RESOURCECLAIMS).delete(lost)
    await world.quiet()
    again = (await world.of(PODS).get("p")).status.resource_claim_statuses
    assert [status.name for status in again] == ["a", "b"]
    assert again[1] == statuses[1]
    assert again[0] != statuses[0]


@run_with(lambda test: play(ResourceClaimController, test))
async def test_a_claim_made_before_a_crash_is_found_again(world: World) -> None:
    made = await world.create(PODS, pod())
    owner = OwnerReference(api_version="v1", kind="Pod", name="p", uid=made.metadata.uid, controller=True)
    orphan = with_metadata(
        claim("p-gpu-abcde"),
        owner_references=(owner,),
        annotations={"resource.kubernetes.io/pod-claim-name": "gpu"},
    )
    await world.create(RESOURCECLAIMS, orphan)
    await world.create(RESOURCECLAIMTEMPLATES, template())
    await world.clock.sleep(20)
    assert await world.names(RESOURCECLAIMS) == ["p-gpu-abcde"]
    (status,) = (await world.of(PODS).get("p")).status.resource_claim_statuses
    assert status.resource_claim_name == "p-gpu-abcde"


@run_with(lambda test: play(ResourceClaimController, test))
async def test_a_finished_pod_is_not_reserved_again(world: World) -> None:
    """Kubernetes reserves and releases such a pod in turn until 1.37 (docs/spec/controllers.md §2.3; #141276)."""
    await world.create(RESOURCECLAIMS, claim())
    done = await world.create(PODS, pod("done", named("x", "c"), node="n1"))
    runs = await world.create(PODS, pod("runs", named("x", "c"), node="n1"))
    await allocate(world, "c", done, runs)
    await world.finish("done")
    await world.quiet()
    version = (await world.of(RESOURCECLAIMS).get("c")).metadata.resource_version
    await world.clock.sleep(60)
    after = await world.of(RESOURCECLAIMS).get("c")
    assert after.metadata.resource_version == version
    assert [consumer.name for consumer in after.status.reserved_for] == ["runs"]


@run_with(lambda test: play(ResourceClaimController, test))
async def test_a_pod_placed_without_the_scheduler_is_reserved_once_the_claim_is_allocated(world: World) -> None:
    await world.create(RESOURCECLAIMS, claim())
    placed = await world.create(PODS, pod("placed", named("x", "c"), node="n1"))
    other = await world.create(PODS, pod("other", named("x", "c")))
    await world.quiet()
    assert (await world.of(RESOURCECLAIMS).get("c")).status.reserved_for == ()
    await allocate(world, "c", other)
    await world.quiet()
    consumers = (await world.of(RESOURCECLAIMS).get("c")).status.reserved_for
    assert consumers == (reference(other), reference(placed))


@run_with(lambda test: play(ResourceClaimController, test))
async def test_hundreds_of_pods_get_one_claim_each(world: World) -> None:
    await world.create(RESOURCECLAIMTEMPLATES, template())
    for number in range(300):
        await world.of(PODS).create(pod(f"p{number}"))
    await world.quiet()
    owners = [claim.metadata.owner_references[0].name for claim in await world.list(RESOURCECLAIMS)]
    assert sorted(owners) == sorted(f"p{number}" for number in range(300))


def grouped() -> Pod:
    made = pod("p", from_template("gpu"))
    return replace(made, spec=replace(made.spec, scheduling_group=PodSchedulingGroup(pod_group_name="g")))


@run_with(
    lambda test: play(ResourceClaimController, test, gates=FeatureGates.for_release("1.37", {"GenericWorkload": True}))
)
async def test_no_claim_is_made_for_the_pod_of_a_group_while_the_feature_is_off(world: World) -> None:
    await world.create(RESOURCECLAIMTEMPLATES, template())
    await world.create(PODS, grouped())
    await world.clock.sleep(600)
    assert await world.list(RESOURCECLAIMS) == ()
    (event,) = await world.event_objects()
    assert event.message == (
        "PodResourceClaim gpu: DRAWorkloadResourceClaims feature is disabled but Pod is in PodGroup g"
    )
    assert event.count == 1, "nothing is tried again"


@run_with(
    lambda test: play(ResourceClaimController, test, gates=FeatureGates.for_release("1.36", {"GenericWorkload": True}))
)
async def test_in_136_a_pod_of_a_group_gets_a_claim_of_its_own_while_the_feature_is_off(world: World) -> None:
    await world.create(RESOURCECLAIMTEMPLATES, template())
    await world.create(PODS, grouped())
    await world.quiet()
    assert len(await world.list(RESOURCECLAIMS)) == 1


async def spoil(world: World, ref: ResourceRef[Any], name: str, path: str = "spec.new") -> None:
    """Make an object one that the controllers cannot decode; without a path one that they can."""
    annotations = {SPOILED: path} if path else {}
    await world.change(
        ref, name, lambda one: with_metadata(one, annotations={**one.metadata.annotations, **annotations})
    )


@run_with(lambda test: play(ResourceClaimController, test, through=SpoiledTransport))
async def test_a_pod_that_cannot_be_decoded_keeps_its_claims_until_it_is_gone(world: World) -> None:
    user = await world.create(PODS, pod("p", named("g", "c")))
    await world.create(RESOURCECLAIMS, claim("c"))
    await allocate(world, "c", user)
    await world.quiet()
    await spoil(world, PODS, "p")
    await world.clock.sleep(60)
    assert (await world.of(RESOURCECLAIMS).get("c")).status.reserved_for == (reference(user),)
    await world.of(PODS).delete("p", grace_period_seconds=0)
    await world.quiet()
    freed = (await world.of(RESOURCECLAIMS).get("c")).status
    assert (freed.reserved_for, freed.allocation) == ((), None)


@run_with(lambda test: play(ResourceClaimController, test, through=SpoiledTransport))
async def test_a_pod_that_never_could_be_decoded_keeps_its_claims(world: World) -> None:
    user = await world.create(PODS, with_metadata(pod("p", named("g", "c")), annotations={SPOILED: "spec.new"}))
    await world.create(RESOURCECLAIMS, claim("c"))
    await allocate(world, "c", user)
    await world.clock.sleep(60)
    assert (await world.of(RESOURCECLAIMS).get("c")).status.reserved_for == (reference(user),)


@run_with(lambda test: play(ResourceClaimController, test, through=SpoiledTransport))
async def test_no_second_claim_is_made_beside_one_that_cannot_be_decoded(world: World) -> None:
    await world.create(RESOURCECLAIMTEMPLATES, template())
    await world.create(PODS, pod())
    await world.quiet()
    (generated,) = await world.names(RESOURCECLAIMS)
    await world.clock.sleep(120)  # until it is no longer among those that were made lately
    await spoil(world, RESOURCECLAIMS, generated)
    await world.clock.sleep(60)
    assert await world.names(RESOURCECLAIMS) == [generated]
    told = f"ResourceClaim default/{generated} cannot be decoded: Expected `array`, got `null` at spec.new"
    assert ("Warning", "FailedResourceClaimCreation", f"PodResourceClaim gpu: {told}") in await world.events()


@run_with(lambda test: play(ResourceClaimController, test, through=SpoiledTransport))
async def test_a_claim_that_cannot_be_decoded_from_the_first_is_made_once(world: World) -> None:
    made = template()
    metadata = replace(made.spec.metadata, annotations={SPOILED: "spec.new"})
    await world.create(RESOURCECLAIMTEMPLATES, replace(made, spec=replace(made.spec, metadata=metadata)))
    await world.create(PODS, pod())
    await world.clock.sleep(60)
    assert len(await world.names(RESOURCECLAIMS)) == 1
