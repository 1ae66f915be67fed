"""The allocator as a library."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from cathedra.allocation import (
    Aborted,
    Allocation,
    Cluster,
    DeviceUsage,
    FatalError,
    InvalidInput,
    Occupancy,
    Refusal,
    allocate,
    fits,
    how_many,
)
from cathedra.api.core import core_v1
from cathedra.api.resource import DeviceClass
from cathedra.api.struct import from_dict, to_dict
from tests.unit.allocation.building import World, claim, device, exactly, held, node, resource_slice, rule

CLASS: dict[str, Any] = {"kind": "DeviceClass", "metadata": {"name": "c"}, "spec": {}}


def kind(name: str, one: Any) -> dict[str, Any]:
    """An object as a dump has it."""
    return {"kind": name, **to_dict(one)}


def cluster(*more: Any) -> Cluster:
    """Two nodes with two and one device."""
    return Cluster.of(
        [
            CLASS,
            {"kind": "Node", "metadata": {"name": "n1"}},
            {"kind": "Node", "metadata": {"name": "n2"}},
            resource_slice("a", "b", name="s1", node="n1", pool="n1"),
            resource_slice("a", name="s2", node="n2", pool="n2"),
            *more,
        ]
    )


def test_typed_objects_dicts_lists_and_yaml_mean_the_same() -> None:
    typed = resource_slice("a", name="s1", node="n1", pool="n1")
    asked = claim(exactly())
    as_dicts = [CLASS, {"kind": "Node", "metadata": {"name": "n1"}}, kind("ResourceSlice", typed)]
    as_list = {"kind": "List", "items": as_dicts}
    as_yaml = msgspec.yaml.encode(as_list).decode() + "---\n" + "kind: Pod\nmetadata: {name: ignored}\n"
    of_one_kind = {"kind": "ResourceSliceList", "items": [to_dict(typed)]}
    for objects in (as_dicts, as_list, as_yaml, [CLASS, of_one_kind]):
        made = Cluster.of(objects)
        for pod in (asked, kind("ResourceClaim", asked), msgspec.yaml.encode(kind("ResourceClaim", asked)).decode()):
            outcome = allocate("n1", pod, made)
            assert isinstance(outcome, Allocation)
            assert outcome.results[0].devices.results[0].device == "a"


def test_a_node_may_be_given_by_itself() -> None:
    made = cluster()
    node = from_dict(core_v1.Node, {"metadata": {"name": "n2"}})
    for given in (node, {"metadata": {"name": "n2"}}, "n2"):
        assert isinstance(allocate(given, claim(exactly("r", 1)), made), Allocation)
        assert isinstance(allocate(given, claim(exactly("r", 2)), made), Refusal)


def test_allocated_claims_of_a_dump_hold_their_devices() -> None:
    made = cluster(held("a", pool="n1"))
    assert fits(claim(exactly("r", 2)), made) == []
    made.remove(held("a", pool="n1"))
    assert fits(claim(exactly("r", 2)), made) == ["n1"]


def test_asking_changes_nothing() -> None:
    made = cluster()
    before = made.ledger.snapshot()
    assert how_many(claim(exactly()), made) == {"n1": 2, "n2": 1}
    assert allocate("n1", claim(exactly()), made)
    assert made.ledger.snapshot() is before


def test_copies_are_bounded_and_share_what_all_nodes_share() -> None:
    net = resource_slice(device("net", shareable=True, capacity={"bw": 3}), name="net", node=None, allNodes=True)
    asked = claim(exactly("r", 1, 'device.capacity["drv"].?bw.hasValue()', capacity={"bw": 1}))
    made = cluster(net)
    assert how_many(asked, made) == {"n1": 3}
    assert how_many(claim(exactly()), made, limit=1) == {"n1": 1}


def test_objects_can_be_replaced_and_removed() -> None:
    made = cluster(rule(pool="n1"))
    assert fits(claim(exactly()), made) == ["n2"]
    made.remove(rule(pool="n1"))
    made.add(resource_slice("a", name="s2", node="n2", pool="n2", generation=2))
    made.remove({"kind": "ResourceSlice", "metadata": {"name": "s1"}})
    assert fits(claim(exactly()), made) == ["n2"]
    made.remove(CLASS)
    with pytest.raises(FatalError, match="could not retrieve device class c"):
        fits(claim(exactly()), made)


def test_an_object_of_the_wrong_shape_says_where() -> None:
    with pytest.raises(InvalidInput, match=r"ResourceSlice s: .*ResourceSliceSpec\.spec\.driver of type string"):
        Cluster.of([{"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": {"driver": 7}}])


def test_the_package_needs_no_event_loop_and_no_server() -> None:
    code = (
        "import sys, cathedra.allocation\n"
        "heavy = ('asyncio', 'aiohttp', 'httptools', 'grpc', 'yaml', 're2', 'ssl')\n"
        "print([name for name in heavy if name in sys.modules])\n"
        "print([name for name in sys.modules if name.startswith('cathedra.') and name.split('.')[1] "
        "not in ('allocation', 'api', 'cel', 'deadline', 'releases', 'remembering', 'semantics')])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["[]", "[]"]


# How many states a search has seen by then depends on how busy the machine is.
_STOPPED = r"node n\d: the search was stopped (after \d+ states? )?in 0.1 s"


def test_a_call_ends_with_its_time() -> None:
    """A refusal names the time-out; answers that are lists or numbers have none."""
    cube = str(list(range(18)))
    slow = f"{cube}.all(a, {cube}.all(b, {cube}.all(c, a + b + c >= 0 || device.driver == 'x')))"
    asked = claim(exactly("r", 1, f'{slow} && device.attributes["drv"].n >= 0'))
    made = resource_slice(*(device(f"d{n}", attributes={"n": n}) for n in range(100)), name="s3", node="n3", pool="n3")
    known = cluster({"kind": "Node", "metadata": {"name": "n3"}}, made)
    answer = allocate("n3", asked, known, timeout=0.1)
    assert isinstance(answer, Refusal)
    assert str(answer).startswith("n3: stopped ")
    assert str(answer).endswith(": 1 request")
    with pytest.raises(Aborted, match=_STOPPED):
        fits(claim(exactly("r", 1, f'{slow} && device.attributes["drv"].n >= 1'), name="other"), known, timeout=0.1)
    with pytest.raises(Aborted, match=_STOPPED):
        how_many(claim(exactly("r", 1, f'{slow} && device.attributes["drv"].n >= 2'), name="third"), known, timeout=0.1)


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
