"""Conditions of pending devices in the status of a claim."""

from __future__ import annotations

import pytest

from cathedra.api.core.meta_v1 import Condition
from cathedra.api.resource import (
    AllocatedDeviceStatus,
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from cathedra.driver.fabric.conditions import (
    BindingConditionTypes,
    BindingOutcome,
    device_key,
    is_decided,
    own_results,
    status_entries,
)

NAME = "switch.example.com"
TYPES = BindingConditionTypes(("Attached",), ("AttachFailed",))


def result(device: str, driver: str = NAME) -> DeviceRequestAllocationResult:
    return DeviceRequestAllocationResult(request="one", driver=driver, pool="p", device=device)


def claim(*results: DeviceRequestAllocationResult, **conditions: str) -> ResourceClaim:
    """With the first device's conditions."""
    entry = AllocatedDeviceStatus(
        driver=NAME,
        pool="p",
        device=results[0].device,
        conditions=tuple(Condition(type=kind, status=status) for kind, status in conditions.items()),
    )
    allocation = AllocationResult(devices=DeviceAllocationResult(results=results))
    return ResourceClaim(status=ResourceClaimStatus(allocation=allocation, devices=(entry,) if conditions else ()))


def test_devices_of_other_drivers_are_left_alone() -> None:
    mine, other = result("a"), result("a", "other.example.com")
    assert own_results(claim(mine, other), NAME) == [mine]
    assert own_results(ResourceClaim(), NAME) == []


@pytest.mark.parametrize(
    ("conditions", "decided"),
    [
        ({}, False),
        ({"Attached": "False"}, False),
        ({"Attached": "True"}, True),
        ({"AttachFailed": "True"}, True),
        ({"AttachFailed": "False", "Ready": "True"}, False),
    ],
)
def test_a_device_is_decided_when_it_is_ready_or_has_failed(conditions: dict[str, str], decided: bool) -> None:
    one = result("a")
    assert is_decided(claim(one, **conditions), one, TYPES) is decided


def test_several_conditions_must_all_be_true() -> None:
    one = result("a")
    types = BindingConditionTypes(("Attached", "Ready"), ())
    assert not is_decided(claim(one, Attached="True"), one, types)
    assert is_decided(claim(one, Attached="True", Ready="True"), one, types)


def test_what_was_said_before_is_said_again_beside_what_is_new() -> None:
    """An apply takes back what it leaves out."""
    first, second, third = result("a"), result("b"), result("c")
    outcomes = {device_key(second): BindingOutcome("AttachFailed", "no port", failed=True)}
    entries = status_entries(
        claim(first, second, third, Attached="True", Other="True"), [first, second, third], outcomes, TYPES
    )
    told = {entry.device: [(one.type, one.status) for one in entry.conditions or ()] for entry in entries}
    assert told == {"a": [("Attached", "True")], "b": [("AttachFailed", "True")]}


def test_an_outcome_that_is_not_final_says_why_not_yet() -> None:
    one = result("a")
    (entry,) = status_entries(
        claim(one), [one], {device_key(one): BindingOutcome("Attaching", "port is training")}, TYPES
    )
    assert [(c.type, c.status, c.reason, c.message) for c in entry.conditions or ()] == [
        ("Attached", "False", "Attaching", "port is training")
    ]
