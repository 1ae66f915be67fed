"""Room is made for a pod group as a whole, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.policy_v1 import PodDisruptionBudget
from cathedra.api.core.scheduling_v1 import PriorityClass
from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.struct import from_dict, replace
from tests.running import run_with
from tests.unit.scheduler.objects import node, pod
from tests.unit.scheduler.world import World, play

GATES = {"GenericWorkload": True}


async def furnish(world: World, count: int = 2, **spec: Any) -> None:
    """A priority class, and a gang of that priority."""
    await world.create(from_dict(PriorityClass, {"metadata": {"name": "high"}, "value": 7}))
    policy = {"gang": {"minCount": count}}
    body = {"schedulingPolicy": policy, "priorityClassName": "high", **spec}
    await world.create(from_dict(PodGroup, {"metadata": {"name": "g", "namespace": "default"}, "spec": body}))


def member(name: str, cpu: str = "1", **spec: Any) -> Pod:
    return pod(name, requests={"cpu": cpu}, priorityClassName="high", schedulingGroup={"podGroupName": "g"}, **spec)


def low(name: str, where: str, cpu: str = "1", **spec: Any) -> Pod:
    return pod(name, requests={"cpu": cpu}, nodeName=where, terminationGracePeriodSeconds=1000, **spec)


async def evicted(world: World, *names: str) -> list[str]:
    return [name for name in names if (await world.pod(name)).metadata.deletion_timestamp is not None]


@run_with(lambda test: play(test, gates=GATES))
async def test_a_gang_is_nominated_and_waits_for_the_pods_that_are_evicted_for_it(world: World) -> None:
    await furnish(world)
    await world.create(node("n", cpu="2"), low("old", "n", "2"), member("a"), member("b"))
    await world.elapse(1)
    assert await evicted(world, "old") == ["old"]
    assert [(await world.pod(name)).status.nominated_node_name for name in "ab"] == ["n", "n"]
    await world.elapse(20)
    await world.api(Pod).delete("old", grace_period_seconds=0)
    await world.bound("a", "b")


@run_with(lambda test: play(test, gates=GATES))
async def test_nothing_is_evicted_for_a_gang_that_would_not_fit_even_so(world: World) -> None:
    await furnish(world, 3)
    await world.create(node("n", cpu="2"), low("old", "n", "2"), *map(member, "abc"))
    await world.elapse(5)
    assert await evicted(world, "old") == []
    assert [(await world.pod(name)).status.nominated_node_name for name in "abc"] == ["", "", ""]
    (condition,) = (await world.api(PodGroup).get("g")).status.conditions
    assert condition.message.endswith("would not make the pod group fit.")


@run_with(lambda test: play(test, gates=GATES))
async def test_only_what_has_to_go_is_evicted(world: World) -> None:
    await furnish(world)
    nodes = [node("n", cpu="1"), node("m", cpu="2"), node("far", cpu="1", labels={"far": "yes"})]
    olds = [low("x", "n"), low("y", "m"), low("z", "m")]
    await world.create(*nodes, *olds, low("away", "far", nodeSelector={"far": "yes"}))
    await world.create(member("a"), member("b"))
    await world.elapse(1)
    assert len(await evicted(world, "x", "y", "z", "away")) == 2


@run_with(lambda test: play(test, gates=GATES))
async def test_a_disruption_budget_is_respected_where_that_is_possible(world: World) -> None:
    await furnish(world, 1)
    budget = {"metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"k": "v"}}}}
    await world.create(from_dict(PodDisruptionBudget, budget))
    kept = low("kept", "n")
    kept = replace(kept, metadata=replace(kept.metadata, labels={"k": "v"}))
    await world.create(node("n", cpu="1"), node("m", cpu="1"), kept, low("free", "m"), member("a"))
    await world.elapse(1)
    assert await evicted(world, "kept", "free") == ["free"]


async def make_victims(world: World, mode: dict[str, Any]) -> None:
    spec = {"schedulingPolicy": {"basic": {}}, "disruptionMode": mode}
    body = {"metadata": {"name": "v", "namespace": "default"}, "spec": spec}
    await world.create(from_dict(PodGroup, body))
    grouped = {"schedulingGroup": {"podGroupName": "v"}}
    await world.create(node("n", cpu="1"), node("m", cpu="1"), low("x", "n", **grouped), low("y", "m", **grouped))


@pytest.mark.parametrize(
    ("mode", "victims"),
    [("all", 2), ("single", 1)],
    ids=["all pods together", "one by one"],
)
@run_with(lambda test: play(test, gates=GATES))
async def test_pods_of_a_group_are_evicted_as_its_disruption_mode_says(
    world: World, *, mode: str, victims: int
) -> None:
    await furnish(world, 1)
    await make_victims(world, {mode: {}})
    await world.create(member("a"))
    await world.elapse(1)
    assert len(await evicted(world, "x", "y")) == victims


@pytest.mark.parametrize(("mode", "victims"), [({"all": {}}, ["x", "y"]), ({"single": {}}, ["x"])])
@pytest.mark.parametrize("whole", [True, False], ids=["gang", "pod"])
@run_with(lambda test: play(test, gates={**GATES, "CompositePodGroup": True}))
async def test_the_groups_below_a_composite_are_evicted_as_its_disruption_mode_says(
    world: World, *, mode: dict[str, Any], victims: list[str], whole: bool
) -> None:
    """For a gang, and for a pod without a group; y is on another node, and not in the way."""
    await furnish(world, 1)
    top = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}, "disruptionMode": mode}
    await world.create(from_dict(CompositePodGroup, {"metadata": {"name": "t", "namespace": "default"}, "spec": top}))
    for name in ("v", "w"):
        below = {"schedulingPolicy": {"basic": {}}, "parentCompositePodGroupName": "t"}
        await world.create(from_dict(PodGroup, {"metadata": {"name": name, "namespace": "default"}, "spec": below}))
    x, y = low("x", "n", **grouped("v")), low("y", "m", **grouped("w"))
    await world.create(node("n", cpu="1"), node("m", cpu="1", labels={"far": "yes"}), x, y)
    near = {"nodeSelector": {"kubernetes.io/hostname": "n"}}
    await world.create(
        member("a", **near) if whole else pod("a", requests={"cpu": "1"}, priorityClassName="high", **near)
    )
    await world.elapse(1)
    assert await evicted(world, "x", "y") == victims


def grouped(name: str) -> dict[str, Any]:
    return {"schedulingGroup": {"podGroupName": name}}


@run_with(lambda test: play(test, gates=GATES | {"PodGroupPreemptionPolicy": True}))
async def test_a_group_that_never_preempts_waits(world: World) -> None:
    polite = {"metadata": {"name": "polite"}, "value": 9, "preemptionPolicy": "Never"}
    await world.create(from_dict(PriorityClass, polite))
    await furnish(world, 1, priorityClassName="polite")
    a = pod("a", requests={"cpu": "1"}, priorityClassName="polite", schedulingGroup={"podGroupName": "g"})
    await world.create(node("n", cpu="1"), low("old", "n"), a)
    await world.elapse(3)
    assert await evicted(world, "old") == []
    (condition,) = (await world.api(PodGroup).get("g")).status.conditions
    assert condition.message.endswith("preemption: not eligible due to preemptionPolicy=Never.")
