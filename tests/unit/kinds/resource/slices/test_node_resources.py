"""Rules of what devices take from their node."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.resource import Device
from cathedra.api.struct import from_dict
from cathedra.kinds.resource.slices.node_resources import is_node_resource, validate_mappings, validate_node_resources
from tests.unit.kinds.objects import texts

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
