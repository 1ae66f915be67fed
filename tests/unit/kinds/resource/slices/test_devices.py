"""Rules of one device."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.resource import Device, DeviceAttribute
from cathedra.api.struct import from_dict
from cathedra.kinds.resource.slices.devices import (
    DeviceRules,
    is_node_resource,
    shortened,
    validate_attribute,
    validate_mappings,
    validate_node_resources,
)
from tests.unit.kinds.objects import context, gates, texts

ALL = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to"


def made(**values: Any) -> Device:
    return from_dict(Device, {"name": "d", **values})


def problems(
    device: Device, old: Device | None = None, *, release: str = "1.37", per_device_nodes: bool = False
) -> list[str]:
    errors = ErrorList()
    DeviceRules(context(release), per_device_nodes=per_device_nodes).validate(errors, FieldPath("d"), device, old)
    return texts(errors)


def test_a_device_is_named_like_a_label() -> None:
    assert problems(made()) == []
    (text,) = problems(made(name="A"))
    assert text.startswith('d.name: Invalid value: "A": a lowercase RFC 1123 label')


def test_attributes_and_capacities_are_limited_together() -> None:
    attributes = {f"a{n}": {"int": n} for n in range(30)}
    assert problems(made(attributes=attributes, capacity={f"c{n}": {"value": "1"} for n in range(2)})) == []
    assert problems(made(attributes=attributes, capacity={f"c{n}": {"value": "1"} for n in range(3)})) == [
        "d: Invalid value: 33: the total number of attributes and capacities must not exceed 32"
    ]


def test_values_of_attributes_are_limited_together() -> None:
    assert problems(made(attributes={"a": {"ints": list(range(40))}, "b": {"ints": list(range(8))}})) == []
    assert problems(made(attributes={"a": {"ints": list(range(48))}, "b": {"int": 1}})) == [
        "d: Invalid value: 49: the total number of attribute values must not exceed 48"
    ]


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ({"nodeName": "n"}, []),
        ({"allNodes": True}, []),
        ({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}, []),
        ({}, [f"d: Required value: {ALL}"]),
        ({"nodeName": ""}, ['d.nodeName: Invalid value: "": must not be empty', "d: Required value"]),
        ({"nodeName": "A"}, ['d.nodeName: Invalid value: "A"']),
        ({"allNodes": False}, ["d.allNodes: Invalid value: false: must be either unset or set to true", "d: Required"]),
        ({"nodeName": "n", "allNodes": True}, [f'd: Invalid value: "{{`nodeName`, `allNodes`}}": {ALL}']),
    ],
)
def test_where_each_device_says_its_nodes_it_says_them_once(nodes: dict[str, Any], wanted: list[str]) -> None:
    found = problems(made(**nodes), per_device_nodes=True)
    assert len(found) == len(wanted), found
    assert all(text.startswith(beginning) for text, beginning in zip(found, wanted, strict=True)), found


def test_a_device_says_its_nodes_where_its_slice_lets_it() -> None:
    for nodes in ({"nodeName": "n"}, {"allNodes": False}):
        (text,) = problems(made(**nodes))
        assert text.startswith("d: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if")


POLICY = {"m": {"value": "1", "requestPolicy": {"default": "2", "validValues": ["1"]}}}


def test_a_policy_is_for_devices_that_are_shared() -> None:
    assert problems(made(capacity=POLICY)) == [
        "d.capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true"
    ]
    (text,) = problems(made(capacity=POLICY, allowMultipleAllocations=True))
    assert text.startswith("d.capacity[m].requestPolicy.validValues: Invalid value: ")


def test_what_did_not_change_is_not_looked_at_again() -> None:
    """Rules become stricter with releases, and drivers must be able to write their stored slices."""
    stored = made(capacity=POLICY, taints=[{"key": "k", "effect": "Bad"}])
    assert problems(stored, stored) == []
    assert len(problems(stored, made())) == 2
    assert len(problems(stored, stored, release="1.34")) == 2


def attribute(release: str = "1.37", **values: Any) -> list[str]:
    errors = ErrorList()
    validate_attribute(errors, FieldPath("a"), from_dict(DeviceAttribute, values), gates(release))
    return texts(errors)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({"int": 0}, []),
        ({"bool": False}, []),
        ({"string": ""}, []),
        ({"version": "1.2.3"}, []),
        ({"strings": ["a", "b"]}, []),
        ({"version": "v1.2.3"}, ['a.version: Invalid value: "v1.2.3"']),
        ({"string": "é" * 33}, ["a.string: Too long: may not be more than 64 bytes"]),
        ({"strings": ["a", "x" * 65]}, ["a.strings[1]: Too long: may not be more than 64 bytes"]),
        ({"versions": ["1.2.3", "1"]}, ['a.versions[1]: Invalid value: "1"']),
        ({"int": 1, "ints": [1]}, ["a: Invalid value: {"]),
    ],
)
def test_an_attribute_has_one_value_of_a_form(values: dict[str, Any], wanted: list[str]) -> None:
    found = attribute(**values)
    assert len(found) == len(wanted), found
    assert all(text.startswith(beginning) for text, beginning in zip(found, wanted, strict=True)), found


def test_an_attribute_without_a_value_is_told_in_the_words_of_the_release() -> None:
    assert attribute() == ['a: Invalid value: "": exactly one value must be specified']
    assert attribute("1.34") == ["a: Required value: exactly one value must be specified"]


@given(st.text(max_size=200), st.integers(8, 120))
def test_a_key_in_a_path_keeps_both_its_ends(key: str, limit: int) -> None:
    shown, half = shortened(key, limit), (limit - 3) // 2
    if len(key) <= limit:
        assert shown == key
    else:
        assert shown == key[:half] + "..." + key[-half:]
        assert limit - 1 <= len(shown) <= limit


CAPACITY = {"m": {"value": "1"}}


def device(**values: Any) -> Device:
    return from_dict(Device, {"name": "d", "capacity": CAPACITY, **values})


@pytest.mark.parametrize(
    ("name", "own"), [("cpu", True), ("hugepages-2Mi", True), ("kubernetes.io/x", True), ("example.com/gpu", False)]
)
def test_a_node_has_resources_of_its_own(name: str, own: bool) -> None:
    assert is_node_resource(name) is own


def mapped(name: str = "cpu", **mapping: Any) -> list[str]:
    errors = ErrorList()
    validate_mappings(errors, FieldPath("m"), device(nodeAllocatableResourceMappings={name: mapping}))
    return texts(errors)


@pytest.mark.parametrize(
    ("mapping", "wanted"),
    [
        ({}, []),
        ({"capacityKey": "m", "allocationMultiplier": "2"}, []),
        ({"capacityKey": ""}, ['m[cpu].capacityKey: Invalid value: "": capacityKey must not be an empty string']),
        ({"capacityKey": "z"}, ['m[cpu].capacityKey: Not found: "z"']),
        ({"allocationMultiplier": "0"}, ['m[cpu].allocationMultiplier: Invalid value: "0": must be positive']),
    ],
)
def test_a_mapping_of_136_is_checked(mapping: dict[str, str], wanted: list[str]) -> None:
    assert mapped(**mapping) == wanted


def test_a_mapping_of_136_is_of_a_nodes_own_resource() -> None:
    assert mapped("a.b/c") == ['m[a.b/c]: Invalid value: "a.b/c": must be a node allocatable resource name']


def taken(name: str = "cpu", **values: Any) -> list[str]:
    errors = ErrorList()
    validate_node_resources(errors, FieldPath("m"), device(nodeAllocatableResources={name: values}))
    return texts(errors)


@pytest.mark.parametrize(
    ("mapping", "wanted"),
    [
        ({"deviceMultiplier": "2"}, []),
        ({"capacityKey": "m", "capacityMultiplier": "1"}, []),
        (
            {"capacityKey": "m"},
            ["mapping.capacityMultiplier: Required value: capacityMultiplier is required when capacityKey is set"],
        ),
        (
            {"deviceMultiplier": "1", "capacityMultiplier": "1"},
            ["mapping.capacityKey: Required value: capacityKey is required when capacityMultiplier is set"],
        ),
        (
            {"capacityKey": "m", "capacityMultiplier": "-1"},
            ['mapping.capacityMultiplier: Invalid value: "-1": must be positive'],
        ),
        ({"deviceMultiplier": "0"}, ['mapping.deviceMultiplier: Invalid value: "0": must be positive']),
    ],
)
def test_a_mapping_is_by_device_or_by_capacity(mapping: dict[str, str], wanted: list[str]) -> None:
    found = taken(mapping=mapping)
    assert len(found) == len(wanted), found
    assert all(text.startswith(f"m[cpu].{beginning}") for text, beginning in zip(found, wanted, strict=True)), found


@pytest.mark.parametrize(
    ("overhead", "wanted"),
    [
        ({"perPod": "0"}, []),
        ({"perContainer": "1"}, []),
        ({}, ['overhead: Invalid value: "": at least one of perPod or perContainer must be set']),
        ({"perPod": "-1"}, ['overhead.perPod: Invalid value: "-1": must be non-negative']),
        ({"perPod": "1", "perContainer": "-1"}, ['overhead.perContainer: Invalid value: "-1": must be non-negative']),
    ],
)
def test_an_overhead_is_per_pod_or_per_container(overhead: dict[str, str], wanted: list[str]) -> None:
    found = taken(overhead=overhead)
    assert len(found) == len(wanted), found
    assert all(text.startswith(f"m[cpu].{beginning}") for text, beginning in zip(found, wanted, strict=True)), found


def test_what_is_named_is_taken() -> None:
    assert taken() == ["m[cpu]: Required value: at least one of mapping or overhead must be set"]
