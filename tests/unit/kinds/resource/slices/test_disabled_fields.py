"""Fields of slices go with closed gates, unless the stored object uses the feature."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.struct import EMPTY_LIST, replace, to_dict
from tests.unit.kinds.objects import context, created, definition_of, device, resource_slice, updated


@pytest.mark.parametrize(
    ("gates", "properties"),
    [
        ({"DRADeviceTaints": False}, {"taints": [{"key": "k", "effect": "NoSchedule"}]}),
        ({"DRAPartitionableDevices": False}, {"nodeName": "n"}),
        (
            {"DRADeviceBindingConditions": False},
            {"bindsToNode": True, "bindingConditions": ["a"], "bindingFailureConditions": ["b"]},
        ),
        ({"DRAConsumableCapacity": False}, {"allowMultipleAllocations": True}),
        ({}, {"attributes": {"a": {"ints": [1]}}}),
    ],
)
def test_fields_of_devices_go_and_stay_where_they_are_in_use(
    gates: dict[str, bool], properties: dict[str, Any]
) -> None:
    closed = context("1.36", **gates)
    strategy = definition_of("resourceslices", "1.36").strategy
    made = resource_slice(device(**properties))
    name = next(iter(properties))
    kept = to_dict(updated(strategy, made, made, closed)[0].spec)["devices"][0]
    gone = to_dict(created(strategy, made, closed)[0].spec)["devices"][0]
    if name == "attributes":
        assert (gone["attributes"], kept["attributes"]) == ({"a": {}}, {"a": {"ints": [1]}})
        return
    assert not set(properties) & set(gone)
    assert set(properties) <= set(kept)


def test_an_attribute_without_its_values_is_refused() -> None:
    made = resource_slice(device(attributes={"a": {"ints": [1]}}))
    errors = created(definition_of("resourceslices").strategy, made, context())[1]
    assert [str(error) for error in errors] == [
        'spec.devices[0].attributes[a]: Invalid value: "": must specify one of: `int`, `bool`, `string`, `version`, '
        "`ints`, `bools`, `strings`, `versions`"
    ]


def test_two_lists_that_are_spelled_out_empty_are_refused_together() -> None:
    """Kubernetes distinguishes an empty list from an absent one here."""
    made = resource_slice()
    made = replace(made, spec=replace(made.spec, devices=EMPTY_LIST, shared_counters=EMPTY_LIST))
    for open_gates, wanted in ((True, 1), (False, 0)):
        request = context("1.37", DRAPartitionableDevices=open_gates)
        errors = created(definition_of("resourceslices").strategy, made, request)[1]
        assert [error.detail for error in errors] == ["only one of `sharedCounters` or `devices` is allowed"] * wanted
