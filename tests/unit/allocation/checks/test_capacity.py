"""The consumption of a device by a request."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.allocation import Features
from cathedra.allocation.checks.capacity import CapacityUsage, Unusable, usage
from cathedra.allocation.supply.devices import Interner, Signature
from cathedra.api.quantity import Quantity
from cathedra.api.resource import Device
from cathedra.api.struct import from_dict
from tests.unit.allocation.building import device


def signature(**more: object) -> Signature:
    """The signature of a device of driver «drv»."""
    return Interner().signature("drv", from_dict(Device, device("d", **more)))


RANGE = {"default": "4", "validRange": {"min": "4", "max": "32", "step": "4"}}
VALUES = {"default": "10", "validValues": ["10", "20", "40"]}


@pytest.mark.parametrize(
    ("policy", "requested", "consumed"),
    [
        (None, None, "80"),
        (None, "3", "3"),
        (RANGE, None, "4"),
        (RANGE, "1", "4"),
        (RANGE, "9", "12"),
        (RANGE, "32", "32"),
        (RANGE, "33", None),
        (VALUES, None, "10"),
        (VALUES, "11", "20"),
        (VALUES, "41", None),
    ],
)
def test_an_amount_follows_the_policy(policy: dict[str, object] | None, requested: str | None, consumed: str) -> None:
    capacity = {"mem": {"value": "80", **({"requestPolicy": policy} if policy else {})}}
    requests = {} if requested is None else {"drv/mem": Quantity(requested)}
    found = usage(signature(shareable=True, capacity=capacity), requests, requested, Features())
    if consumed is None:
        assert isinstance(found, Unusable)
    else:
        assert isinstance(found, CapacityUsage)
        assert [str(amount) for amount in found.amounts] == [consumed]


@settings(max_examples=60)
@given(st.integers(1, 20), st.integers(1, 9), st.integers(0, 80))
def test_a_rounded_amount_is_the_least_step_that_is_enough(low: int, step: int, requested: int) -> None:
    policy = {"default": str(low), "validRange": {"min": str(low), "step": str(step)}}
    capacity = {"mem": {"value": "1000", "requestPolicy": policy}}
    found = usage(signature(capacity=capacity), {"mem": Quantity(str(requested))}, requested, Features())
    assert isinstance(found, CapacityUsage)
    amount = found.amounts[0].value()
    assert amount >= max(low, requested)
    assert (amount - low) % step == 0
    assert amount == low or amount - step < requested


@pytest.mark.parametrize(
    ("low", "step", "requested", "consumed"),
    [("20G", "20G", "50G", "58593750Ki"), ("10M", "10M", "15M", "20000000"), ("500m", "250m", "600m", "750m")],
)
def test_whole_amounts_are_rounded_to_binary_form(low: str, step: str, requested: str, consumed: str) -> None:
    policy = {"default": low, "validRange": {"min": low, "step": step}}
    capacity = {"mem": {"value": "1T", "requestPolicy": policy}}
    features = Features(fractional_capacity_range=True)
    found = usage(signature(capacity=capacity), {"mem": Quantity(requested)}, requested, features)
    assert isinstance(found, CapacityUsage)
    assert [str(amount) for amount in found.amounts] == [consumed]


@pytest.mark.parametrize(
    ("low", "step", "requested", "consumed"), [("500m", "1", "1200m", "2"), ("1", "1500m", "2", "3")]
)
def test_without_fractions_steps_are_counted_in_whole_numbers(
    low: str, step: str, requested: str, consumed: str
) -> None:
    """consumable_capacity.go, violateValidRange: whole numbers, rounded up, as where the amount was rounded."""
    policy = {"default": low, "validRange": {"min": low, "step": step}}
    capacity = {"mem": {"value": "10", "requestPolicy": policy}}
    found = usage(
        signature(capacity=capacity), {"mem": Quantity(requested)}, requested, Features(fractional_capacity_range=False)
    )
    assert isinstance(found, CapacityUsage), found
    assert [str(amount) for amount in found.amounts] == [consumed]
