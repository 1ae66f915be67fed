"""How many devices of a class a node has, and how many are in use."""

from __future__ import annotations

import pytest

from cathedra.allocation import DeviceUsage, Occupancy
from cathedra.api.resource import DeviceClass
from cathedra.api.struct import from_dict
from tests.unit.allocation.building import World, device, held, node, resource_slice


def of_class(*expressions: str) -> DeviceClass:
    selectors = [{"cel": {"expression": text}} for text in expressions]
    return from_dict(DeviceClass, {"metadata": {"name": "c"}, "spec": {"selectors": selectors}})


def usage(world: World, device_class: DeviceClass, name: str = "n0") -> DeviceUsage:
    return Occupancy(world.allocator()).of(node(name), device_class)


def test_devices_of_the_node_are_counted_with_those_in_use() -> None:
    here = resource_slice("a", "b", "c", name="s0", node="n0", pool="n0")
    there = resource_slice("a", name="s1", node="n1", pool="n1")
    world = World([here, there], [held("b", pool="n0")])
    assert usage(world, of_class()) == (3, 1)
    assert usage(world, of_class(), "n1") == (1, 0)
    assert usage(world, of_class(), "n2") == (0, 0)


def test_a_device_that_several_claims_share_is_one_in_use() -> None:
    shared = resource_slice(device("a", allowMultipleAllocations=True), "b", name="s0", node="n0", pool="n0")
    holders = [held(pool="n0", name=name, shares={"a": {"memory": 1}}) for name in ("one", "two")]
    assert usage(World([shared], holders), of_class()) == (2, 1)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('device.driver == "another.test"', (0, 0)),
        ("true", (2, 1)),
        ('device.attributes["no.such"].missing == 1', (0, 0)),
        ("not CEL at all", (0, 0)),
    ],
)
def test_only_devices_that_the_class_selects_count(expression: str, expected: tuple[int, int]) -> None:
    world = World([resource_slice("a", "b", name="s0", node="n0", pool="n0")], [held("a", pool="n0")])
    assert usage(world, of_class(expression)) == expected


def test_devices_that_choose_their_nodes_count_where_they_can_be_reached() -> None:
    one = resource_slice(
        device("a", nodeName="n0"),
        device("b", nodeName="n1"),
        device("c", allNodes=True),
        node=None,
        perDeviceNodeSelection=True,
    )
    assert usage(World([one]), of_class()) == (2, 0)
