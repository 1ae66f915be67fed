"""Pods of a gang near each other: sets of nodes by label or by an attribute of devices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import DeviceAttribute, ResourceClaim, ResourceSlice
from cathedra.api.struct import from_dict, replace
from cathedra.scheduler.configuration.reading import ConfigurationError, read_configuration
from tests.running import run_with
from tests.unit.scheduler.objects import claim, device_class, exactly, node, slice_
from tests.unit.scheduler.test_jointsearch import TEXT, joint
from tests.unit.scheduler.test_unitcycle import GATES, gang, make_group, member, places
from tests.unit.scheduler.world import World, play


def racks() -> list[Node]:
    """Two racks: in the first only one node has room for a pod of two CPUs."""
    return [
        node("x1", cpu="2", labels={"rack": "x"}),
        node("x2", cpu="1", labels={"rack": "x"}),
        node("y1", cpu="2", labels={"rack": "y"}),
        node("y2", cpu="2", labels={"rack": "y"}),
    ]


async def annotated(world: World, name: str, value: str, least: int = 2) -> None:
    await make_group(world, "g", gang(least))
    stored = await world.api(PodGroup).get("g")
    metadata = replace(stored.metadata, annotations={f"scheduling.cathedra.dev/{name}": value})
    await world.api(PodGroup).update(replace(stored, metadata=metadata))


@run_with(lambda test: play(test, gates=GATES, configuration=joint()))
async def test_all_pods_get_nodes_with_one_value_of_a_label(world: World) -> None:
    await annotated(world, "same-node-label", "rack")
    await world.create(*racks(), member("a", cpu="2"), member("b", cpu="2"))
    await world.bound("a", "b")
    assert {name[0] for name in await places(world, "ab")} == {"y"}


@pytest.mark.parametrize(("note", "bound"), [("same-node-label", False), ("prefer-same-node-label", True)])
@run_with(lambda test: play(test, gates=GATES, configuration=joint()))
async def test_what_is_preferred_is_given_up_and_what_is_required_is_not(
    world: World, *, note: str, bound: bool
) -> None:
    await annotated(world, note, "rack")
    await world.create(*racks()[:3], member("a", cpu="2"), member("b", cpu="2"))
    await world.elapse(3)
    assert all(await places(world, "ab")) is bound


def fabric(name: str, *domains: str) -> ResourceSlice:
    """The slice of a node with a device in each of these domains."""
    devices = [
        {"name": f"gpu-{number}", "attributes": {"domain": {"string": domain}}} for number, domain in enumerate(domains)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": devices}
    return from_dict(ResourceSlice, {"metadata": {"name": name}, "spec": spec})


@run_with(lambda test: play(test, gates=GATES, configuration=joint()))
async def test_all_pods_get_nodes_whose_devices_have_one_value_of_an_attribute(world: World) -> None:
    await annotated(world, "same-device-attribute", "gpu.example.com/domain")
    # A node with devices of two domains is in both, and the one in domain two has no room for another pod.
    await world.create(fabric("x1", "one"), fabric("x2", "two", "one"), fabric("y1", "two"), fabric("y2", "two"))
    await world.create(*racks(), member("a", cpu="2"), member("b", cpu="2"))
    await world.bound("a", "b")
    assert set(await places(world, "ab")) <= {"y1", "y2"}


def asking(name: str, count: int = 1, mode: str = "ExactCount") -> ResourceClaim:
    exact = {"deviceClassName": "gpu", "allocationMode": mode, **({"count": count} if mode == "ExactCount" else {})}
    return claim(name, {"name": "gpu", "exactly": exact})


def user(name: str, **spec: Any) -> Pod:
    return member(name, resourceClaims=[{"name": "c", "resourceClaimName": name}], **spec)


async def devices_of(world: World, name: str) -> list[tuple[str, int]]:
    """Return the node and the number of each device of a claim."""
    allocation = (await world.api(ResourceClaim).get(name)).status.allocation
    found = () if allocation is None else allocation.devices.results
    return [(one.pool, int(one.device.removeprefix("gpu-"))) for one in found]


@run_with(lambda test: play(test, gates=GATES, configuration=joint()))
async def test_devices_within_a_node_have_the_value_too(world: World) -> None:
    await annotated(world, "same-device-attribute", "gpu.example.com/domain")
    # Kubernetes would take the first device of each node.
    await world.create(device_class(), fabric("m", "one", "two"), fabric("n", "three", "two"), node("m"), node("n"))
    await world.create(asking("a"), asking("b"), *(user(name, cpu="3") for name in "ab"))
    await world.bound("a", "b")
    assert [(await devices_of(world, name))[0][1] for name in "ab"] == [1, 1]


@run_with(lambda test: play(test, gates=GATES, configuration=joint()))
async def test_a_preferred_attribute_is_given_up_within_nodes_too(world: World) -> None:
    await annotated(world, "prefer-same-device-attribute", "gpu.example.com/domain")
    await world.create(device_class(), fabric("n", "one", "two"), node("n"), asking("a"), asking("b"))
    await world.create(user("a"), user("b"))
    await world.bound("a", "b")


@run_with(lambda test: play(test, gates=GATES, configuration=joint()))
async def test_devices_of_other_drivers_are_not_compared(world: World) -> None:
    await annotated(world, "same-device-attribute", "gpu.example.com/domain")
    await world.create(device_class(), device_class("nic", "nic.example.com"), fabric("n", "one", "two"), node("n"))
    await world.create(slice_("n", 2, driver="nic.example.com"))
    both = [claim(name, exactly(), exactly("nic", "nic")) for name in "ab"]
    await world.create(*both, user("a"), user("b"))
    await world.elapse(3)
    # Each domain has one GPU on the only node.
    assert await places(world, "ab") == ["", ""]
    await world.create(fabric("m", "two"), slice_("m", 1, driver="nic.example.com"), node("m"))
    await world.bound("a", "b")
    assert {pool for name in "ab" for pool, _ in [(await gpu_of(world, name))]} == {"m", "n"}


async def gpu_of(world: World, name: str) -> tuple[str, str]:
    allocation = (await world.api(ResourceClaim).get(name)).status.allocation
    assert allocation is not None
    (found,) = (one for one in allocation.devices.results if one.driver == "gpu.example.com")
    assert found.device == {"n": "gpu-1", "m": "gpu-0"}[found.pool]
    return found.pool, found.device


@run_with(lambda test: play(test, gates=GATES, configuration=joint()))
async def test_a_claim_for_all_devices_gets_a_node_whose_devices_have_one_value(world: World) -> None:
    await annotated(world, "same-device-attribute", "gpu.example.com/domain")
    await world.create(device_class(), node("m"), node("n"), node("o"))
    await world.create(fabric("m", "one", "two"), fabric("n", "two", "two"), fabric("o", "two"))
    await world.create(asking("a", mode="All"), asking("b"), user("a"), user("b"))
    await world.bound("a", "b")
    assert set(await places(world, "ab")) == {"n", "o"}


@run_with(lambda test: play(test, gates=GATES, configuration=joint()))
async def test_pods_that_run_decide_the_value_for_those_that_come_later(world: World) -> None:
    await annotated(world, "same-device-attribute", "gpu.example.com/domain")
    await world.create(device_class(), fabric("m", "one", "two", "one"), node("m"), asking("a"), asking("b"))
    await world.create(user("a"), user("b"))
    await world.bound("a", "b")
    assert sorted([await devices_of(world, name) for name in "ab"]) == [[("m", 0)], [("m", 2)]]
    await world.create(asking("c"), user("c"))
    await world.elapse(3)
    # The free device has another value.
    assert await world.node_of("c") == ""


@run_with(lambda test: play(test, gates={**GATES, "DRAListTypeAttributes": True}, configuration=joint()))
async def test_a_device_with_a_list_of_values_is_in_each_of_these_domains(world: World) -> None:
    await annotated(world, "same-device-attribute", "gpu.example.com/domain")
    several = fabric("m", "one", "two")
    listed = {"domain": DeviceAttribute(strings=("two", "three"))}
    devices = tuple(replace(one, attributes=listed) for one in fabric("n", "any").spec.devices or ())
    other = replace(fabric("n"), spec=replace(fabric("n").spec, devices=devices))
    await world.create(device_class(), several, other, node("m"), node("n"), asking("a"), asking("b"))
    await world.create(user("a", cpu="3"), user("b", cpu="3"))
    await world.bound("a", "b")
    assert sorted([*await devices_of(world, "a"), *await devices_of(world, "b")]) == [("m", 1), ("n", 0)]


def fit_in_one_domain(nodes: Sequence[Sequence[str]], counts: Sequence[int]) -> bool:
    """Exhaustive search: values of the devices of each node, and devices per pod."""
    for value in {one for devices in nodes for one in devices}:
        free = [devices.count(value) for devices in nodes]
        for chosen in product(range(len(nodes)), repeat=len(counts)):
            taken = [sum(count for count, at in zip(counts, chosen, strict=True) if at == n) for n in range(len(nodes))]
            if all(used <= room for used, room in zip(taken, free, strict=True)):
                return True
    return False


@pytest.mark.parametrize("note", ["same-device-attribute", "prefer-same-device-attribute"])
@settings(max_examples=40, deadline=None)
@given(
    nodes=st.lists(st.lists(st.sampled_from("xyz"), min_size=1, max_size=5), min_size=1, max_size=3),
    counts=st.lists(st.integers(1, 3), min_size=2, max_size=3),
)
def test_a_gang_fits_in_one_domain_if_exhaustive_search_says_so(
    note: str, nodes: list[list[str]], counts: list[int]
) -> None:
    fits_so = fit_in_one_domain(nodes, counts)
    fits_anyhow = fit_in_one_domain([["x"] * len(devices) for devices in nodes], counts)

    async def body(world: World) -> None:
        await annotated(world, note, "gpu.example.com/domain", len(counts))
        await world.create(device_class(), *(node(f"n{at}") for at in range(len(nodes))))
        await world.create(*(fabric(f"n{at}", *devices) for at, devices in enumerate(nodes)))
        names = [f"p{number}" for number in range(len(counts))]
        await world.create(*map(asking, names, counts), *map(user, names))
        await world.elapse(2)
        found = [one for name in names for one in await devices_of(world, name)]
        assert len(found) == len(set(found))
        assert bool(found) is (fits_so if note == "same-device-attribute" else fits_anyhow)
        if fits_so:
            assert len({nodes[int(pool[1:])][number] for pool, number in found}) == 1
        if found:
            assert len(found) == sum(counts)

    play(body, gates=GATES, configuration=joint())


@pytest.mark.parametrize("trials", ["0", "100001"])
def test_a_bound_out_of_range_is_refused(trials: str) -> None:
    with pytest.raises(ConfigurationError, match=r"maxTrials: Invalid value: .*not in valid range"):
        read_configuration(TEXT.replace("TRIALS", trials))
