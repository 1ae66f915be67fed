"""Pod groups stay while their pods run."""

from __future__ import annotations

from cathedra.api.core.core_v1 import (
    PodSchedulingGroup,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup
from cathedra.api.core.scheduling_v1beta1 import (
    BasicSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
)
from cathedra.api.struct import from_dict
from cathedra.client.resources import COMPOSITEPODGROUPS, PODGROUPS, PODS
from cathedra.controllers.administration.podgroups import FINALIZERS, PodGroupProtectionController
from cathedra.releases import FeatureGates
from tests.unit.controllers.administration.objects import pod
from tests.unit.controllers.world import World, play

BASIC = PodGroupSchedulingPolicy(basic=BasicSchedulingPolicy())


def test_a_deleted_pod_group_stays_until_its_last_pod_has_ended() -> None:
    async def story(world: World) -> None:
        group = PodGroup(
            metadata=ObjectMeta(name="g", finalizers=(FINALIZERS["pods"],)), spec=PodGroupSpec(scheduling_policy=BASIC)
        )
        groups = world.of(PODGROUPS)
        await groups.create(group)
        await world.of(PODS).create(pod("p", scheduling_group=PodSchedulingGroup(pod_group_name="g")))
        await groups.delete("g")
        await world.quiet()
        assert await world.names(PODGROUPS) == ["g"]
        await world.finish("p")
        await world.quiet()
        assert await world.names(PODGROUPS) == []

    gates = FeatureGates.for_release("1.37", {"GenericWorkload": True})
    play(PodGroupProtectionController, story, gates=gates)


def test_a_deleted_group_of_groups_stays_until_its_last_group_has_gone() -> None:
    async def story(world: World) -> None:
        reference = {"workloadName": "w", "templateName": "t"}
        spec = {"schedulingPolicy": {"basic": {}}, "workloadRef": reference}
        body = {"metadata": {"name": "root", "namespace": "default"}, "spec": spec}
        await world.create(COMPOSITEPODGROUPS, from_dict(CompositePodGroup, body))
        leaf = PodGroup(
            metadata=ObjectMeta(name="g", namespace="default"),
            spec=PodGroupSpec(scheduling_policy=BASIC, parent_composite_pod_group_name="root"),
        )
        await world.create(PODGROUPS, leaf)
        (root,) = await world.list(COMPOSITEPODGROUPS)
        assert root.metadata.finalizers == (FINALIZERS["groups"],)
        await world.of(COMPOSITEPODGROUPS).delete("root")
        await world.quiet()
        assert await world.names(COMPOSITEPODGROUPS) == ["root"]
        await world.of(PODGROUPS).delete("g")
        await world.quiet()
        assert await world.names(PODGROUPS) == await world.names(COMPOSITEPODGROUPS) == []

    gates = FeatureGates.for_release("1.38", {"GenericWorkload": True, "CompositePodGroup": True})
    play(PodGroupProtectionController, story, gates=gates)
