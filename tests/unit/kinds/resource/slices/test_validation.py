"""Rules of slices: where devices are, what they are like, what they draw from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api import resource
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.resource import Device, DeviceAttribute
from cathedra.api.struct import from_dict
from cathedra.kinds.resource.slices.validation import (
    DeviceRules,
    is_node_resource,
    shortened,
    validate_attribute,
    validate_mappings,
    validate_node_resources,
)
from tests.unit.kinds.objects import context, created, definition_of, device, gates, resource_slice, texts, updated

NODES = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"


def problems(made: resource.ResourceSlice, release: str = "1.37", **overrides: bool) -> list[str]:
    request = context(release, **overrides)
    return texts(created(definition_of("resourceslices", release).strategy, made, request)[1])


def begin(found: list[str], *wanted: str) -> None:
    assert len(found) == len(wanted), found
    assert all(text.startswith(beginning) for text, beginning in zip(found, wanted, strict=True)), found


def test_a_plain_slice_is_accepted() -> None:
    assert problems(resource_slice(device(attributes={"a": {"int": 1}}, capacity={"m": {"value": "1Gi"}}))) == []


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"nodeName": None}, [f"spec: Required value: {NODES}"]),
        ({"allNodes": True}, [f'spec: Invalid value: "{{`nodeName`, `allNodes`}}": {NODES}, but multiple fields']),
        ({"nodeName": None, "allNodes": False}, ["spec.allNodes: Invalid value: false", "spec: Required value"]),
        ({"driver": ""}, ["spec.driver: Required value"]),
        ({"driver": "a" * 64}, ["spec.driver: Too long: may not be more than 63 bytes"]),
        ({"pool": {"name": "a//b", "resourceSliceCount": 1}}, ['spec.pool.name: Invalid value: ""']),
        ({"pool": {"name": "a", "resourceSliceCount": 0}}, ["spec.pool.resourceSliceCount: Invalid value: 0"]),
    ],
)
def test_the_head_of_a_slice_is_checked(spec: dict[str, Any], wanted: list[str]) -> None:
    begin(problems(resource_slice(**spec)), *wanted)


@pytest.mark.parametrize(
    ("properties", "wanted"),
    [
        ({"attributes": {"a": {}}}, 'attributes[a]: Invalid value: "": must specify one of: `int`, `bool`, '),
        (
            {"attributes": {"a": {"int": 1, "bool": True}}},
            'attributes[a]: Invalid value: "{int, bool}": must specify exactly one of: `int`, `bool`, ',
        ),
        ({"attributes": {"a": {"string": "x" * 65}}}, "attributes[a].string: Too long: may not be more than 64"),
        ({"attributes": {"a": {"version": "1"}}}, 'attributes[a].version: Invalid value: "1"'),
        ({"attributes": {"1a": {"int": 1}}}, 'attributes: Invalid value: "1a"'),
        (
            {"attributes": {f"a{n}": {"int": 1} for n in range(33)}},
            ": Invalid value: 33: the total number of attributes",
        ),
        ({"taints": [{"key": "k", "effect": "X"}]}, 'taints[0].effect: Unsupported value: "X"'),
        ({"nodeName": "n"}, ": Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if"),
        ({"bindingConditions": ["a"]}, "bindingFailureConditions: Invalid value: null: bindingFailureConditions are"),
        ({"capacity": {"m": {"value": "1", "requestPolicy": {}}}}, "capacity[m].requestPolicy: Forbidden: allow"),
    ],
)
def test_a_device_is_checked(properties: dict[str, Any], wanted: str) -> None:
    path = "spec.devices[0]" if wanted.startswith(":") else "spec.devices[0]."
    begin(problems(resource_slice(device(**properties))), path + wanted)


def test_names_of_devices_occur_once() -> None:
    assert problems(resource_slice(device(), device())) == ['spec.devices[1]: Duplicate value: "d"']


COUNTERS = [{"name": "s", "counters": {"c": {"value": "1"}}}]
DRAWS = [{"counterSet": "s", "counters": {"c": {"value": "1"}}}]


def test_counters_and_devices_have_slices_of_their_own_since_135() -> None:
    both = resource_slice(device(consumesCounters=DRAWS), sharedCounters=COUNTERS)
    assert problems(both) == ['spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed']
    assert problems(both, "1.34", DRAPartitionableDevices=True) == []


def test_up_to_134_devices_draw_from_sets_of_their_own_slice() -> None:
    stray = resource_slice(
        device(consumesCounters=[{"counterSet": "z", "counters": {"c": {"value": "1"}}}]),
        device("e", consumesCounters=[{"counterSet": "s", "counters": {"y": {"value": "1"}}}]),
        sharedCounters=COUNTERS,
    )
    begin(
        problems(stray, "1.34", DRAPartitionableDevices=True),
        'spec.devices[0].consumesCounters[0].counterSet: Invalid value: "z": must reference a counterSet',
        'spec.devices[1].consumesCounters[0].counters: Invalid value: "y": must reference a counter',
    )
    assert problems(resource_slice(device(consumesCounters=DRAWS))) == []


@pytest.mark.parametrize(("release", "limit"), [("1.34", 4), ("1.37", 16)])
def test_a_device_has_so_many_taints(release: str, limit: int) -> None:
    taints = [{"key": f"k{n}", "effect": "NoSchedule"} for n in range(limit + 1)]
    found = problems(resource_slice(device(taints=taints)), release, DRADeviceTaints=True)
    assert found == [f"spec.devices[0].taints: Too many: {limit + 1}: must have at most {limit} items"]


def test_a_taint_that_does_nothing_exists_since_135() -> None:
    made = resource_slice(device(taints=[{"key": "k", "effect": "None"}]))
    assert problems(made) == []
    begin(problems(made, "1.34", DRADeviceTaints=True), 'spec.devices[0].taints[0].effect: Unsupported value: "None"')


def test_driver_pool_and_node_stay() -> None:
    strategy = definition_of("resourceslices").strategy
    old, _ = created(strategy, resource_slice(), context())
    pool = {"name": "q", "generation": 2, "resourceSliceCount": 1}
    made, errors = updated(strategy, resource_slice(driver="x", pool=pool, nodeName="n2"), old, context())
    assert texts(errors) == [
        'spec.driver: Invalid value: "x": field is immutable',
        'spec.pool.name: Invalid value: "q": field is immutable',
        'spec.nodeName: Invalid value: "n2": field is immutable',
    ]
    assert made.metadata.generation == 2


# Rules of one device.

ALL = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to"


def made(**values: Any) -> Device:
    return from_dict(Device, {"name": "d", **values})


def problems_devices(
    device_devices: Device, old: Device | None = None, *, release: str = "1.37", per_device_nodes: bool = False
) -> list[str]:
    errors = ErrorList()
    DeviceRules(context(release), per_device_nodes=per_device_nodes).validate(
        errors, FieldPath("d"), device_devices, old
    )
    return texts(errors)


def test_a_device_is_named_like_a_label() -> None:
    assert problems_devices(made()) == []
    (text,) = problems_devices(made(name="A"))
    assert text.startswith('d.name: Invalid value: "A": a lowercase RFC 1123 label')


def test_attributes_and_capacities_are_limited_together() -> None:
    attributes = {f"a{n}": {"int": n} for n in range(30)}
    assert problems_devices(made(attributes=attributes, capacity={f"c{n}": {"value": "1"} for n in range(2)})) == []
    assert problems_devices(made(attributes=attributes, capacity={f"c{n}": {"value": "1"} for n in range(3)})) == [
        "d: Invalid value: 33: the total number of attributes and capacities must not exceed 32"
    ]


def test_values_of_attributes_are_limited_together() -> None:
    assert problems_devices(made(attributes={"a": {"ints": list(range(40))}, "b": {"ints": list(range(8))}})) == []
    assert problems_devices(made(attributes={"a": {"ints": list(range(48))}, "b": {"int": 1}})) == [
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
    begin(problems_devices(made(**nodes), per_device_nodes=True), *wanted)


def test_a_device_says_its_nodes_where_its_slice_lets_it() -> None:
    for nodes in ({"nodeName": "n"}, {"allNodes": False}):
        (text,) = problems_devices(made(**nodes))
        assert text.startswith("d: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if")


POLICY = {"m": {"value": "1", "requestPolicy": {"default": "2", "validValues": ["1"]}}}


def test_a_policy_is_for_devices_that_are_shared() -> None:
    assert problems_devices(made(capacity=POLICY)) == [
        "d.capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true"
    ]
    (text,) = problems_devices(made(capacity=POLICY, allowMultipleAllocations=True))
    assert text.startswith("d.capacity[m].requestPolicy.validValues: Invalid value: ")


def test_what_did_not_change_is_not_looked_at_again() -> None:
    """Rules become stricter with releases, and drivers must be able to write their stored slices."""
    stored = made(capacity=POLICY, taints=[{"key": "k", "effect": "Bad"}])
    assert problems_devices(stored, stored) == []
    assert len(problems_devices(stored, made())) == 2
    assert len(problems_devices(stored, stored, release="1.34")) == 2


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
    begin(attribute(**values), *wanted)


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


def device_devices(**values: Any) -> Device:
    return from_dict(Device, {"name": "d", "capacity": CAPACITY, **values})


@pytest.mark.parametrize(
    ("name", "own"), [("cpu", True), ("hugepages-2Mi", True), ("kubernetes.io/x", True), ("example.com/gpu", False)]
)
def test_a_node_has_resources_of_its_own(name: str, own: bool) -> None:
    assert is_node_resource(name) is own


def mapped(name: str = "cpu", **mapping: Any) -> list[str]:
    errors = ErrorList()
    validate_mappings(errors, FieldPath("m"), device_devices(nodeAllocatableResourceMappings={name: mapping}))
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
    validate_node_resources(errors, FieldPath("m"), device_devices(nodeAllocatableResources={name: values}))
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
    begin(taken(mapping=mapping), *(f"m[cpu].{beginning}" for beginning in wanted))


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
    begin(taken(overhead=overhead), *(f"m[cpu].{beginning}" for beginning in wanted))


def test_what_is_named_is_taken() -> None:
    assert taken() == ["m[cpu]: Required value: at least one of mapping or overhead must be set"]
