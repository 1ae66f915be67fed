"""Values as constraints compare them."""

from __future__ import annotations

import pytest

from cathedra.allocation import FatalError, Features
from cathedra.allocation.checks.values import Programs, derive, scalar_or_set
from cathedra.allocation.supply.devices import DeviceRecord
from cathedra.api.resource import DeviceAttribute
from cathedra.api.struct import from_dict
from tests.unit.allocation.building import World, claim, device, exactly, problem_of, resource_slice


def test_values_compare_by_type_and_versions_by_precedence() -> None:
    def value(lists: bool = False, distinct: bool = False, **of: object) -> object:
        return scalar_or_set(from_dict(DeviceAttribute, of), Features(list_type_attributes=lists), distinct=distinct)

    assert value(int=1) != value(string="1") != value(bool=True)
    assert value(version="1.0.0+a") == value(version="1.0.0+b")
    assert value(version="1.0.0+a", distinct=True) != value(version="1.0.0+b", distinct=True)
    assert value(version="1.0.0+a", lists=True) != value(version="1.0.0+b", lists=True)
    assert value(ints=[1]) is None
    assert value(ints=[2], lists=True) == value(int=2, lists=True)
    assert value() is None


def record() -> DeviceRecord:
    world = World([resource_slice(device("a", attributes={"pci": "0000:01:00.0", "index": 3}))])
    return problem_of(world, [claim(exactly("r"))])[1].devices[0]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ('device.attributes["drv"].index + 1', DeviceAttribute(int_=4)),
        ('device.attributes["drv"].pci.split(":")[0]', DeviceAttribute(string="0000")),
        ('device.driver == "drv"', DeviceAttribute(bool_=True)),
        ('semver("1.2.3")', DeviceAttribute(version="1.2.3")),
        ("[1, 2]", DeviceAttribute(ints=(1, 2))),
        ('["a"]', DeviceAttribute(strings=("a",))),
        ("[]", None),
    ],
)
def test_the_value_becomes_an_attribute_of_its_type(expression: str, value: DeviceAttribute | None) -> None:
    assert derive("n", expression, record(), Features(), {}) == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("device.nope", "compile derived attribute n failed: .*undefined field 'nope'"),
        ('device.attributes["drv"].gone', "evaluate derived attribute n on device .* failed: no such key: gone"),
        ("{1: 2}", "failed: unsupported result type"),
    ],
)
def test_what_gives_no_attribute_is_fatal(expression: str, message: str) -> None:
    with pytest.raises(FatalError, match=message):
        derive("n", expression, record(), Features(), {})


def test_a_program_is_compiled_once_for_all_devices() -> None:
    programs: Programs = {}
    for _ in range(2):
        derive("n", "1 + 1", record(), Features(), programs)
    assert len(programs) == 1
