"""Python values as devices of a ResourceSlice."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.quantity import Quantity
from cathedra.api.resource import DeviceAttribute, DeviceCapacity
from cathedra.driver.device import Device, Pool, Version, attribute
from cathedra.driver.errors import DeviceError


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (True, DeviceAttribute(bool_=True)),
        (1, DeviceAttribute(int_=1)),
        ("a", DeviceAttribute(string="a")),
        (Version("1.0.0"), DeviceAttribute(version="1.0.0")),
        ([True, False], DeviceAttribute(bools=(True, False))),
        ([1, 2], DeviceAttribute(ints=(1, 2))),
        (["a"], DeviceAttribute(strings=("a",))),
        ([Version("1.0.0")], DeviceAttribute(versions=("1.0.0",))),
    ],
)
def test_an_attribute_has_the_type_of_its_python_value(value: Any, wanted: DeviceAttribute) -> None:
    assert attribute(value) == wanted


@pytest.mark.parametrize("value", [[], [1, "a"], [1, True], [1.5], 1.5])
def test_a_value_that_attributes_cannot_have_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        attribute(value)


def test_amounts_are_quantities_and_policies_stay() -> None:
    policy = DeviceCapacity(value=Quantity("1"))
    made = Device("d", capacity={"memory": "80Gi", "cores": 4, "shares": policy}).to_api()
    assert made.capacity["memory"].value == Quantity("80Gi")
    assert made.capacity["cores"].value == Quantity("4")
    assert made.capacity["shares"] is policy
    with pytest.raises(DeviceError, match='device "d": capacity "memory"'):
        Device("d", capacity={"memory": "lots"}).to_api()


def test_counters_of_pool_and_device_are_spelled_alike() -> None:
    counters = {"set": {"memory": "40Gi"}}
    (of_pool,) = Pool(counters=counters).counter_sets()
    (of_device,) = Device("d", consumes=counters).to_api().consumes_counters
    assert of_pool.counters == of_device.counters
    assert (of_pool.name, of_device.counter_set) == ("set", "set")


def test_what_is_not_said_is_not_in_the_slice() -> None:
    made = Device("d").to_api()
    assert (made.allow_multiple_allocations, made.binds_to_node, made.all_nodes) == (None, None, None)
    assert Device("d", multiple_allocations=True).to_api().allow_multiple_allocations is True


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.5, "3.5 is of type float; an attribute is an int, a bool, a str, a Version, or a list of one of these"),
        (None, "None is of type NoneType"),
        ([1, "a"], "[1, 'a']: a list must hold values of one type"),
    ],
)
def test_a_value_that_no_attribute_has_is_named_with_its_device(value: Any, text: str) -> None:
    with pytest.raises(DeviceError) as refused:
        Device("gpu-0", attributes={"memory": value}).to_api()
    assert str(refused.value).startswith(f'device "gpu-0": attribute "memory": {text}')
