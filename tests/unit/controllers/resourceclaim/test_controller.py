"""The resource claim controller, from template to freedom."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import (
    Binding,
    Container,
    ObjectReference,
    Pod,
    PodResourceClaim,
    PodResourceClaimStatus,
    PodSpec,
)
from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.resource import (
    AllocationResult,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from cathedra.api.struct import replace
from cathedra.client.objects import with_metadata
from cathedra.client.resources import PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES
from cathedra.controllers.resourceclaim.controller import ResourceClaimController
from cathedra.controllers.resourceclaim.generation import generate_name
from cathedra.controllers.resourceclaim.release import FINALIZER
from tests.unit.controllers.world import World, play, settle

SPEC = ResourceClaimSpec(
    devices=DeviceClaim(requests=(DeviceRequest(name="gpu", exactly=ExactDeviceRequest(device_class_name="gpu")),))
)


def template(name: str = "tpl") -> ResourceClaimTemplate:
    spec = ResourceClaimTemplateSpec(metadata=ObjectMeta(labels={"team": "a"}, annotations={"note": "b"}), spec=SPEC)
    return ResourceClaimTemplate(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


def pod(name: str = "p", *entries: PodResourceClaim, node: str = "") -> Pod:
    spec = PodSpec(
        node_name=node,
        containers=(Container(name="c", image="i"),),
        resource_claims=entries or (from_template("gpu"),),
    )
    return Pod(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


def from_template(entry: str, template: str = "tpl") -> PodResourceClaim:
    return PodResourceClaim(name=entry, resource_claim_template_name=template)


def named(entry: str, claim: str) -> PodResourceClaim:
    return PodResourceClaim(name=entry, resource_claim_name=claim)


def claim(name: str = "c") -> ResourceClaim:
    return ResourceClaim(metadata=ObjectMeta(name=name, namespace="default"), spec=SPEC)


def reference(pod: Pod) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


async def allocate(world: World, name: str, *pods: Pod) -> ResourceClaim:
    """What the scheduler does."""
    await world.change(RESOURCECLAIMS, name, lambda c: with_metadata(c, finalizers=(FINALIZER,)))
    status = ResourceClaimStatus(allocation=AllocationResult(), reserved_for=tuple(reference(p) for p in pods))
    return await world.change(RESOURCECLAIMS, name, lambda c: replace(c, status=status), status=True)


def test_a_pod_gets_its_claim_from_the_template() -> None:
    async def story(world: World) -> None:
        await world.create(RESOURCECLAIMTEMPLATES, template())
        made = await world.create(PODS, pod())
        await settle()
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

    play(ResourceClaimController, story)


def test_a_missing_template_is_told_and_made_up_for_as_soon_as_it_comes() -> None:
    async def story(world: World) -> None:
        await world.create(PODS, pod("p", from_template("gpu", "notpl")))
        await settle(20)
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

    play(ResourceClaimController, story)


def test_one_failing_entry_does_not_hold_up_the_other() -> None:
    async def story(world: World) -> None:
        await world.create(RESOURCECLAIMTEMPLATES, template())
        await world.create(PODS, pod("p", from_template("bad", "notpl"), from_template("good")))
        await settle(30)
        statuses = (await world.of(PODS).get("p")).status.resource_claim_statuses
        assert [status.name for status in statuses] == ["good"]
        assert len(await world.list(RESOURCECLAIMS)) == 1

    play(ResourceClaimController, story)


def test_several_templates_make_one_claim_each_and_all_names_stay() -> None:
    async def story(world: World) -> None:
        await world.create(RESOURCECLAIMTEMPLATES, template())
        await world.create(PODS, pod("p", from_template("a"), from_template("b"), named("c", "shared")))
        await settle()
        statuses = (await world.of(PODS).get("p")).status.resource_claim_statuses
        assert [status.name for status in statuses] == ["a", "b"]
        lost = statuses[0].resource_claim_name
        assert lost
        await world.of(RESOURCECLAIMS).delete(lost)
        await settle()
        again = (await world.of(PODS).get("p")).status.resource_claim_statuses
        assert [status.name for status in again] == ["a", "b"]
        assert again[1] == statuses[1]
        assert again[0] != statuses[0]

    play(ResourceClaimController, story)


def test_a_claim_made_before_a_crash_is_found_again() -> None:
    async def story(world: World) -> None:
        made = await world.create(PODS, pod())
        owner = OwnerReference(api_version="v1", kind="Pod", name="p", uid=made.metadata.uid, controller=True)
        orphan = with_metadata(
            claim("p-gpu-abcde"),
            owner_references=(owner,),
            annotations={"resource.kubernetes.io/pod-claim-name": "gpu"},
        )
        await world.create(RESOURCECLAIMS, orphan)
        await world.create(RESOURCECLAIMTEMPLATES, template())
        await settle(20)
        assert await world.names(RESOURCECLAIMS) == ["p-gpu-abcde"]
        (status,) = (await world.of(PODS).get("p")).status.resource_claim_statuses
        assert status.resource_claim_name == "p-gpu-abcde"

    play(ResourceClaimController, story)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_frees_its_claim_and_a_generated_one_is_deleted(phase: str) -> None:
    async def story(world: World) -> None:
        await world.create(RESOURCECLAIMTEMPLATES, template())
        made = await world.create(PODS, pod())
        await settle()
        (name,) = await world.names(RESOURCECLAIMS)
        await allocate(world, name, made)
        await world.of(PODS).create_subresource("p", "binding", Binding(target=ObjectReference(kind="Node", name="n1")))
        await settle()
        assert (await world.of(RESOURCECLAIMS).get(name)).status.allocation is not None
        await world.finish("p", phase)
        await settle()
        assert await world.names(RESOURCECLAIMS) == []

    play(ResourceClaimController, story)


def test_a_shared_claim_is_freed_when_the_last_consumer_is_gone() -> None:
    async def story(world: World) -> None:
        await world.create(RESOURCECLAIMS, claim())
        a = await world.create(PODS, pod("a", named("x", "c"), node="n1"))
        b = await world.create(PODS, pod("b", named("x", "c"), node="n1"))
        await allocate(world, "c", a, b)
        await settle()
        await world.finish("a")
        await settle()
        shared = await world.of(RESOURCECLAIMS).get("c")
        assert [consumer.name for consumer in shared.status.reserved_for] == ["b"]
        assert shared.status.allocation is not None
        await world.of(PODS).delete("b", grace_period_seconds=0)
        await settle()
        free = await world.of(RESOURCECLAIMS).get("c")
        assert free.status == ResourceClaimStatus()
        assert free.metadata.finalizers == ()

    play(ResourceClaimController, story)


def test_a_finished_pod_is_not_reserved_again() -> None:
    """Stock controllers reserve and release such a pod in turn, endlessly (docs/spec/controllers.md §2.3)."""

    async def story(world: World) -> None:
        await world.create(RESOURCECLAIMS, claim())
        done = await world.create(PODS, pod("done", named("x", "c"), node="n1"))
        runs = await world.create(PODS, pod("runs", named("x", "c"), node="n1"))
        await allocate(world, "c", done, runs)
        await world.finish("done")
        await settle(5)
        version = (await world.of(RESOURCECLAIMS).get("c")).metadata.resource_version
        await settle(60)
        after = await world.of(RESOURCECLAIMS).get("c")
        assert after.metadata.resource_version == version
        assert [consumer.name for consumer in after.status.reserved_for] == ["runs"]

    play(ResourceClaimController, story)


def test_a_pod_placed_without_the_scheduler_is_reserved_once_the_claim_is_allocated() -> None:
    async def story(world: World) -> None:
        await world.create(RESOURCECLAIMS, claim())
        placed = await world.create(PODS, pod("placed", named("x", "c"), node="n1"))
        other = await world.create(PODS, pod("other", named("x", "c")))
        await settle()
        assert (await world.of(RESOURCECLAIMS).get("c")).status.reserved_for == ()
        await allocate(world, "c", other)
        await settle()
        consumers = (await world.of(RESOURCECLAIMS).get("c")).status.reserved_for
        assert consumers == (reference(other), reference(placed))

    play(ResourceClaimController, story)


def test_other_consumers_are_kept_for_ever_and_an_unused_allocation_too() -> None:
    async def story(world: World) -> None:
        await world.create(RESOURCECLAIMS, claim("foreign"))
        await world.create(RESOURCECLAIMS, claim("unused"))
        await allocate(world, "unused")
        foreign = ResourceClaimConsumerReference(api_group="example.com", resource="things", name="t", uid="1")
        status = ResourceClaimStatus(allocation=AllocationResult(), reserved_for=(foreign,))
        await world.change(RESOURCECLAIMS, "foreign", lambda c: with_metadata(c, finalizers=(FINALIZER,)))
        await world.change(RESOURCECLAIMS, "foreign", lambda c: replace(c, status=status), status=True)
        await settle(30)
        assert (await world.of(RESOURCECLAIMS).get("foreign")).status.reserved_for == (foreign,)
        assert (await world.of(RESOURCECLAIMS).get("unused")).status.allocation is not None

    play(ResourceClaimController, story)


def test_a_reservation_for_a_namesake_of_the_pod_is_dropped() -> None:
    async def story(world: World) -> None:
        await world.create(RESOURCECLAIMS, claim())
        namesake = await world.create(PODS, pod("p", named("x", "c"), node="n1"))
        await allocate(world, "c", with_metadata(namesake, uid="of-the-one-before"))
        await settle()
        assert [consumer.uid for consumer in (await world.of(RESOURCECLAIMS).get("c")).status.reserved_for] in (
            [],
            [namesake.metadata.uid],
        )

    play(ResourceClaimController, story)


@given(st.text("abc", min_size=1, max_size=80), st.text("xyz", min_size=1, max_size=63))
def test_generated_names_leave_room_for_five_characters(owner: str, entry: str) -> None:
    prefix = generate_name(owner, entry)
    assert len(prefix) <= 57 + 1
    assert len(prefix) + 5 <= 63
    if len(owner) + len(entry) + 2 <= 57:
        assert prefix == f"{owner}-{entry}-"


def test_long_names_are_cut_in_proportion() -> None:
    assert generate_name("p" * 60, "g") == "p" * 54 + "-"


def test_hundreds_of_pods_get_one_claim_each() -> None:
    async def story(world: World) -> None:
        await world.create(RESOURCECLAIMTEMPLATES, template())
        for number in range(300):
            await world.of(PODS).create(pod(f"p{number}"))
        await settle(5)
        owners = [claim.metadata.owner_references[0].name for claim in await world.list(RESOURCECLAIMS)]
        assert sorted(owners) == sorted(f"p{number}" for number in range(300))

    play(ResourceClaimController, story)
