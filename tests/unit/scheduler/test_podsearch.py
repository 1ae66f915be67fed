"""Preferences within a claim, such as a GPU next to a network interface (JointPlacement)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import ResourceClaim, ResourceSlice
from cathedra.api.struct import from_dict, replace
from cathedra.scheduler.configuration.reading import DEFAULT_CONFIGURATION, SchedulerConfiguration
from tests.running import run_with
from tests.unit.scheduler.objects import claim, device_class, exactly, node, pod
from tests.unit.scheduler.test_jointsearch import joint
from tests.unit.scheduler.test_unitcycle import GATES, gang, make_group, member, places
from tests.unit.scheduler.world import World, play

NOTE = "scheduling.cathedra.dev/preferred-constraints"
NUMA = {"requests": ["gpu", "nic"], "matchAttribute": "gpu.example.com/numa"}
IS_NIC = 'device.attributes["gpu.example.com"].kind == "nic"'
IS_GPU = 'device.attributes["gpu.example.com"].kind == "gpu"'
Devices = Sequence[tuple[str, str]]
"""Kind and NUMA node of the devices of a node."""


def machine(name: str, devices: Devices) -> ResourceSlice:
    entries = [
        {"name": f"{kind}-{number}", "attributes": {"kind": {"string": kind}, "numa": {"string": numa}}}
        for number, (kind, numa) in enumerate(devices)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": entries}
    return from_dict(ResourceSlice, {"metadata": {"name": name}, "spec": spec})


def asking(name: str, gpus: int, nics: int, *preferred: Mapping[str, Any]) -> ResourceClaim:
    """A claim for GPUs and network interfaces, with preferred constraints."""
    requests = [exactly(kind, kind, count) for kind, count in (("gpu", gpus), ("nic", nics)) if count]
    made = claim(name, *requests)
    return replace(made, metadata=replace(made.metadata, annotations={NOTE: json.dumps(preferred)}))


def classes() -> list[Any]:
    made = [device_class("gpu"), device_class("nic")]
    selectors = {"gpu": IS_GPU, "nic": IS_NIC}
    return [
        from_dict(
            type(one),
            {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": selectors[name]}}]}},
        )
        for one in made
        for name in (one.metadata.name,)
    ]


def user(name: str, *claims: str, **spec: Any) -> Pod:
    entries = [{"name": one, "resourceClaimName": one} for one in claims or (name,)]
    return pod(name, resourceClaims=entries, **spec)


async def given_devices(world: World, name: str) -> list[tuple[str, str]]:
    """Return pool and name of the devices that a claim has."""
    allocation = (await world.api(ResourceClaim).get(name)).status.allocation
    return [] if allocation is None else [(one.pool, one.device) for one in allocation.devices.results]


FAR_FIRST: Devices = [("gpu", "x"), ("gpu", "y"), ("nic", "y")]
"""The first GPU is far from the network interface."""


@pytest.mark.parametrize(
    ("configuration", "gpu"), [(DEFAULT_CONFIGURATION, "gpu-0"), (joint(), "gpu-1")], ids=["default", "joint"]
)
def test_devices_are_chosen_by_a_preference_with_the_plugin_alone(
    configuration: SchedulerConfiguration, gpu: str
) -> None:
    async def body(world: World) -> None:
        await world.create(*classes(), node("n"), machine("n", FAR_FIRST))
        await world.create(asking("a", 1, 1, NUMA), user("a"))
        await world.bound("a")
        assert await given_devices(world, "a") == [("n", gpu), ("n", "nic-2")]
        assert (await world.api(ResourceClaim).get("a")).spec.devices.constraints in (None, ())

    play(body, configuration=configuration)


@run_with(lambda test: play(test, configuration=joint()))
async def test_a_node_where_the_preference_holds_comes_before_one_that_scores_higher(world: World) -> None:
    await world.create(*classes(), node("large", cpu="100"), node("small", cpu="1"))
    await world.create(machine("large", [("gpu", "x"), ("nic", "y")]), machine("small", FAR_FIRST))
    await world.create(asking("a", 1, 1, NUMA), user("a", requests={"cpu": "1"}))
    await world.bound("a")
    assert await world.node_of("a") == "small"


@run_with(lambda test: play(test, configuration=joint()))
async def test_a_preference_that_cannot_hold_is_given_up(world: World) -> None:
    await world.create(*classes(), node("n"), machine("n", [("gpu", "x"), ("nic", "y")]))
    await world.create(asking("a", 1, 1, NUMA), user("a"))
    await world.bound("a")


@run_with(lambda test: play(test, gates={"DRAConsumableCapacity": True}, configuration=joint()))
async def test_the_most_important_preferences_that_can_hold_together_are_kept(world: World) -> None:
    different = {"requests": ["gpu"], "distinctAttribute": "gpu.example.com/numa"}
    same = {"requests": ["gpu"], "matchAttribute": "gpu.example.com/numa"}
    await world.create(*classes(), node("n"), machine("n", [("gpu", "x"), ("gpu", "x"), ("gpu", "y"), ("nic", "y")]))
    # All GPUs on one NUMA node contradicts the first; the network interface beside them would too.
    await world.create(asking("a", 2, 1, different, same, {**NUMA, "requests": ["nic"]}), user("a"))
    await world.bound("a")
    found = await given_devices(world, "a")
    assert {name for _, name in found} in ({"gpu-0", "gpu-2", "nic-3"}, {"gpu-1", "gpu-2", "nic-3"})


@run_with(lambda test: play(test, configuration=joint()))
async def test_an_annotation_that_cannot_be_read_prevents_nothing(world: World) -> None:
    made = asking("a", 1, 1)
    broken = replace(made, metadata=replace(made.metadata, annotations={NOTE: "{"}))
    await world.create(*classes(), node("n"), machine("n", FAR_FIRST), broken, user("a"))
    await world.bound("a")


@run_with(lambda test: play(test, configuration=joint()))
async def test_a_pod_that_does_not_fit_is_refused_in_kubernetes_words(world: World) -> None:
    await world.create(*classes(), node("n"), machine("n", [("gpu", "x")]))
    await world.create(asking("a", 1, 1, NUMA), user("a"))
    await world.elapse(3)
    assert (await world.condition("a"))[1].startswith("0/1 nodes are available: 1 cannot allocate all claims.")
    held = world.scheduler.statistics()
    assert (held["assumed"], held["claims_in_flight"]) == (0, 0)


@run_with(lambda test: play(test, gates=GATES, configuration=joint()))
async def test_pods_of_a_gang_leave_each_other_the_devices_that_they_prefer(world: World) -> None:
    await make_group(world, "g", gang(2))
    await world.create(*classes(), node("n"), machine("n", [("gpu", "y"), ("gpu", "x"), ("nic", "y")]))
    await world.create(asking("a", 1, 0), asking("b", 1, 1, NUMA))
    # The first pod would take the GPU that is next to the network interface of the second.
    for name in "ab":
        await world.create(member(name, resourceClaims=[{"name": "c", "resourceClaimName": name}]))
    await world.bound("a", "b")
    assert await given_devices(world, "b") == [("n", "gpu-0"), ("n", "nic-2")]
    assert await places(world, "ab") == ["n", "n"]


@run_with(lambda test: play(test, gates=GATES, configuration=joint()))
async def test_a_gang_whose_preferences_cannot_all_hold_runs_nevertheless(world: World) -> None:
    await make_group(world, "g", gang(2))
    devices = [("gpu", "x"), ("gpu", "y"), ("nic", "y"), ("nic", "y")]
    await world.create(*classes(), node("n"), machine("n", devices))
    await world.create(asking("a", 1, 1, NUMA), asking("b", 1, 1, NUMA))
    for name in "ab":
        await world.create(member(name, resourceClaims=[{"name": "c", "resourceClaimName": name}]))
    await world.bound("a", "b")
    near = [("n", "gpu-1") in await given_devices(world, name) for name in "ab"]
    assert near.count(True) == 1


def satisfying(machines: Mapping[str, Devices], gpus: int, nics: int) -> tuple[bool, bool]:
    """Exhaustive search: True if some node has the devices, and if it has them on one NUMA node."""
    fits = holds = False
    for devices in machines.values():
        kinds = {kind: [numa for one, numa in devices if one == kind] for kind in ("gpu", "nic")}
        for chosen in product(combinations(kinds["gpu"], gpus), combinations(kinds["nic"], nics)):
            fits = True
            holds |= len(set(chosen[0]) | set(chosen[1])) == 1
    return fits, holds


DEVICES = st.lists(st.tuples(st.sampled_from(["gpu", "nic"]), st.sampled_from("xyz")), max_size=6)


@settings(max_examples=60, deadline=None)
@given(machines=st.lists(DEVICES, min_size=1, max_size=3), gpus=st.integers(1, 3), nics=st.integers(0, 2))
def test_a_preference_holds_if_it_can_and_never_changes_what_fits(
    machines: list[Devices], gpus: int, nics: int
) -> None:
    named = {f"n{number}": devices for number, devices in enumerate(machines)}
    fits, can_hold = satisfying(named, gpus, nics)

    async def body(world: World) -> None:
        await world.create(*classes(), *map(node, named), *(machine(name, there) for name, there in named.items()))
        names = ["gpu", "nic"][: 1 + bool(nics)]
        await world.create(asking("a", gpus, nics, {**NUMA, "requests": names}), user("a"))
        await world.elapse(2)
        found = await given_devices(world, "a")
        assert bool(found) is fits
        numas = {named[pool][int(device.partition("-")[2])][1] for pool, device in found}
        assert (len(numas) == 1) is can_hold

    play(body, configuration=joint())


Wanted = tuple[int, int]
"""Numbers of GPUs and network interfaces of a pod, which prefers to have all on one NUMA node."""


def gang_satisfying(machines: Mapping[str, Devices], pods: Sequence[Wanted]) -> tuple[bool, bool]:
    """Exhaustive search: True if all pods get devices, and if they can so that all preferences hold."""
    options: list[list[tuple[frozenset[tuple[str, int]], bool]]] = []
    for gpus, nics in pods:
        found = []
        for name, devices in machines.items():
            places = {kind: [at for at, (one, _) in enumerate(devices) if one == kind] for kind in ("gpu", "nic")}
            for chosen in product(combinations(places["gpu"], gpus), combinations(places["nic"], nics)):
                taken = [*chosen[0], *chosen[1]]
                near = len({devices[at][1] for at in taken}) == 1
                found.append((frozenset((name, at) for at in taken), near))
        options.append(found)
    fits = holds = False
    for choice in product(*options):
        if sum(len(taken) for taken, _ in choice) == len(
            frozenset[tuple[str, int]]().union(*(one for one, _ in choice))
        ):
            fits = True
            holds |= all(near for _, near in choice)
    return fits, holds


@settings(max_examples=40, deadline=None)
@given(
    machines=st.lists(DEVICES, min_size=1, max_size=2),
    pods=st.lists(st.tuples(st.integers(1, 2), st.integers(0, 1)), min_size=2, max_size=3),
)
def test_all_preferences_of_a_gang_hold_if_they_can_and_never_change_what_fits(
    machines: list[Devices], pods: list[Wanted]
) -> None:
    named = {f"n{number}": devices for number, devices in enumerate(machines)}
    fits, can_hold = gang_satisfying(named, pods)

    async def body(world: World) -> None:
        await make_group(world, "g", gang(len(pods)))
        await world.create(*classes(), *map(node, named), *(machine(name, there) for name, there in named.items()))
        names = [f"p{number}" for number in range(len(pods))]
        for name, (gpus, nics) in zip(names, pods, strict=True):
            preferred = {**NUMA, "requests": ["gpu", "nic"][: 1 + bool(nics)]}
            await world.create(asking(name, gpus, nics, preferred))
        await world.create(*(member(name, resourceClaims=[{"name": "c", "resourceClaimName": name}]) for name in names))
        await world.elapse(2)
        found = [await given_devices(world, name) for name in names]
        assert [bool(one) for one in found] == [fits] * len(pods)
        numas = [{named[pool][int(device.partition("-")[2])][1] for pool, device in one} for one in found]
        if can_hold:
            assert all(len(one) == 1 for one in numas)

    play(body, gates=GATES, configuration=joint())


@run_with(lambda test: play(test, release="1.35", configuration=joint()))
async def test_preferences_hold_in_releases_without_groups_too(world: World) -> None:
    await world.create(*classes(), node("n"), machine("n", FAR_FIRST))
    await world.create(asking("a", 1, 1, NUMA), user("a"))
    await world.bound("a")
    assert await given_devices(world, "a") == [("n", "gpu-1"), ("n", "nic-2")]
