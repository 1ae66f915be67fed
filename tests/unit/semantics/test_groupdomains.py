"""Sets of nodes of which a group of pods uses one."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.core_v1 import Node
from cathedra.api.resource import DeviceAttribute, ResourceSlice
from cathedra.api.struct import from_dict, replace
from cathedra.semantics.groupdomains import domains_by_attribute, domains_by_label, domains_by_value, single_values


def node(name: str, **labels: str) -> Node:
    return from_dict(Node, {"metadata": {"name": name, "labels": labels}})


def piece(values: list[str], key: str = "clique", **where: Any) -> ResourceSlice:
    devices = [{"name": f"d{place}", "attributes": {key: {"string": value}}} for place, value in enumerate(values)]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return from_dict(ResourceSlice, {"spec": {"driver": "d.example.com", "pool": pool, "devices": devices, **where}})


def test_nodes_with_one_value_of_a_label_are_a_domain_and_those_without_it_are_in_none() -> None:
    nodes = [node("a", rack="1"), node("b", rack="2"), node("c", rack="1"), node("d")]
    assert domains_by_label("rack", nodes) == [{"a", "c"}, {"b"}]


def test_nodes_whose_devices_have_one_value_of_an_attribute_are_a_domain() -> None:
    slices = [
        piece(["x", "x"], nodeName="a"),
        piece(["x"], "d.example.com/clique", nodeName="b"),
        piece(["x", "y"], nodeName="mixed"),
        piece(["y"], "other", nodeName="without"),
    ]
    assert domains_by_attribute("d.example.com/clique", slices, []) == [{"a", "b"}]
    # An attribute without a domain is that of the slice's driver.
    assert domains_by_attribute("e.example.com/clique", slices[:1], []) == []


def test_a_device_that_several_nodes_reach_counts_for_each_of_them() -> None:
    term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["1"]}]}
    slices = [piece(["x"], nodeSelector={"nodeSelectorTerms": [term]})]
    nodes = [node("a", rack="1"), node("b", rack="2"), node("c", rack="1")]
    assert domains_by_attribute("d.example.com/clique", slices, nodes) == [{"a", "c"}]
    assert domains_by_attribute("d.example.com/clique", [piece(["x"], allNodes=True)], nodes) == [{"a", "b", "c"}]


def test_a_node_is_in_the_domain_of_each_value_of_its_devices() -> None:
    slices = [piece(["x", "y"], nodeName="a"), piece(["y"], nodeName="b")]
    found = domains_by_value("d.example.com/clique", slices, [])
    assert [(one.value.string, one.drivers, one.lists, names) for one, names in found] == [
        ("x", ("d.example.com",), False, {"a"}),
        ("y", ("d.example.com",), False, {"a", "b"}),
    ]


def test_a_device_with_a_list_is_in_the_domain_of_each_element() -> None:
    listed = DeviceAttribute(strings=("x", "y"))
    assert [one.string for one in single_values(listed)] == ["x", "y"]
    one = piece(["x"], nodeName="a")
    devices = tuple(replace(device, attributes={"clique": listed}) for device in one.spec.devices or ())
    found = domains_by_value("d.example.com/clique", [replace(one, spec=replace(one.spec, devices=devices))], [])
    assert [(value.value.string, value.lists) for value, _ in found] == [("x", True), ("y", True)]
