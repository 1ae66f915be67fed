"""Rules of slices: where devices are, what they are like, what they draw from."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api import resource
from tests.unit.kinds.objects import context, created, definition_of, device, resource_slice, texts, updated

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
