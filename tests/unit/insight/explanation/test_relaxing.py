"""Relaxed selectors, the smallest changes first."""

from __future__ import annotations

from cathedra.allocation.supply.devices import Signature
from cathedra.api.resource import Device, DeviceAttribute
from cathedra.insight.explanation.relaxing import relaxed_selectors
from cathedra.insight.reading.dumps import read_dump

D = "gpu.example.com"
A = f'device.attributes["{D}"]'
FEATURES = read_dump([]).features


def seen(**attributes: DeviceAttribute) -> Signature:
    return Signature(0, D, Device(name="gpu-0", attributes=attributes), 0)


def relaxed(expression: str, *signatures: Signature) -> list[str]:
    return [one.expression for one in relaxed_selectors(expression, signatures, FEATURES)]


def test_another_value_that_devices_have_comes_before_leaving_a_part_out() -> None:
    found = relaxed(
        f'{A}.model == "h100" && {A}.numa == 0',
        seen(model=DeviceAttribute(string="a100"), numa=DeviceAttribute(int_=0)),
    )
    assert found[0] == f'{A}.model == "a100" && {A}.numa == 0'
    assert f"{A}.numa == 0" in found
    assert found[-1] == ""


def test_a_selector_that_fails_gets_a_guard() -> None:
    found = relaxed(f"{A}.numa == 0", seen(model=DeviceAttribute(string="a100")))
    assert any(text.startswith(f'"numa" in {A} && ') for text in found)


def test_what_cannot_be_compiled_is_left_alone() -> None:
    assert relaxed("device.attributes[", seen()) == []
