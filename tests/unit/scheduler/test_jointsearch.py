"""Gangs that one pod after the other does not place, placed together (JointPlacement)."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.scheduler.configuration.reading import SchedulerConfiguration, read_configuration
from tests.running import run_with
from tests.unit.scheduler.objects import claim, device_class, exactly, node, pod, slice_
from tests.unit.scheduler.test_unitcycle import (
    GATES,
    condition,
    gang,
    groups,
    make_composite,
    make_group,
    member,
    places,
)
from tests.unit.scheduler.world import World, play

TEXT = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: JointPlacement}]
  pluginConfig:
  - name: JointPlacement
    args: {maxTrials: TRIALS}
"""


def joint(trials: int = 2000) -> SchedulerConfiguration:
    return read_configuration(TEXT.replace("TRIALS", str(trials)))


def wishing(name: str, where: str, **spec: Any) -> Pod:
    """A member that prefers a node."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [where]}]}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}
    return member(name, affinity={"nodeAffinity": wish}, **spec)


async def greedy_dead_end(world: World) -> None:
    """A gang of two: the first pod prefers the node that alone is large enough for the second."""
    await make_group(world, "g", gang(2))
    await world.create(node("large", cpu="3"), node("small", cpu="1"))
    await world.create(member("b", cpu="3"), wishing("a", "large"))


@run_with(lambda test: play(test, gates=GATES))
async def test_by_default_a_gang_waits_whose_first_pod_takes_the_node_of_the_second(world: World) -> None:
    await greedy_dead_end(world)
    await world.elapse(30)
    assert await places(world, "ab") == ["", ""]


@run_with(lambda test: play(test, gates=GATES, configuration=joint()))
async def test_joint_placement_goes_back_and_places_both(world: World) -> None:
    await greedy_dead_end(world)
    await world.bound("a", "b")
    assert await places(world, "ab") == ["small", "large"]
    assert await condition(world) == ("True", "Scheduled", "")


@run_with(lambda test: play(test, gates=GATES, configuration=joint()))
async def test_devices_count_as_resources_do(world: World) -> None:
    await make_group(world, "g", gang(2))
    await world.create(device_class(), node("two"), node("one"), slice_("two", 2), slice_("one", 1))
    await world.create(claim("one"), claim("both", exactly(count=2)))
    await world.create(
        wishing("a", "two", resourceClaims=[{"name": "c", "resourceClaimName": "one"}]),
        member("b", resourceClaims=[{"name": "c", "resourceClaimName": "both"}]),
    )
    await world.bound("a", "b")
    assert await places(world, "ab") == ["one", "two"]


@run_with(lambda test: play(test, gates=GATES, configuration=joint()))
async def test_the_refusal_names_the_obstacle_and_how_many_fit(world: World) -> None:
    await make_group(world, "g", gang(3))
    await world.create(node("large", cpu="3"), node("small", cpu="1"))
    await world.create(member("a"), member("b", cpu="3"), member("c", cpu="2"))
    await world.elapse(3)
    message = (await condition(world))[2]
    assert "JointPlacement: 2 of 3 pods fit together" in message
    assert "finds no node" in message
    assert "the search ended" not in message
    held = world.scheduler.statistics()
    assert (held["assumed"], held["inflight"]) == (0, 0)


@run_with(lambda test: play(test, gates=GATES, configuration=joint(1)))
async def test_a_search_that_ends_at_its_bound_is_reported(world: World) -> None:
    await greedy_dead_end(world)
    await world.elapse(3)
    said = "the search ended after 1 trials"
    assert said in (await condition(world))[2]
    # The pods that the group holds back have it in their conditions and events.
    texts = [(await world.condition(name))[1] for name in "ab"]
    messages = [message for name in "ab" for _, message in await world.events(name)]
    assert any(said in text for text in texts)
    assert any(said in message for message in messages)


@run_with(lambda test: play(test, gates=GATES, configuration=joint()))
async def test_groups_of_a_hierarchy_are_placed_together(world: World) -> None:
    await make_composite(world, "root", groups(2))
    await make_group(world, "g", gang(1), "root")
    await make_group(world, "h", gang(1), "root")
    await world.create(node("large", cpu="3"), node("small", cpu="1"))
    await world.create(wishing("a", "large"), member("b", "h", cpu="3"))
    await world.bound("a", "b")
    assert await places(world, "ab") == ["small", "large"]


def fits(nodes: list[int], pods: list[tuple[int, str]]) -> bool:
    """Exhaustive search: CPUs of nodes, and of pods with the node that they must have."""
    for choice in product(range(len(nodes)), repeat=len(pods)):
        used = [0] * len(nodes)
        for place, (cpu, _) in zip(choice, pods, strict=True):
            used[place] += cpu
        allowed = all(only in ("", f"n{place}") for place, (_, only) in zip(choice, pods, strict=True))
        if allowed and all(taken <= room for taken, room in zip(used, nodes, strict=True)):
            return True
    return False


@pytest.mark.parametrize("seed", range(12))
def test_a_gang_is_placed_if_exhaustive_search_places_it(seed: int) -> None:
    random = Random(seed)
    nodes = [random.randint(1, 4) for _ in range(random.randint(2, 3))]
    only = ["", "", *(f"n{number}" for number in range(len(nodes)))]
    pods = [(random.randint(1, 3), random.choice(only)) for _ in range(random.randint(2, 4))]

    async def body(world: World) -> None:
        await make_group(world, "g", gang(len(pods)))
        await world.create(*(node(f"n{number}", cpu=str(cpu)) for number, cpu in enumerate(nodes)))
        await world.create(*(gang_member(number, cpu, where) for number, (cpu, where) in enumerate(pods)))
        await world.elapse(5)
        names = [f"p{number}" for number in range(len(pods))]
        found = [await world.node_of(name) for name in names]
        assert all(found) is fits(nodes, pods)
        assert any(found) is all(found)

    play(body, gates=GATES, configuration=joint())


def gang_member(number: int, cpu: int, where: str) -> Pod:
    more: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": where}} if where else {}
    return pod(f"p{number}", requests={"cpu": str(cpu)}, schedulingGroup={"podGroupName": "g"}, **more)


def test_a_second_scheduler_places_the_gangs_that_name_it_and_leaves_the_others_alone() -> None:
    text = TEXT.replace("TRIALS", "200").replace("- plugins:", "- schedulerName: cathedra-scheduler\n  plugins:")

    async def body(world: World) -> None:
        await make_group(world, "g", gang(2))
        await make_group(world, "h", gang(2))
        await world.create(node("large", cpu="3"), node("small", cpu="1"))
        await world.create(member("c", "h"), member("d", "h"))
        named = {"schedulerName": "cathedra-scheduler"}
        await world.create(member("b", cpu="3", **named), wishing("a", "large", **named))
        await world.bound("a", "b")
        assert await places(world, "abcd") == ["small", "large", "", ""]

    play(body, gates=GATES, configuration=read_configuration(text))
