"""Rules of one device."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.quantity import Quantity
from cathedra.api.resource import CapacityRequestPolicy, Device, DeviceAttribute
from cathedra.api.struct import from_dict
from cathedra.kinds.resource.slices.devices import (
    DeviceRules,
    is_node_resource,
    shortened,
    validate_attribute,
    validate_mappings,
    validate_node_resources,
    validate_policy,
)
from cathedra.releases import FeatureGates
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


GATES = {release: gates(release) for release in ("1.36", "1.37")}


def problems_of_capacity(value: str = "10", release: str = "1.37", **policy: Any) -> list[str]:
    errors = ErrorList()
    made = from_dict(CapacityRequestPolicy, policy)
    validate_policy(errors, FieldPath("p"), made, Quantity(value), GATES[release])
    return texts(errors)


def begin(found: list[str], *wanted: str) -> None:
    assert len(found) == len(wanted), found
    assert all(text.startswith(beginning) for text, beginning in zip(found, wanted, strict=True)), found


def test_a_policy_may_say_nothing_at_all() -> None:
    assert problems_of_capacity() == problems_of_capacity(default="3") == []


def test_a_policy_lists_values_or_bounds_them() -> None:
    begin(
        problems_of_capacity(default="1", validRange={"min": "1"}, validValues=["1"]),
        "p: Forbidden: exactly one policy can be",
    )


@pytest.mark.parametrize(
    ("values", "default", "wanted"),
    [
        (["1", "2"], "1", []),
        (["1", "2"], "3", ['p.validValues: Invalid value: "3": default value is not valid according to']),
        (["1"], None, ["p.default: Required value: required when validValues is defined"]),
        (["2", "1"], "1", ['p.validValues[1]: Invalid value: "1": values must be sorted in ascending order']),
        (["1", "11"], "1", ['p.validValues[1]: Invalid value: "11": option is larger than capacity value: 10']),
        (["1", "1"], "1", ['p.validValues[1]: Duplicate value: "1"']),
        (
            ["1", "1", "11"],
            "1",
            [
                'p.validValues[2]: Invalid value: "11": option is larger than capacity value: 10',
                'p.validValues[1]: Duplicate value: "1"',
            ],
        ),
        (["1000m", "1"], "1", ['p.validValues[1]: Duplicate value: "1"']),
        ([str(n) for n in range(1, 12)], "1", ["p.validValues: Too many: 11: must have at most 10 items"]),
    ],
)
def test_values_rise_fit_the_capacity_and_hold_the_default(
    values: list[str], default: str | None, wanted: list[str]
) -> None:
    begin(
        problems_of_capacity(
            "11" if len(values) == 11 else "10", validValues=values, **({"default": default} if default else {})
        ),
        *wanted,
    )


def test_the_gate_of_fractional_ranges_decides_whether_fractions_count() -> None:
    """DRAFractionalCapacityRange is on by default; without it amounts are rounded to whole units."""
    values = from_dict(CapacityRequestPolicy, {"default": "1100m", "validValues": ["1100m", "1200m"]})
    steps = from_dict(CapacityRequestPolicy, {"default": "1500m", "validRange": {"min": "1", "step": "500m"}})
    for on, wanted in ((True, []), (False, ['p.validValues[1]: Duplicate value: "2"'])):
        gates = FeatureGates.for_release("1.37", {"DRAFractionalCapacityRange": on})
        errors = ErrorList()
        validate_policy(errors, FieldPath("p"), values, Quantity("10"), gates)
        assert texts(errors) == wanted
        errors = ErrorList()
        validate_policy(errors, FieldPath("p"), steps, Quantity("10"), gates)
        assert (texts(errors) == []) or not on


def test_values_that_differ_in_fractions_were_equal_before_137() -> None:
    values = {"default": "1100m", "validValues": ["1100m", "1200m"]}
    assert problems_of_capacity(**values) == []
    assert problems_of_capacity(release="1.36", **values) == ['p.validValues[1]: Duplicate value: "2"']


@pytest.mark.parametrize(
    ("bounds", "default", "wanted"),
    [
        ({"min": "1", "max": "4", "step": "1"}, "1", []),
        ({"min": "1"}, None, ["p.default: Required value: required when validRange is defined"]),
        ({"max": "4"}, "1", ["p.validRange.min: Required value: required when validRange is defined"]),
        ({"min": "11"}, "11", ['p.validRange.min: Invalid value: "11": min is larger than capacity value: 10']),
        ({"min": "2"}, "1", ['p.validRange.default: Invalid value: "1": default is less than min: 2']),
        (
            {"min": "2", "max": "1"},
            "2",
            ['p.validRange.max: Invalid value: "2": min is larger than max: 1', "p.validRange.default"],
        ),
        ({"min": "1", "max": "11"}, "1", ['p.validRange.max: Invalid value: "11": max is larger than capacity value']),
        ({"min": "1", "max": "2"}, "3", ['p.validRange.default: Invalid value: "3": default is more than max: 2']),
        ({"min": "1", "step": "0"}, "1", ['p.validRange.step: Invalid value: "0": must be greater than zero']),
        ({"min": "1", "step": "-1"}, "1", ['p.validRange.step: Invalid value: "-1": must be greater than zero']),
        ({"min": "1", "step": "10"}, "1", ['p.validRange.step: Invalid value: "10": one step 11 is larger than capac']),
        ({"min": "1", "step": "2"}, "2", ['p.validRange.step: Invalid value: "2": value is not a multiple of a given']),
        (
            {"min": "1", "max": "4", "step": "2"},
            "1",
            ['p.validRange.step: Invalid value: "4": value is not a multiple'],
        ),
    ],
)
def test_a_range_fits_the_capacity_and_holds_the_default_on_a_step(
    bounds: dict[str, str], default: str | None, wanted: list[str]
) -> None:
    begin(problems_of_capacity(validRange=bounds, **({"default": default} if default else {})), *wanted)


def test_a_default_out_of_range_was_told_at_the_bound_before_137() -> None:
    begin(
        problems_of_capacity(release="1.36", default="1", validRange={"min": "2"}),
        'p.validRange.min: Invalid value: "1"',
    )
    begin(
        problems_of_capacity(release="1.36", default="3", validRange={"min": "1", "max": "2"}),
        'p.validRange.max: Invalid value: "3"',
    )


@given(st.integers(0, 5), st.integers(0, 20), st.integers(1, 5), st.integers(0, 12))
def test_a_range_accepts_just_the_defaults_that_it_would_give(least: int, most: int, step: int, times: int) -> None:
    """A policy is accepted if and only if its default is a request that the policy itself lets through."""
    default = least + step * times
    bounds = {"min": str(least), "max": str(most), "step": str(step)}
    found = problems_of_capacity("100", default=str(default), validRange=bounds)
    sound = least <= default <= most and (most - least) % step == 0
    assert (found == []) is sound


@given(st.integers(1, 40), st.integers(1, 40))
def test_fractions_of_a_step_count_since_137(default: int, step: int) -> None:
    found = problems_of_capacity("100", default=f"{default}m", validRange={"min": "0", "step": f"{step}m"})
    assert (found == []) is (default % step == 0)


@pytest.mark.parametrize(
    ("default", "bounds", "wanted"),
    [
        ("1", {"min": "1", "step": "3"}, []),
        ("500m", {"min": "500m", "step": "250m", "max": "2"}, []),
        (
            "600m",
            {"min": "500m", "step": "250m"},
            ['p.validRange.step: Invalid value: "600m": value is not a multiple'],
        ),
        ("1500m", {"min": "1", "step": "1"}, ['p.validRange.step: Invalid value: "1500m": value is not a multiple']),
        (
            "1u",
            {"min": "1u", "step": "1"},
            [
                'p.validRange.default: Invalid value: "1u": value cannot be represented as a milli value',
                'p.validRange.min: Invalid value: "1u": value cannot be represented as a milli value',
            ],
        ),
        (
            "1",
            {"min": "-1", "step": "2"},
            ['p.validRange.min: Invalid value: "-1": must be greater than or equal to 0'],
        ),
        (
            "1",
            {"min": "1", "step": "10E"},
            [
                'p.validRange.step: Invalid value: "10E": one step 10000000000000000001 is larger than capacity value',
                'p.validRange.step: Invalid value: "10E": must not be larger than 9223372036854775807',
            ],
        ),
    ],
)
def test_steps_of_137_are_counted_in_thousandths_where_something_is_a_fraction(
    default: str, bounds: dict[str, str], wanted: list[str]
) -> None:
    begin(problems_of_capacity(default=default, validRange=bounds), *wanted)


def test_what_is_twice_among_the_values_is_shown_without_a_suffix() -> None:
    begin(
        problems_of_capacity("4Ki", default="1Ki", validValues=["1Ki", "1024"]),
        'p.validValues[1]: Duplicate value: "1024"',
    )
    begin(
        problems_of_capacity("4", default="1", validValues=["1", "1500m", "1.5"]),
        'p.validValues[2]: Duplicate value: "1.5"',
    )


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
