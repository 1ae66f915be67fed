"""Preemption for devices: the pods that are evicted, and what is held until the devices are free (KEP-5690)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.policy_v1 import PodDisruptionBudget
from cathedra.api.core.scheduling_v1 import PriorityClass
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import ResourceClaim, ResourceSlice
from cathedra.api.struct import from_dict, replace
from tests.running import run_with
from tests.unit.scheduler.objects import DRIVER, claim, device_class, exactly, node, pod, slice_
from tests.unit.scheduler.world import World, play

ON = {"DRAPreemption": True}


def user(name: str, *claims: str, priority: int = 0, **more: Any) -> Pod:
    """A pod of a priority that uses claims; of its own name if none is given."""
    entries = [{"name": one, "resourceClaimName": one} for one in claims or (name,)]
    return pod(name, resourceClaims=entries, **of(priority), terminationGracePeriodSeconds=1000, **more)


def of(priority: int) -> dict[str, Any]:
    """The class of a priority; none for 0."""
    return {"priorityClassName": f"p{priority}"} if priority else {}


def scene(body: Callable[[World], Awaitable[None]], gates: dict[str, bool] = ON) -> None:
    """Play ``body`` in a cluster with a class for each priority."""

    async def with_classes(world: World) -> None:
        classes = ({"metadata": {"name": f"p{value}"}, "value": value} for value in range(1, 11))
        await world.create(*(from_dict(PriorityClass, one) for one in classes))
        never = {"metadata": {"name": "never"}, "value": 9, "preemptionPolicy": "Never"}
        await world.create(from_dict(PriorityClass, never))
        await body(world)

    play(with_classes, gates=gates)


async def furnish(world: World, **devices: int) -> None:
    """A class, and nodes with this number of devices each."""
    await world.create(device_class())
    for name, count in devices.items():
        await world.create(node(name), slice_(name, count))


async def run(world: World, *pods: Pod, claims: Iterable[ResourceClaim] = ()) -> None:
    """Pods that get their devices one after the other."""
    await world.create(*claims)
    for one in pods:
        if not claims:
            await world.create(claim(one.metadata.name))
        await world.create(one)
        await world.bound(one.metadata.name)


async def arrive(world: World, one: Pod, *requests: Mapping[str, Any]) -> None:
    """A pod with its claim comes, and is tried."""
    await world.create(claim(one.metadata.name, *requests), one)
    await world.quiet()


async def leave(world: World, name: str) -> None:
    """The pod ends, and its claim is deallocated."""
    await end(world, name)
    await deallocate(world, name)


async def evicted(world: World) -> list[str]:
    """The pods that are being deleted."""
    page = await world.api(Pod).list()
    return sorted(one.metadata.name for one in page.items if one.metadata.deletion_timestamp is not None)


async def nominated(world: World, name: str) -> str:
    return (await world.pod(name)).status.nominated_node_name


async def end(world: World, name: str) -> None:
    """The pod ends; its claims are still allocated."""
    await world.api(Pod).delete(name, grace_period_seconds=0)
    await world.quiet()


async def deallocate(world: World, name: str) -> None:
    """Do what the resource claim controller does for a claim without consumers."""
    stored = await world.claim(name)
    empty = replace(stored.status, allocation=None, reserved_for=())
    await world.api(ResourceClaim).update_status(replace(stored, status=empty))
    await world.quiet()


HIGH = user("high", priority=9)


@pytest.mark.parametrize(
    ("gates", "running", "high", "count", "text"),
    [
        ({}, [user("low")], HIGH, 1, "Preemption is not helpful"),
        (ON, [user("low")], user("high", priorityClassName="never"), 1, "not eligible due to preemptionPolicy=Never."),
        (
            ON,
            [user("low"), user("same", priority=9)],
            HIGH,
            2,
            "preemption: 0/1 nodes are available: 1 cannot allocate all claims.",
        ),
    ],
    ids=["the gate is off", "the pod never preempts", "the devices would not suffice"],
)
def test_a_pod_evicts_no_other_for_devices(
    gates: dict[str, bool], running: list[Pod], high: Pod, count: int, text: str
) -> None:
    async def body(world: World) -> None:
        await furnish(world, n=len(running))
        await run(world, *running)
        await arrive(world, high, exactly(count=count))
        assert (await evicted(world), await nominated(world, "high")) == ([], "")
        assert text in (await world.condition("high"))[1]

    scene(body, gates)


@run_with(scene)
async def test_a_pod_of_lower_priority_makes_room_for_one_that_needs_its_device(world: World) -> None:
    await furnish(world, n=1)
    await run(world, user("low"))
    await arrive(world, user("high", priority=9))
    assert (await evicted(world), await nominated(world, "high")) == (["low"], "n")
    await leave(world, "low")
    await world.bound("high")
    assert await world.devices("high") == [("n", "gpu-0")]


@run_with(scene)
async def test_nothing_more_is_evicted_while_devices_are_still_being_freed(world: World) -> None:
    await furnish(world, n=2)
    await run(world, user("a"), user("b"))
    await arrive(world, user("high", priority=9))
    (victim,) = await evicted(world)
    await world.create(node("wake-1"))
    await world.quiet()
    assert await evicted(world) == [victim]
    await end(world, victim)
    # The victim has gone and its claim is still allocated: the pod is tried, and waits.
    await world.create(node("wake-2"))
    await world.quiet()
    assert (await evicted(world), await nominated(world, "high")) == ([], "n")
    assert (await world.condition("high"))[1].endswith("devices of evicted pods that are still being freed.")
    await deallocate(world, victim)
    await world.bound("high")
    assert await evicted(world) == []


@pytest.mark.parametrize(("priority", "gets"), [(1, False), (9, False), (10, True)])
def test_freed_devices_are_held_against_pods_that_are_not_more_important(priority: int, *, gets: bool) -> None:
    async def body(world: World) -> None:
        await furnish(world, n=1)
        await run(world, user("low"))
        await arrive(world, user("high", priority=9), exactly())
        await end(world, "low")
        await world.create(claim("other"), user("other", priority=priority))
        await world.elapse(15)  # until no back-off decides which one comes first
        await deallocate(world, "low")
        await world.bound("other" if gets else "high")
        await world.quiet()
        assert await world.node_of("high" if gets else "other") == ""

    scene(body)


@run_with(scene)
async def test_another_device_of_the_node_can_be_had_beside_the_one_that_is_held(world: World) -> None:
    await furnish(world, n=2)
    await run(world, user("a"), user("b"))
    await arrive(world, user("high", priority=9))
    (victim,) = await evicted(world)
    other = {"a": "b", "b": "a"}[victim]
    await leave(world, other)
    await world.quiet()
    # One device is free and "high" takes it: what it evicted for is for others.
    await world.bound("high")
    await arrive(world, user("later"))
    assert await world.node_of("later") == ""
    await leave(world, victim)
    await world.bound("later")


@run_with(scene)
async def test_a_free_device_that_a_nominated_pod_needs_beside_a_freed_one_is_held_too(world: World) -> None:
    await furnish(world, n=2)
    await run(world, user("low"))
    await arrive(world, user("high", priority=9), exactly(count=2))
    assert await evicted(world) == ["low"]
    await arrive(world, user("other", priority=9))
    assert await world.node_of("other") == ""
    await end(world, "low")
    await arrive(world, user("third"))
    assert await world.node_of("third") == ""
    await deallocate(world, "low")
    await world.bound("high")


@run_with(scene)
async def test_a_pod_that_is_no_longer_nominated_holds_nothing(world: World) -> None:
    await furnish(world, n=2)
    await run(world, user("low"))
    await arrive(world, user("high", priority=9), exactly(count=2))
    await arrive(world, user("other"))
    assert await world.node_of("other") == ""
    await world.api(Pod).delete("high", grace_period_seconds=0)
    await world.bound("other")


@run_with(scene)
async def test_a_claim_is_freed_only_if_all_its_pods_are_evicted(world: World) -> None:
    await furnish(world, n=1)
    shared = [user("low", "shared"), user("mid", "shared", priority=5)]
    await run(world, *shared, claims=[claim("shared")])
    await arrive(world, user("p", priority=3))
    assert await evicted(world) == []
    await arrive(world, user("q", priority=7))
    assert await evicted(world) == ["low", "mid"]


@run_with(scene)
async def test_the_fewest_and_least_important_pods_are_evicted(world: World) -> None:
    await furnish(world, n=2, m=2)
    await run(world, user("n1", priority=1, nodeSelector={"kubernetes.io/hostname": "n"}))
    for name, where, priority in (("n2", "n", 3), ("m1", "m", 2), ("m2", "m", 2)):
        await run(world, user(name, priority=priority, nodeSelector={"kubernetes.io/hostname": where}))
    await arrive(world, user("high", priority=9))
    assert await evicted(world) == ["n1"]
    await arrive(world, user("big", priority=9), exactly(count=2))
    assert await evicted(world) == ["m1", "m2", "n1"]


@run_with(scene)
async def test_a_pod_that_uses_a_device_for_administration_is_not_evicted_for_it(world: World) -> None:
    await furnish(world, n=1)
    asked = exactly()
    asked["exactly"]["adminAccess"] = True
    await run(world, user("admin"), claims=[claim("admin", asked)])
    await run(world, user("low", priority=1))
    await arrive(world, user("high", priority=9))
    assert await evicted(world) == ["low"]


@run_with(scene)
async def test_a_disruption_budget_is_violated_only_if_nothing_else_helps(world: World) -> None:
    budget = {"metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"k": "v"}}}}
    await world.create(from_dict(PodDisruptionBudget, budget))
    await furnish(world, n=1, m=1)
    await run(world, user("kept", labels={"k": "v"}), user("free", priority=1))
    await arrive(world, user("high", priority=9))
    assert await evicted(world) == ["free"]
    await arrive(world, user("next", priority=9))
    assert await evicted(world) == ["free", "kept"]


def shared_device(name: str, capacity: str) -> ResourceSlice:
    more: dict[str, Any] = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": capacity}}}
    return slice_(name, 1, **more)


def portion(memory: str) -> Mapping[str, Any]:
    asked = exactly()
    asked["exactly"]["capacity"] = {"requests": {"memory": memory}}
    return asked


@run_with(scene)
async def test_capacity_of_a_shared_device_is_freed_by_the_pods_that_consume_it(world: World) -> None:
    await world.create(device_class(), node("n"), shared_device("n", "80Gi"))
    claims = [claim("a", portion("20Gi")), claim("b", portion("40Gi")), claim("c", portion("20Gi"))]
    await run(world, user("a", priority=1), user("b", priority=2), user("c", priority=3), claims=claims)
    await arrive(world, user("high", priority=9), portion("20Gi"))
    assert await evicted(world) == ["a"]
    # A second preemptor counts on the capacity of another pod, not on that of the first victim.
    await arrive(world, user("next", priority=9), portion("40Gi"))
    assert await evicted(world) == ["a", "b"]
    await leave(world, "a")
    await world.bound("high")
    await leave(world, "b")
    await world.bound("next")


@run_with(scene)
async def test_a_second_preemption_on_the_node_while_capacity_is_being_freed_does_not_count_it_twice(
    world: World,
) -> None:
    await world.create(device_class(), node("n"), shared_device("n", "80Gi"))
    claims = [claim("a", portion("40Gi")), claim("b", portion("40Gi"))]
    await run(world, user("a", priority=1), user("b", priority=2), claims=claims)
    await arrive(world, user("high", priority=9), portion("40Gi"))
    await end(world, "a")
    await arrive(world, user("next", priority=9), portion("40Gi"))
    assert (await evicted(world), await nominated(world, "next")) == (["b"], "n")


def partitions() -> ResourceSlice:
    """A device in halves, or whole, out of one counter."""
    made = slice_("n", 3)
    devices = [
        {
            "name": name,
            "attributes": {"size": {"int": size}},
            "consumesCounters": [{"counterSet": "c", "counters": {"parts": {"value": str(size)}}}],
        }
        for name, size in (("half-0", 1), ("half-1", 1), ("whole", 2))
    ]
    spec = {
        "driver": DRIVER,
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 2},
        "devices": devices,
    }
    return from_dict(ResourceSlice, {"metadata": {"name": made.metadata.name}, "spec": spec})


def counters() -> ResourceSlice:
    spec = {
        "driver": DRIVER,
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 2},
        "sharedCounters": [{"name": "c", "counters": {"parts": {"value": "2"}}}],
    }
    return from_dict(ResourceSlice, {"metadata": {"name": "counters"}, "spec": spec})


def of_size(size: int) -> Mapping[str, Any]:
    asked = exactly()
    asked["exactly"]["selectors"] = [{"cel": {"expression": f'device.attributes["{DRIVER}"].size == {size}'}}]
    return asked


@run_with(scene)
async def test_all_partitions_of_a_device_are_freed_for_the_whole_of_it(world: World) -> None:
    await world.create(device_class(), node("n"), counters(), partitions())
    await run(world, user("a"), user("b"), claims=[claim("a", of_size(1)), claim("b", of_size(1))])
    await arrive(world, user("high", priority=9), of_size(2))
    assert await evicted(world) == ["a", "b"]
    for victim in ("a", "b"):
        await end(world, victim)
        await world.create(claim(f"thief-{victim}", of_size(1)), user(f"thief-{victim}"))
        await deallocate(world, victim)
    await world.bound("high")
    assert await world.devices("high") == [("n", "whole")]


@run_with(scene)
async def test_devices_behind_extended_resources_are_freed_and_held(world: World) -> None:
    await world.create(device_class(extendedResourceName="example.com/gpu"), node("n"), slice_("n", 1))
    wanted = {"example.com/gpu": "1"}
    low = pod("low", requests=wanted, terminationGracePeriodSeconds=1000)
    await world.create(low)
    await world.bound("low")
    await world.create(pod("high", requests=wanted, **of(9)))
    await world.quiet()
    assert (await evicted(world), await nominated(world, "high")) == (["low"], "n")
    (special,) = (await world.api(ResourceClaim).list()).items
    await end(world, "low")
    await world.create(pod("thief", requests=wanted))
    await world.quiet()
    stored = replace(special, metadata=replace(special.metadata, finalizers=()))
    current = await world.claim(special.metadata.name)
    await world.api(ResourceClaim).update(
        replace(stored, metadata=replace(stored.metadata, resource_version=current.metadata.resource_version))
    )
    await world.api(ResourceClaim).delete(special.metadata.name)
    await world.bound("high")
    assert await world.node_of("thief") == ""


@run_with(scene)
async def test_devices_that_several_nodes_reach_are_not_freed(world: World) -> None:
    spec = {
        "driver": DRIVER,
        "allNodes": True,
        "pool": {"name": "net", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "d"}],
    }
    everywhere = from_dict(ResourceSlice, {"metadata": {"name": "net"}, "spec": spec})
    await world.create(device_class(), node("n"), everywhere)
    await run(world, user("low"))
    await arrive(world, user("high", priority=9))
    assert await evicted(world) == []


GANG = {**ON, "GenericWorkload": True}


def group(name: str, count: int = 2, **spec: Any) -> PodGroup:
    body = {"schedulingPolicy": {"gang": {"minCount": count}}, **spec}
    return from_dict(PodGroup, {"metadata": {"name": name, "namespace": "default"}, "spec": body})


def grouped(name: str) -> dict[str, Any]:
    return {"schedulingGroup": {"podGroupName": name}}


@run_with(lambda test: scene(test, GANG))
async def test_a_gang_evicts_for_the_devices_of_all_its_pods_and_they_are_held_for_it(world: World) -> None:
    await furnish(world, n=1, m=1)
    await run(world, user("a"), user("b"))
    await world.create(group("g", **of(9)), claim("x"), claim("y"))
    await world.create(user("x", priority=9, **grouped("g")), user("y", priority=9, **grouped("g")))
    await world.quiet()
    assert await evicted(world) == ["a", "b"]
    assert {await nominated(world, "x"), await nominated(world, "y")} == {"n", "m"}
    await world.create(claim("thief"), user("thief", priority=9))
    for victim in ("a", "b"):
        await end(world, victim)
        await world.elapse(15)
        await deallocate(world, victim)
    await world.bound("x", "y")
    assert await world.node_of("thief") == ""


@run_with(lambda test: scene(test, GANG))
async def test_a_gang_that_would_not_fit_evicts_nobody(world: World) -> None:
    await furnish(world, n=1)
    await run(world, user("a"))
    await world.create(group("g", **of(9)), claim("x"), claim("y"))
    await world.create(user("x", priority=9, **grouped("g")), user("y", priority=9, **grouped("g")))
    await world.quiet()
    assert await evicted(world) == []


@pytest.mark.parametrize(("mode", "victims"), [({"all": {}}, ["x", "y"]), ({"single": {}}, ["x"])])
@run_with(lambda test: scene(test, GANG))
async def test_a_gang_is_evicted_as_its_disruption_mode_says(
    world: World, *, mode: dict[str, Any], victims: list[str]
) -> None:
    await furnish(world, n=1, m=1)
    await world.create(group("g", 1, disruptionMode=mode))
    await run(world, user("x", **grouped("g")), user("y", **grouped("g")))
    where = await world.node_of("x")
    await arrive(world, user("p", priority=9, nodeSelector={"kubernetes.io/hostname": where}))
    assert await evicted(world) == victims
