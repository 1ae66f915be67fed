"""Further copies of gangs, by class and topology domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cathedra.advisor.advisor import Advisor
from cathedra.advisor.program import AdvisorMetrics
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.struct import from_dict
from cathedra.releases import FeatureGates
from tests.running import run_with
from tests.unit.advisor.test_program import scraped
from tests.unit.advisor.world import World, with_world
from tests.unit.scheduler.objects import claim, exactly, node, pod, slice_

GATES = FeatureGates.for_release(
    "1.37",
    {"GenericWorkload": True, "DRAWorkloadResourceClaims": True, "TopologyAwareWorkloadScheduling": True},
)


async def gang(
    world: World, name: str, size: int, count: int = 1, *, labels: Mapping[str, str] = {}, **more: Any
) -> None:
    """A gang whose pods want devices of claims of their own."""
    spec = {"schedulingPolicy": {"gang": {"minCount": size}}, **more}
    await world.create(from_dict(PodGroup, {"metadata": {"name": name, "namespace": "default"}, "spec": spec}))
    for number in range(size):
        own = f"{name}-{number}"
        made = claim(own, exactly(count=count))
        await world.create(made, member(own, name, labels))


def member(name: str, group: str, labels: Mapping[str, str]) -> Pod:
    made = [{"name": "gpu", "resourceClaimName": name}]
    entry = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    status = {"resourceClaimStatuses": made}
    return pod(name, labels=labels, resourceClaims=entry, schedulingGroup={"podGroupName": group}, status=status)


async def counted(world: World) -> Mapping[tuple[str, str, str, str], int]:
    advisor = world.advise()
    await world.clock.sleep(25)
    return advisor.gangs.further


@run_with(lambda test: with_world(test, GATES))
async def test_copies_that_fit_at_once_are_counted(world: World) -> None:
    await world.create(node("n2"), slice_("n2", 5), node("n3"), slice_("n3", 3))
    await gang(world, "g", 2, 2)
    # Ten devices, in nodes with room for one, two and one pod: two copies of two pods.
    assert await counted(world) == {("default", "g", "gpu", ""): 2}


@run_with(lambda test: with_world(test, GATES))
async def test_copies_are_counted_by_topology_domain(world: World) -> None:
    for name, rack, devices in (("a1", "a", 4), ("a2", "a", 2), ("b1", "b", 3)):
        await world.create(node(name, labels={"rack": rack}), slice_(name, devices))
    await gang(world, "g", 2, schedulingConstraints={"topology": [{"key": "rack"}]})
    found = await counted(world)
    assert found == {("default", "g", "gpu", "a"): 3, ("default", "g", "gpu", "b"): 1}


@run_with(lambda test: with_world(test, GATES))
async def test_a_gang_for_which_nothing_is_left_is_shown_at_zero(world: World) -> None:
    await gang(world, "g", 3)
    advisor = world.advise()
    await world.clock.sleep(25)
    line = 'cathedra_further_gangs{device_class="gpu",domain="",namespace="default",pod_group="g"} 0'
    assert f"{line}\n" in scraped(advisor)
    await world.create(node("n2"), slice_("n2", 1))
    await world.clock.sleep(25)
    assert f"{line[:-1]}1\n" in scraped(advisor)


@run_with(lambda test: with_world(test, GATES))
async def test_nodes_that_pods_cannot_reach_and_processors_count(world: World) -> None:
    taints = [{"key": "reserved", "effect": "NoSchedule"}]
    await world.create(node("n2", taints=taints), slice_("n2", 8), node("n3", pods="1"), slice_("n3", 8))
    await gang(world, "g", 1)
    assert await counted(world) == {("default", "g", "gpu", ""): 3}


@run_with(lambda test: with_world(test, GATES))
async def test_gangs_with_other_labels_are_counted_by_themselves(world: World) -> None:
    """Pods on a node may refuse others by their labels, so equal specs do not suffice."""
    await world.create(node("n2", labels={"kubernetes.io/hostname": "n2"}), slice_("n2", 8))
    red = {"labelSelector": {"matchLabels": {"tenant": "red"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [red]}}
    await world.create(pod("guard", nodeName="n2", affinity=apart))
    for tenant in ("red", "blue"):
        await gang(world, tenant, 1, labels={"tenant": tenant})
    assert await counted(world) == {("default", "red", "gpu", ""): 2, ("default", "blue", "gpu", ""): 10}


@run_with(lambda test: with_world(test, GATES))
async def test_equal_gangs_are_counted_once_and_nothing_while_nothing_changes(world: World) -> None:
    for name in ("g", "h"):
        await gang(world, name, 1)
    advisor: Advisor = world.advise()
    await world.clock.sleep(25)
    assert set(advisor.gangs.further.values()) == {2}
    assert len(advisor.gangs._known) == 1
    before = advisor.gangs._by_gang["default", "g"]
    await world.clock.sleep(60)
    assert advisor.gangs._by_gang["default", "g"] is before
    assert any(one.name == "cathedra_further_gangs" for one in AdvisorMetrics(advisor).collect())
