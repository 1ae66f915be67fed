"""Devices as expressions see them (docs/spec/cel.md §1 to §3)."""

from __future__ import annotations

import pytest

from cathedra.api.quantity import Quantity
from cathedra.api.resource import Device, DeviceAttribute, DeviceCapacity, ResourceSlice, ResourceSliceSpec
from cathedra.cel.device import DeviceView, environment, size_of
from cathedra.cel.errors import EvaluationError
from cathedra.cel.selector import compile_selector
from tests.unit.cel.building import DRIVER, Attribute, view


def test_unqualified_names_are_filed_under_the_driver() -> None:
    assert view({"a": 1, "other.example/b": 2}).attributes == {DRIVER: {"a": 1}, "other.example": {"b": 2}}


def test_the_qualified_spelling_of_the_same_thing_wins() -> None:
    assert view({"a": 1, f"{DRIVER}/a": 2}).attributes == {DRIVER: {"a": 2}}


def test_bad_data_make_every_evaluation_fail() -> None:
    device = DeviceView.of(DRIVER, False, {"v": Attribute(version="1")}, {})
    assert device.failure.startswith("attribute v: parse semantic version: ")
    with pytest.raises(EvaluationError, match="attribute v"):
        compile_selector("true").matches(device)


def test_an_attribute_without_value_is_unsupported() -> None:
    assert DeviceView.of(DRIVER, False, {"v": Attribute()}, {}).failure == "attribute v: unsupported attribute value"


def test_lists_need_their_gate() -> None:
    device = view({"peers": (1, 2)})
    with pytest.raises(EvaluationError, match="attribute peers: unsupported attribute value"):
        compile_selector("true").matches(device)
    assert compile_selector(f'device.attributes["{DRIVER}"].peers.exists(p, p == 2)', list_attributes=True).matches(
        device
    )


def test_sizes_are_those_of_the_api() -> None:
    assert size_of(("device", "driver")) == 63
    assert size_of(("device", "attributes", "@keys")) == 63
    assert size_of(("device", "attributes", "@values", "x")) == 64
    assert size_of(("somebody", "else")) is None


def test_environments_are_shared() -> None:
    one = environment(consumable_capacity=True, list_attributes=False, mode="new")
    assert one is environment(consumable_capacity=True, list_attributes=False, mode="new")


def test_attributes_of_the_api_are_seen_as_they_are() -> None:
    attributes = {"index": DeviceAttribute(int_=3), "peers": DeviceAttribute(ints=(1, 2))}
    device = DeviceView.of(DRIVER, None, attributes, {"memory": DeviceCapacity(value=Quantity("40Gi"))})
    assert device.attributes == {DRIVER: {"index": 3, "peers": [1, 2]}}
    assert compile_selector(f'device.attributes["{DRIVER}"].index == 3', list_attributes=True).matches(device)


def test_all_devices_of_a_slice_are_seen() -> None:
    devices = (Device(name="a", attributes={"x": DeviceAttribute(string="y")}), Device(name="b"))
    views = DeviceView.from_slice(ResourceSlice(spec=ResourceSliceSpec(driver=DRIVER, devices=devices)))
    assert list(views) == ["a", "b"]
    assert views["a"].attributes == {DRIVER: {"x": "y"}}
