"""Pods of a gang near each other: sets of nodes by label or by an attribute of devices."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import Node
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import ResourceSlice
from cathedra.api.struct import from_dict, replace
from cathedra.scheduler.configuration.reading import ConfigurationError, read_configuration
from tests.unit.scheduler.objects import node
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


async def annotated(world: World, name: str, value: str) -> None:
    await make_group(world, "g", gang(2))
    stored = await world.api(PodGroup).get("g")
    metadata = replace(stored.metadata, annotations={f"scheduling.cathedra.dev/{name}": value})
    await world.api(PodGroup).update(replace(stored, metadata=metadata))


def test_all_pods_get_nodes_with_one_value_of_a_label() -> None:
    async def body(world: World) -> None:
        await annotated(world, "same-node-label", "rack")
        await world.create(*racks(), member("a", cpu="2"), member("b", cpu="2"))
        await world.bound("a", "b")
        assert {name[0] for name in await places(world, "ab")} == {"y"}

    play(body, gates=GATES, configuration=joint())


@pytest.mark.parametrize(("note", "bound"), [("same-node-label", False), ("prefer-same-node-label", True)])
def test_what_is_preferred_is_given_up_and_what_is_required_is_not(note: str, bound: bool) -> None:
    async def body(world: World) -> None:
        await annotated(world, note, "rack")
        await world.create(*racks()[:3], member("a", cpu="2"), member("b", cpu="2"))
        await world.elapse(3)
        assert all(await places(world, "ab")) is bound

    play(body, gates=GATES, configuration=joint())


def fabric(name: str, *domains: str) -> ResourceSlice:
    """The slice of a node with a device in each of these domains."""
    devices = [
        {"name": f"gpu-{number}", "attributes": {"domain": {"string": domain}}} for number, domain in enumerate(domains)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": devices}
    return from_dict(ResourceSlice, {"metadata": {"name": name}, "spec": spec})


def test_all_pods_get_nodes_whose_devices_have_one_value_of_an_attribute() -> None:
    async def body(world: World) -> None:
        await annotated(world, "same-device-attribute", "gpu.example.com/domain")
        # A node with devices of two domains is in none.
        await world.create(fabric("x1", "one"), fabric("x2", "two", "one"), fabric("y1", "two"), fabric("y2", "two"))
        await world.create(*racks(), member("a", cpu="2"), member("b", cpu="2"))
        await world.bound("a", "b")
        assert set(await places(world, "ab")) <= {"y1", "y2"}

    play(body, gates=GATES, configuration=joint())


@pytest.mark.parametrize("trials", ["0", "100001"])
def test_a_bound_out_of_range_is_refused(trials: str) -> None:
    with pytest.raises(ConfigurationError, match=r"maxTrials: Invalid value: .*not in valid range"):
        read_configuration(TEXT.replace("TRIALS", trials))
