"""What the tags of resource.k8s.io 1.37 find, and how it joins what the rules of the kinds do."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api import resource
from cathedra.api.struct import from_dict, replace
from tests.unit.kinds.objects import claim, context, created, definition_of, device, exactly, resource_slice, texts
from tests.unit.kinds.objects import updated as changed

CLASS = {"deviceClassName": "gpu.example.com"}
OPAQUE = {"driver": "gpu.example.com", "parameters": {"a": 1}}
RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d"}


def claimed(made: resource.ResourceClaim, version: str = "v1", **more: Any) -> list[str]:
    request = replace(context(**more), api_version=f"resource.k8s.io/{version}")
    return texts(created(definition_of("resourceclaims").strategy, made, request)[1])


def sliced(made: resource.ResourceSlice, version: str = "v1", **more: Any) -> list[str]:
    request = replace(context(**more), api_version=f"resource.k8s.io/{version}")
    return texts(created(definition_of("resourceslices").strategy, made, request)[1])


def status(*, before: dict[str, Any] | None = None, **values: Any) -> list[str]:
    definition = definition_of("resourceclaims")
    old, _ = created(definition.strategy, claim(), context())
    old = replace(old, status=from_dict(resource.ResourceClaimStatus, before or {}))
    new = replace(old, status=from_dict(resource.ResourceClaimStatus, values))
    return texts(changed(definition.subresources["status"], new, old, context())[1])


def allocated(*results: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"devices": {"results": list(results or (RESULT,)), **more}}


def fields(found: list[str]) -> list[str]:
    return [text.partition(": ")[0] for text in found]


def test_what_tags_find_comes_after_everything_else() -> None:
    """validate.go: handwritten errors without those that are covered, then the declarative ones."""
    made = claim(exactly(allocationMode="Some"), exactly(deviceClassName=""))
    assert fields(claimed(made)) == [
        "spec.devices.requests[1].exactly.deviceClassName",
        "spec.devices.requests[1]",
        "spec.devices.requests[0].exactly.allocationMode",
    ]


def test_a_repeated_element_is_shown_whole() -> None:
    """each.go, ValSliceUnique: the value is the element in the version of the request."""
    assert claimed(claim(exactly(), exactly())) == [
        'spec.devices.requests[1]: Duplicate value: {"name":"r","exactly":{"deviceClassName":"gpu.example.com",'
        '"allocationMode":"ExactCount","count":1}}'
    ]
    assert claimed(claim(exactly(), exactly()), "v1beta1") == [
        'spec.devices.requests[1]: Duplicate value: {"name":"r","deviceClassName":"gpu.example.com",'
        '"allocationMode":"ExactCount","count":1}'
    ]


def test_uniqueness_is_reported_before_the_elements_themselves() -> None:
    made = claim(exactly(allocationMode="Some"), exactly(allocationMode="Some"))
    assert fields(claimed(made)) == [
        "spec.devices.requests[1]",
        "spec.devices.requests[0].exactly.allocationMode",
        "spec.devices.requests[1].exactly.allocationMode",
    ]


def test_the_oldest_version_is_answered_in_its_own_paths() -> None:
    made = claim(exactly(allocationMode="Some", deviceClassName=""))
    assert fields(claimed(made, "v1beta1")) == [
        "spec.devices.requests[0].exactly.deviceClassName",
        "spec.devices.requests[0].allocationMode",
    ]
    assert fields(sliced(resource_slice(device(attributes={"a": {}})), "v1beta1")) == [
        "spec.devices[0].basic.attributes[a]"
    ]


def test_without_the_gate_the_rules_of_the_kind_answer() -> None:
    made = claim(exactly(), exactly())
    assert claimed(made, DeclarativeValidationBeta=False) == ['spec.devices.requests[1]: Duplicate value: "r"']


def test_rules_that_no_hand_wrote_stand_without_the_gate_as_well() -> None:
    gates = {"DRANodeAllocatableResources": True, "DRAOptionalNodeOperations": True}
    made = resource_slice(
        device(nodeAllocatableResources={"cpu": {"mapping": {}}}), skipNodeOperations=["*", "*", "Reboot"]
    )
    wanted = [
        "spec.devices[0].nodeAllocatableResources[cpu].mapping",
        "spec.skipNodeOperations[1]",
        "spec.skipNodeOperations[2]",
    ]
    assert fields(sliced(made, **gates)) == wanted
    assert fields(sliced(made, DeclarativeValidationBeta=False, **gates)) == wanted


@pytest.mark.parametrize(
    ("mapping", "wanted"),
    [
        ({"deviceMultiplier": "1"}, []),
        ({}, ['"": must specify one of: `capacityKey`, `deviceMultiplier`']),
        (
            {"capacityKey": "m", "capacityMultiplier": "1", "deviceMultiplier": "1"},
            ['"{capacityKey, deviceMultiplier}": must specify exactly one of: `capacityKey`, `deviceMultiplier`'],
        ),
    ],
)
def test_a_mapping_is_by_device_or_by_capacity(mapping: dict[str, str], wanted: list[str]) -> None:
    made = device(capacity={"m": {"value": "1"}}, nodeAllocatableResources={"cpu": {"mapping": mapping}})
    path = "spec.devices[0].nodeAllocatableResources[cpu].mapping: Invalid value: "
    assert sliced(resource_slice(made), DRANodeAllocatableResources=True) == [path + text for text in wanted]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("a/b", []),
        ("A.b/c", ['Invalid value: "A.b": prefix: a lowercase RFC 1123 subdomain']),
        ("/c", ['Invalid value: "": prefix must not be empty']),
        ("a/", ['Invalid value: "": name must not be empty']),
        ("a/1", ['Invalid value: "1": a valid C identifier']),
        (f"{'a' * 64}/c", ["Too long: may not be more than 63 bytes"]),
        ("a/b/c", []),
    ],
)
def test_the_attribute_of_a_constraint_is_of_a_domain_in_lower_case(name: str, wanted: list[str]) -> None:
    """strfmt.go, ResourceFullyQualifiedName: it does not see a second slash."""
    found = claimed(claim(exactly(), constraints=[{"matchAttribute": name}]))
    path = "spec.devices.constraints[0].matchAttribute: "
    assert [text[: len(path) + len(start)] for text, start in zip(found, wanted, strict=True)] == [
        path + start for start in wanted
    ]


def test_names_of_drivers_are_measured_in_characters() -> None:
    found = claimed(claim(exactly(), config=[{"opaque": {**OPAQUE, "driver": "a" * 64}}]))
    assert found == ["spec.devices.config[0].opaque.driver: Too long: may not be more than 63 characters"]


def test_an_unchanged_field_is_left_to_the_rules_of_the_kind() -> None:
    """Validation ratcheting: tags check only changed values."""
    definition = definition_of("resourceslices")
    old, _ = created(definition.strategy, resource_slice(device(attributes={"a": {}})), context())
    again = replace(old, metadata=replace(old.metadata, labels={"a": "b"}))
    assert texts(changed(definition.strategy, again, old, context())[1]) == [
        'spec.devices[0].attributes[a]: Invalid value: "": exactly one value must be specified'
    ]


def test_the_spec_of_a_claim_is_immutable_and_not_looked_at() -> None:
    strategy = definition_of("resourceclaims").strategy
    old, _ = created(strategy, claim(), context())
    found = texts(changed(strategy, claim(exactly(allocationMode="Some")), old, context())[1])
    assert found == ["spec: Invalid value: null: field is immutable"]


def test_an_allocation_is_not_changed() -> None:
    """update.go, UpdatePointer with NoModify: another text, and another origin, than that of an immutable field."""
    other = allocated({**RESULT, "device": "e"})
    assert status(before={"allocation": allocated()}, allocation=other) == [
        "status.allocation: Invalid value: null: field cannot be modified once set"
    ]
    assert status(before={"allocation": allocated()}) == []


def test_a_result_is_checked_in_the_order_of_its_fields() -> None:
    result = {**RESULT, "driver": "", "pool": "a//B", "shareID": "X", "bindingConditions": list("abcde")}
    found = status(allocation=allocated({**result, "bindingFailureConditions": ["f"]}))
    path = "status.allocation.devices.results[0]."
    assert [text.removeprefix(path)[:60] for text in found] == [
        "driver: Required value",
        'pool: Invalid value: "a//B": segment 1: must not be empty',
        'pool: Invalid value: "B": segment 2: a lowercase RFC 1123 su',
        "bindingConditions: Too many: 5: must have at most 4 items",
        'shareID: Invalid value: "X": must be a lowercase UUID in 8-4',
    ]


def test_a_source_is_one_of_two() -> None:
    config = [{"source": source, "opaque": OPAQUE} for source in ("", "Elsewhere", "FromClass")]
    assert status(allocation=allocated(config=config)) == [
        "status.allocation.devices.config[0].source: Required value",
        'status.allocation.devices.config[1].source: Unsupported value: "Elsewhere": supported values: "FromClaim", '
        '"FromClass"',
    ]


def test_what_drivers_report_of_a_network_is_limited() -> None:
    report = {"driver": "gpu.example.com", "pool": "p", "device": "d"}
    network = {"interfaceName": "x" * 257, "hardwareAddress": "y" * 129, "ips": ["192.0.2.1/24"] * 2}
    assert status(allocation=allocated(), devices=[{**report, "networkData": network}]) == [
        "status.devices[0].networkData.interfaceName: Too long: may not be more than 256 bytes",
        'status.devices[0].networkData.ips[1]: Duplicate value: "192.0.2.1/24"',
        "status.devices[0].networkData.hardwareAddress: Too long: may not be more than 128 bytes",
    ]


def test_counters_are_named_and_drawn_from_sets_with_names() -> None:
    made = resource_slice(
        device(consumesCounters=[{"counterSet": "", "counters": {"A": {"value": "1"}}}, {"counterSet": "s"}]),
    )
    assert [text[:70] for text in sliced(made)] == [
        "spec.devices[0].consumesCounters[0].counterSet: Required value",
        'spec.devices[0].consumesCounters[0].counters: Invalid value: "A": a lo',
        "spec.devices[0].consumesCounters[1].counters: Required value",
    ]


def test_a_partition_type_needs_its_gate_a_domain_and_counters() -> None:
    opened = {"DRAPartitionableDevicesType": True, "DRAResourcePoolStatus": True}
    definition, made = definition_of("resourceslices"), resource_slice(device(), partitionTypeAttribute="b")
    assert [text.partition(": a ")[0] for text in sliced(made, **opened)] == [
        'spec.partitionTypeAttribute: Invalid value: "b": may only be set on a slice which declares devices that '
        "consume counters",
        'spec.partitionTypeAttribute: Invalid value: "b"',
    ]
    stored, _ = created(definition.strategy, made, context(**opened))
    other = replace(stored, spec=replace(stored.spec, partition_type_attribute="c"))
    assert texts(changed(definition.strategy, other, stored, context())[1])[1:] == [
        "spec.partitionTypeAttribute: Forbidden"
    ]


def test_the_effect_of_a_rule_is_reported_last() -> None:
    definition = definition_of("devicetaintrules")
    values = {"spec": {"taint": {"key": "", "effect": "Sometimes"}, "deviceSelector": {"pool": ""}}}
    made = from_dict(resource.DeviceTaintRule, values)
    assert fields(texts(created(definition.strategy, made, context())[1])) == [
        "spec.deviceSelector.pool",
        "spec.taint.key",
        "spec.taint.key",
        "spec.taint.effect",
    ]


def test_until_136_tags_are_silent() -> None:
    strategy = definition_of("resourceclaims", "1.36").strategy
    made = claim(exactly(allocationMode="Some"), exactly(deviceClassName=""))
    assert fields(texts(created(strategy, made, context("1.36"))[1])) == [
        "spec.devices.requests[0].exactly.allocationMode",
        "spec.devices.requests[1].exactly.deviceClassName",
        "spec.devices.requests[1]",
    ]
