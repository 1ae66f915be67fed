"""Sets of nodes of which a group of pods uses one."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.core_v1 import Node
from cathedra.api.resource import DeviceAttribute, ResourceClaim, ResourceSlice
from cathedra.api.struct import from_dict, replace
from cathedra.semantics.groupdomains import (
    SAME_ATTRIBUTE,
    DomainRules,
    Domains,
    Members,
    domains_by_label,
    domains_by_value,
    single_values,
)


def node(name: str, **labels: str) -> Node:
    return from_dict(Node, {"metadata": {"name": name, "labels": labels}})


def piece(values: list[str], key: str = "clique", **where: Any) -> ResourceSlice:
    devices = [{"name": f"d{place}", "attributes": {key: {"string": value}}} for place, value in enumerate(values)]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return from_dict(ResourceSlice, {"spec": {"driver": "d.example.com", "pool": pool, "devices": devices, **where}})


def test_nodes_with_one_value_of_a_label_are_a_domain_and_those_without_it_are_in_none() -> None:
    nodes = [node("a", rack="1"), node("b", rack="2"), node("c", rack="1"), node("d")]
    assert domains_by_label("rack", nodes) == [{"a", "c"}, {"b"}]


def domains(slices: list[ResourceSlice], nodes: list[Node], name: str = "d.example.com/clique") -> Domains:
    """The nodes of each value of an attribute, for pods that use all devices of a node."""
    requests = [{"name": "all", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}]
    members = Members(claims=(from_dict(ResourceClaim, {"spec": {"devices": {"requests": requests}}}),))
    rules = DomainRules(nodes, slices, lambda claim: None, lambda result: None)
    (found,) = rules.required({SAME_ATTRIBUTE: name}, members)
    return [one.nodes for one in found if one.nodes]


def test_nodes_whose_devices_have_one_value_of_an_attribute_are_a_domain_of_pods_that_use_all_of_them() -> None:
    slices = [
        piece(["x", "x"], nodeName="a"),
        piece(["x"], "d.example.com/clique", nodeName="b"),
        piece(["x", "y"], nodeName="mixed"),
        piece(["y"], "other", nodeName="without"),
    ]
    assert domains(slices, []) == [{"a", "b"}]
    # An attribute without a domain is that of the slice's driver.
    assert domains(slices[:1], [], "e.example.com/clique") == []


def test_a_device_that_several_nodes_reach_counts_for_each_of_them() -> None:
    term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["1"]}]}
    slices = [piece(["x"], nodeSelector={"nodeSelectorTerms": [term]})]
    nodes = [node("a", rack="1"), node("b", rack="2"), node("c", rack="1")]
    assert domains(slices, nodes) == [{"a", "c"}]
    assert domains([piece(["x"], allNodes=True)], nodes) == [{"a", "b", "c"}]


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
