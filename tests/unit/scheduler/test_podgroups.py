"""Claims that the pods of a PodGroup share (docs/spec/scheduling.md §14)."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import OwnerReference
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import from_dict, replace
from tests.unit.scheduler.objects import claim, device_class, node, pod, slice_
from tests.unit.scheduler.world import World, play

GATES = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
ENTRY = {"name": "gpu", "resourceClaimTemplateName": "t"}


def member(name: str) -> Pod:
    return pod(name, resourceClaims=[ENTRY], schedulingGroup={"podGroupName": "g"})


async def make_group(world: World) -> None:
    body = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"resourceClaims": [ENTRY]}}
    await world.create(from_dict(PodGroup, body))


async def give_claim(world: World, owner_kind: str = "PodGroup") -> None:
    """What the claim controller does: a claim of the group, recorded in its status."""
    group = await world.api(PodGroup).get("g")
    owner = OwnerReference(
        api_version="scheduling.k8s.io/v1beta1",
        kind=owner_kind,
        name="g" if owner_kind == "PodGroup" else "other",
        uid=group.metadata.uid if owner_kind == "PodGroup" else "other",
        controller=True,
    )
    made: ResourceClaim = claim("g-gpu-x")
    await world.create(replace(made, metadata=replace(made.metadata, owner_references=(owner,))))
    statuses: Any = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "g-gpu-x"}]}}
    status = from_dict(PodGroup, statuses).status
    await world.api(PodGroup).update_status(replace(group, status=status))


async def furnish(world: World) -> None:
    await world.create(device_class(), node("n1"), node("n2"), slice_("n1"), slice_("n2"))


def test_all_pods_of_a_group_use_its_claim_under_one_reservation() -> None:
    async def body(world: World) -> None:
        await furnish(world)
        await make_group(world)
        for name in ("p1", "p2", "p3"):
            await world.create(member(name))
        await world.quiet()
        assert world.scheduler.statistics()["gated"] == 3
        await give_claim(world)
        await world.quiet()
        assert len({await world.node_of(name) for name in ("p1", "p2", "p3")} - {""}) == 1
        group = await world.api(PodGroup).get("g")
        stored = await world.claim("g-gpu-x")
        assert [(r.api_group, r.resource, r.name, r.uid) for r in stored.status.reserved_for] == [
            ("scheduling.k8s.io", "podgroups", "g", group.metadata.uid)
        ]

    play(body, gates=GATES)


def test_a_claim_that_is_not_the_groups_keeps_its_pods_out() -> None:
    async def body(world: World) -> None:
        await furnish(world)
        await make_group(world)
        await give_claim(world, owner_kind="Other")
        await world.quiet()
        await world.create(member("p"))
        await world.quiet()
        assert await world.node_of("p") == ""
        assert world.scheduler.statistics()["gated"] == 1

    play(body, gates=GATES)


def test_without_the_feature_a_group_means_nothing() -> None:
    async def body(world: World) -> None:
        await furnish(world)
        await make_group(world)
        await world.create(member("p"))
        await give_claim(world)
        await world.quiet()
        assert await world.node_of("p") == ""

    play(body)
