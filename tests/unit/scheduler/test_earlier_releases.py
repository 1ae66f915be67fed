"""Kinds that API servers of earlier releases have in other versions act all the same."""

from __future__ import annotations

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import DeviceTaintRule
from cathedra.api.struct import from_dict
from tests.running import run_with
from tests.unit.scheduler.objects import claim, device_class, node, pod, slice_
from tests.unit.scheduler.world import World, play

RULE = from_dict(
    DeviceTaintRule,
    {
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "k", "effect": "NoSchedule"}},
    },
)


@run_with(
    lambda test: play(test, release="1.36", gates={"DRADeviceTaintRules": True}, served=["resource.k8s.io/v1beta2"])
)
async def test_a_taint_rule_keeps_pods_away_in_v1beta2(world: World) -> None:
    await world.create(RULE, device_class(), node("n1"), slice_("n1", 1), claim("c"))
    await world.create(pod("p", resourceClaims=[{"name": "c", "resourceClaimName": "c"}]))
    await world.quiet()
    assert await world.node_of("p") == ""
    await world.api(DeviceTaintRule).delete("r")
    await world.quiet()
    assert await world.node_of("p") == "n1"


def member(name: str) -> Pod:
    return pod(name, requests={"cpu": "1"}, schedulingGroup={"podGroupName": "g"})


def test_a_gang_in_v1alpha2_is_placed_together() -> None:
    async def body(world: World) -> None:
        group = {
            "metadata": {"name": "g", "namespace": "default"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
        }
        await world.create(from_dict(PodGroup, group), node("n1", cpu="1"), member("a"), member("b"))
        await world.elapse(3)
        assert [await world.node_of(name) for name in "ab"] == ["", ""]
        await world.create(node("n2", cpu="1"))
        await world.bound("a", "b")

    gates = {"GenericWorkload": True, "GangScheduling": True}
    play(body, release="1.36", gates=gates, served=["scheduling.k8s.io/v1alpha2"])
