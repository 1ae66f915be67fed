"""Rules of counters."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.resource import CounterSet, CounterSetConsumption, DeviceCounterConsumption
from cathedra.api.struct import from_dict
from cathedra.kinds.resource.slices.counters import (
    validate_consumed,
    validate_consumptions,
    validate_counter_sets,
    validate_references,
)
from tests.unit.kinds.objects import device, gates, resource_slice, texts

OLD, NEW = gates("1.34"), gates("1.37")


def named(count: int) -> dict[str, Any]:
    return {f"c{n}": {"value": "1"} for n in range(count)}


def counter_set(name: str = "s", counters: int = 1) -> dict[str, Any]:
    return {"name": name, "counters": named(counters)}


def draw(name: str = "s", counters: int = 1, **more: Any) -> dict[str, Any]:
    return {"counterSet": name, "counters": named(counters), **more}


def sets(*given: dict[str, Any], release: Any = NEW) -> list[str]:
    errors = ErrorList()
    validate_counter_sets(errors, FieldPath("s"), [from_dict(CounterSet, one) for one in given], release)
    return texts(errors)


def draws(*given: dict[str, Any], release: Any = NEW) -> list[str]:
    errors = ErrorList()
    made = [from_dict(DeviceCounterConsumption, one) for one in given]
    validate_consumptions(errors, FieldPath("d"), made, release)
    return texts(errors)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([counter_set()], []),
        ([counter_set("")], ["s[0].name: Required value"]),
        ([counter_set(counters=0)], ["s[0].counters: Required value"]),
        ([counter_set(counters=32)], []),
        ([counter_set(counters=33)], ["s[0].counters: Too many: 33: must have at most 32 items"]),
        ([counter_set(), counter_set()], ['s[1]: Duplicate value: "s"']),
        ([counter_set(f"s{n}") for n in range(9)], ["s: Too many: 9: must have at most 8 items"]),
    ],
)
def test_a_slice_has_sets_with_names_and_counters(given: list[dict[str, Any]], wanted: list[str]) -> None:
    assert sets(*given) == wanted


def test_counters_are_named_like_labels() -> None:
    (text,) = sets({"name": "s", "counters": {"A": {"value": "1"}}})
    assert text.startswith('s[0].counters: Invalid value: "A": a lowercase RFC 1123 label')
    (text,) = sets({"name": "S", "counters": named(1)})
    assert text.startswith('s[0].name: Invalid value: "S": a lowercase RFC 1123 label')


def test_up_to_134_the_counters_of_all_sets_are_limited_together() -> None:
    many = [counter_set(f"s{n}", 11) for n in range(3)]
    assert sets(*many, release=OLD) == ["s: Invalid value: 33: the total number of counters must not exceed 32"]
    assert sets(*many) == []
    assert sets(*[counter_set(f"s{n}") for n in range(9)], release=OLD) == []


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([draw()], []),
        ([draw("")], ["d[0].counterSet: Required value"]),
        ([draw(counters=0)], ["d[0].counters: Required value"]),
        ([draw(counters=33)], ["d[0].counters: Too many: 33: must have at most 32 items"]),
        ([draw(), draw()], ['d[1]: Duplicate value: "s"']),
        ([draw("a"), draw("b"), draw("c")], ["d: Too many: 3: must have at most 2 items"]),
        ([draw(compatibilityGroups=["a", "b"])], []),
        ([draw(compatibilityGroups=["a", "a"])], ['d[0].compatibilityGroups[1]: Duplicate value: "a"']),
        (
            [draw(compatibilityGroups=["a", "b", "c"])],
            ["d[0].compatibilityGroups: Too many: 3: must have at most 2 items"],
        ),
    ],
)
def test_a_device_draws_from_two_sets_at_most_each_once(given: list[dict[str, Any]], wanted: list[str]) -> None:
    assert draws(*given) == wanted


def test_up_to_134_a_device_draws_from_any_number_of_sets() -> None:
    assert draws(draw("a"), draw("b"), draw("c"), release=OLD) == []


def references(*devices: dict[str, Any], **spec: Any) -> list[str]:
    errors = ErrorList()
    validate_references(errors, FieldPath("d"), resource_slice(*devices, **spec).spec)
    return texts(errors)


def test_devices_draw_from_what_their_slice_holds() -> None:
    held = {"sharedCounters": [counter_set(counters=2)]}
    assert references(device(consumesCounters=[draw(counters=2)]), **held) == []
    assert references(device(consumesCounters=[draw("t")]), **held) == [
        'd[0].consumesCounters[0].counterSet: Invalid value: "t": must reference a counterSet defined in the '
        "ResourceSlice sharedCounters"
    ]
    assert references(device(consumesCounters=[draw(counters=3)]), **held) == [
        'd[0].consumesCounters[0].counters: Invalid value: "c2": must reference a counter defined in the '
        "ResourceSlice sharedCounters"
    ]


def test_a_device_and_a_slice_draw_so_much() -> None:
    held = {"sharedCounters": [counter_set(counters=32), counter_set("t", 32)]}
    full = device(consumesCounters=[draw(counters=32)])
    assert references(*[full] * 32, **held) == []
    assert references(*[full] * 33, **held) == [
        "d: Invalid value: 1056: the total number of counters must not exceed 1024"
    ]
    greedy = device(consumesCounters=[draw(counters=32), draw("t", 1)])
    assert references(greedy, **held) == ["d[0]: Invalid value: 33: the total number of counters must not exceed 32"]


SHARED = gates("1.38", DRASharedConsumableCapacity=True)
BOTH = "must specify exactly one of: `value`, `valueFrom`"


def test_a_counter_of_a_set_may_have_a_policy_and_needs_an_amount() -> None:
    policy = {"default": "2", "validRange": {"min": "1", "max": "9"}}
    assert sets({"name": "s", "counters": {"c": {"value": "5", "requestPolicy": policy}}}, release=SHARED) == [
        's[0].counters[c].requestPolicy.validRange.max: Invalid value: "9": max is larger than capacity value: 5'
    ]
    assert sets({"name": "s", "counters": {"c": {"valueFrom": {"capacityName": "x"}}}}, release=SHARED) == [
        "s[0].counters[c].value: Required value",
        "s[0].counters[c].valueFrom: Forbidden: may only be set in `consumesCounters`",
    ]


@pytest.mark.parametrize(
    ("counter", "wanted"),
    [
        ({"valueFrom": {"capacityName": "bandwidth"}}, []),
        ({"value": "1"}, []),
        ({}, [f'd[0].counters[c]: Invalid value: "": {BOTH}']),
        (
            {"value": "1", "valueFrom": {"capacityName": "d.example.com/bandwidth"}},
            [f'd[0].counters[c]: Invalid value: "{{`value`, `valueFrom`}}": {BOTH}'],
        ),
        ({"valueFrom": {}}, ["d[0].counters[c].valueFrom.capacityName: Required value"]),
        (
            {"value": "1", "requestPolicy": {"default": "1"}},
            ["d[0].counters[c].requestPolicy: Forbidden: may only be set in `sharedCounters`"],
        ),
    ],
)
def test_a_device_takes_a_fixed_amount_or_that_of_a_request(counter: dict[str, Any], wanted: list[str]) -> None:
    assert draws({"counterSet": "s", "counters": {"c": counter}}, release=SHARED) == wanted


def test_an_allocation_lists_at_most_two_sets_each_once() -> None:
    def consumed(*given: dict[str, Any]) -> list[str]:
        errors = ErrorList()
        validate_consumed(errors, FieldPath("r"), [from_dict(CounterSetConsumption, one) for one in given])
        return texts(errors)

    one = {"counterSet": "s", "counters": {"c": "1"}}
    assert consumed(one) == []
    assert consumed(one, one) == ['r[1]: Duplicate value: "s"']
    assert consumed(one, one, one) == ["r: Too many: 3: must have at most 2 items"]
    assert consumed({"counters": {}}) == ["r[0].counterSet: Required value", "r[0].counters: Required value"]
