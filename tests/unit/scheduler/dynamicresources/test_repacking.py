"""Pods of a gang get other devices of a node so that all of them fit (JointPlacement)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import ResourceClaim, ResourceSlice
from cathedra.api.struct import from_dict, replace
from tests.running import run_with
from tests.unit.scheduler.objects import claim, device_class, node
from tests.unit.scheduler.test_jointsearch import joint, wishing
from tests.unit.scheduler.test_unitcycle import GATES, gang, make_group, member, places
from tests.unit.scheduler.world import World, play

PARTITIONED = {
    "sharedCounters": [{"name": "gpu-0", "counters": {"slices": {"value": "2"}}}],
    "devices": [
        {"name": name, "attributes": {"type": {"string": kind}}, "consumesCounters": [uses]}
        for name, kind, uses in (
            ("whole", "gpu", {"counterSet": "gpu-0", "counters": {"slices": {"value": "2"}}}),
            ("half-0", "mig", {"counterSet": "gpu-0", "counters": {"slices": {"value": "1"}}}),
            ("half-1", "mig", {"counterSet": "gpu-0", "counters": {"slices": {"value": "1"}}}),
        )
    ],
}


def partitioned(node_name: str) -> list[ResourceSlice]:
    """One GPU that is used as a whole or in halves, in the two slices that counters and devices are in."""
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 2}
    return [
        from_dict(
            ResourceSlice,
            {
                "metadata": {"name": f"{node_name}-{part.lower()}"},
                "spec": {"driver": "gpu.example.com", "nodeName": node_name, "pool": pool, part: PARTITIONED[part]},
            },
        )
        for part in PARTITIONED
    ]


def whole_or_half(name: str, *kinds: str) -> ResourceClaim:
    """A claim for a partition of the first of these kinds that is free."""
    subs = [
        {
            "name": kind,
            "deviceClassName": "gpu",
            "allocationMode": "ExactCount",
            "count": 1,
            "selectors": [{"cel": {"expression": f'device.attributes["gpu.example.com"].type == "{kind}"'}}],
        }
        for kind in kinds
    ]
    return claim(name, {"name": "gpu", "firstAvailable": subs})


def used(name: str) -> dict[str, Any]:
    return {"resourceClaims": [{"name": "c", "resourceClaimName": name}]}


def using(name: str, **spec: Any) -> Pod:
    """A member of the gang with the claim of its name."""
    return member(name, **used(name), **spec)


async def two_for_one_gpu(world: World) -> None:
    await make_group(world, "g", gang(2))
    await world.create(device_class(), node("n"), *partitioned("n"))
    await world.create(whole_or_half("a", "gpu", "mig"), whole_or_half("b", "gpu", "mig"), using("a"), using("b"))


async def devices_of(world: World, name: str) -> list[str]:
    allocation = (await world.api(ResourceClaim).get(name)).status.allocation
    return [] if allocation is None else [result.device for result in allocation.devices.results]


@run_with(lambda test: play(test, gates=GATES))
async def test_by_default_a_gang_waits_whose_first_pod_takes_the_whole_of_a_gpu(world: World) -> None:
    await two_for_one_gpu(world)
    await world.elapse(30)
    assert await places(world, "ab") == ["", ""]


@run_with(lambda test: play(test, gates=GATES, configuration=joint()))
async def test_pods_of_a_gang_take_alternatives_that_leave_room_for_each_other(world: World) -> None:
    await two_for_one_gpu(world)
    await world.bound("a", "b")
    found = [await devices_of(world, name) for name in "ab"]
    assert sorted(found) == [["half-0"], ["half-1"]]
    assert world.scheduler.statistics()["claims_in_flight"] == 0


@run_with(lambda test: play(test, gates=GATES, configuration=joint()))
async def test_a_pod_whose_sibling_goes_elsewhere_after_all_gets_its_first_alternative_again(world: World) -> None:
    await make_group(world, "g", gang(5))
    await world.create(node("large", cpu="5"), node("small", cpu="1"), wishing("d", "large"), member("e", cpu="5"))
    await world.create(device_class(), node("n"), node("m", cpu="1"), *partitioned("n"), *partitioned("m"))
    await world.create(whole_or_half("a", "gpu", "mig"), whole_or_half("b", "gpu", "mig"))
    on_n: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": "n"}}
    # The second pod prefers the node of the first, and the third needs its processors.
    await world.create(wishing("b", "n", **used("b")), member("c", cpu="3", **on_n), using("a", **on_n))
    await world.bound(*"abcde")
    assert await places(world, "abc") == ["n", "m", "n"]
    assert await devices_of(world, "a") == ["whole"]


@run_with(lambda test: play(test, gates=GATES, configuration=joint()))
async def test_a_shared_claim_is_changed_for_all_pods_that_use_it(world: World) -> None:
    await make_group(world, "g", gang(3))
    await world.create(device_class(), node("n"), *partitioned("n"))
    await world.create(whole_or_half("a", "gpu", "mig"), whole_or_half("b", "gpu", "mig"))
    await world.create(using("a"), member("s", **used("a")), using("b"))
    await world.bound("a", "s", "b")
    stored = await world.api(ResourceClaim).get("a")
    assert len(stored.status.reserved_for) == 2
    assert await devices_of(world, "a") != await devices_of(world, "b") != ["whole"]


# --- against an exhaustive search over nodes and devices

_USES = {"whole": 2, "half-0": 1, "half-1": 1}
_KIND = {"whole": "gpu", "half-0": "mig", "half-1": "mig"}
Demand = list[tuple[str, int]]
"""Alternatives of a claim: a kind of device, and how many."""


def fits(rooms: list[int], pods: list[tuple[int, Demand]]) -> bool:
    """Try every node, alternative and set of devices for every pod; ``rooms`` has the CPUs of the nodes."""
    return _rest_fits(tuple((room, frozenset[str]()) for room in rooms), pods)


def _rest_fits(nodes: tuple[tuple[int, frozenset[str]], ...], pods: list[tuple[int, Demand]]) -> bool:
    if not pods:
        return True
    (cpu, demand), *rest = pods
    for place, (room, held) in enumerate(nodes):
        for taken in _choices(demand, held) if cpu <= room else ():
            changed = (*nodes[:place], (room - cpu, held | taken), *nodes[place + 1 :])
            if _rest_fits(changed, rest):
                return True
    return False


def _choices(demand: Demand, held: frozenset[str]) -> Iterator[frozenset[str]]:
    for kind, count in demand:
        free = [name for name in _USES if name not in held and _KIND[name] == kind]
        for chosen in combinations(free, count):
            if sum(_USES[name] for name in held.union(chosen)) <= 2:
                yield frozenset(chosen)


def demands(random: Random) -> Demand:
    first = random.choice([("gpu", 1), ("mig", 1), ("mig", 2)])
    others = [one for one in (("gpu", 1), ("mig", 1), ("mig", 2)) if one != first]
    return [first, random.choice(others)] if random.random() < 0.6 else [first]


def lists(name: str, demand: Demand) -> ResourceClaim:
    """A claim with these alternatives."""
    stored = whole_or_half(name, *(kind for kind, _ in demand))
    (request,) = stored.spec.devices.requests or ()
    subs = tuple(
        replace(sub, name=f"{sub.name}-{number}", count=count)
        for number, (sub, (_, count)) in enumerate(zip(request.first_available, demand, strict=True))
    )
    devices = replace(stored.spec.devices, requests=(replace(request, first_available=subs),))
    return replace(stored, spec=replace(stored.spec, devices=devices))


async def placed(world: World, rooms: list[int], pods: list[tuple[int, Demand]]) -> int:
    """Return the number of pods that run once all have been tried."""
    await make_group(world, "g", gang(len(pods)))
    await world.create(device_class())
    for number, cpu in enumerate(rooms):
        await world.create(node(f"n{number}", cpu=str(cpu)), *partitioned(f"n{number}"))
    for number, (cpu, demand) in enumerate(pods):
        await world.create(lists(f"p{number}", demand), using(f"p{number}", cpu=str(cpu)))
    await world.elapse(5)
    return sum([bool(await world.node_of(f"p{number}")) for number in range(len(pods))])


@pytest.mark.parametrize("seed", range(24))
@run_with(lambda test: play(test, gates=GATES, configuration=joint()))
async def test_a_gang_is_placed_if_exhaustive_search_over_nodes_and_devices_places_it(
    world: World, *, seed: int
) -> None:
    random = Random(seed)
    rooms = [random.randint(1, 4) for _ in range(random.randint(1, 3))]
    pods = [(random.randint(1, 2), demands(random)) for _ in range(random.randint(2, 2 * len(rooms)))]
    assert await placed(world, rooms, pods) == (len(pods) if fits(rooms, pods) else 0)
