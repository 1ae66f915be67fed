"""Rules of counters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.quantity import Quantity
from cathedra.api.resource import CapacityRequestPolicy, CounterSet, CounterSetConsumption, DeviceCounterConsumption
from cathedra.api.struct import from_dict
from cathedra.kinds.resource.slices.counters import (
    validate_consumed,
    validate_consumptions,
    validate_counter_sets,
    validate_policy,
    validate_references,
)
from cathedra.releases import FeatureGates
from tests.unit.kinds.objects import device, gates, resource_slice, texts

OLD, NEW = gates("1.34"), gates("1.37", DRAFractionalCapacityRange=True)


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


# Rules of request policies.

GATES = {"1.36": gates("1.36"), "1.37": NEW}


def problems_of_capacity(value: str = "10", release: str = "1.37", **policy: Any) -> list[str]:
    errors = ErrorList()
    made = from_dict(CapacityRequestPolicy, policy)
    validate_policy(errors, FieldPath("p"), made, Quantity(value), GATES[release])
    return texts(errors)


def begin(found: list[str], *wanted: str) -> None:
    assert len(found) == len(wanted), found
    assert all(text.startswith(beginning) for text, beginning in zip(found, wanted, strict=True)), found


def test_a_policy_may_say_nothing_at_all() -> None:
    assert problems_of_capacity() == problems_of_capacity(default="3") == []


def test_a_policy_lists_values_or_bounds_them() -> None:
    begin(
        problems_of_capacity(default="1", validRange={"min": "1"}, validValues=["1"]),
        "p: Forbidden: exactly one policy can be",
    )


@pytest.mark.parametrize(
    ("values", "default", "wanted"),
    [
        (["1", "2"], "1", []),
        (["1", "2"], "3", ['p.validValues: Invalid value: "3": default value is not valid according to']),
        (["1"], None, ["p.default: Required value: required when validValues is defined"]),
        (["2", "1"], "1", ['p.validValues[1]: Invalid value: "1": values must be sorted in ascending order']),
        (["1", "11"], "1", ['p.validValues[1]: Invalid value: "11": option is larger than capacity value: 10']),
        (["1", "1"], "1", ['p.validValues[1]: Duplicate value: "1"']),
        (
            ["1", "1", "11"],
            "1",
            [
                'p.validValues[2]: Invalid value: "11": option is larger than capacity value: 10',
                'p.validValues[1]: Duplicate value: "1"',
            ],
        ),
        (["1000m", "1"], "1", ['p.validValues[1]: Duplicate value: "1"']),
        ([str(n) for n in range(1, 12)], "1", ["p.validValues: Too many: 11: must have at most 10 items"]),
    ],
)
def test_values_rise_fit_the_capacity_and_hold_the_default(
    values: list[str], default: str | None, wanted: list[str]
) -> None:
    begin(
        problems_of_capacity(
            "11" if len(values) == 11 else "10", validValues=values, **({"default": default} if default else {})
        ),
        *wanted,
    )


def test_the_gate_of_fractional_ranges_decides_whether_fractions_count() -> None:
    """Without DRAFractionalCapacityRange, amounts are rounded to whole units."""
    values = from_dict(CapacityRequestPolicy, {"default": "1100m", "validValues": ["1100m", "1200m"]})
    steps = from_dict(CapacityRequestPolicy, {"default": "1500m", "validRange": {"min": "1", "step": "500m"}})
    for on, wanted in ((True, []), (False, ['p.validValues[1]: Duplicate value: "2"'])):
        gates = FeatureGates.for_release("1.37", {"DRAFractionalCapacityRange": on})
        errors = ErrorList()
        validate_policy(errors, FieldPath("p"), values, Quantity("10"), gates)
        assert texts(errors) == wanted
        errors = ErrorList()
        validate_policy(errors, FieldPath("p"), steps, Quantity("10"), gates)
        assert (texts(errors) == []) or not on


def test_values_that_differ_in_fractions_were_equal_before_137() -> None:
    values = {"default": "1100m", "validValues": ["1100m", "1200m"]}
    assert problems_of_capacity(**values) == []
    assert problems_of_capacity(release="1.36", **values) == ['p.validValues[1]: Duplicate value: "2"']


@pytest.mark.parametrize(
    ("bounds", "default", "wanted"),
    [
        ({"min": "1", "max": "4", "step": "1"}, "1", []),
        ({"min": "1"}, None, ["p.default: Required value: required when validRange is defined"]),
        ({"max": "4"}, "1", ["p.validRange.min: Required value: required when validRange is defined"]),
        ({"min": "11"}, "11", ['p.validRange.min: Invalid value: "11": min is larger than capacity value: 10']),
        ({"min": "2"}, "1", ['p.validRange.default: Invalid value: "1": default is less than min: 2']),
        (
            {"min": "2", "max": "1"},
            "2",
            ['p.validRange.max: Invalid value: "2": min is larger than max: 1', "p.validRange.default"],
        ),
        ({"min": "1", "max": "11"}, "1", ['p.validRange.max: Invalid value: "11": max is larger than capacity value']),
        ({"min": "1", "max": "2"}, "3", ['p.validRange.default: Invalid value: "3": default is more than max: 2']),
        ({"min": "1", "step": "0"}, "1", ['p.validRange.step: Invalid value: "0": must be greater than zero']),
        ({"min": "1", "step": "-1"}, "1", ['p.validRange.step: Invalid value: "-1": must be greater than zero']),
        ({"min": "1", "step": "10"}, "1", ['p.validRange.step: Invalid value: "10": one step 11 is larger than capac']),
        ({"min": "1", "step": "2"}, "2", ['p.validRange.step: Invalid value: "2": value is not a multiple of a given']),
        (
            {"min": "1", "max": "4", "step": "2"},
            "1",
            ['p.validRange.step: Invalid value: "4": value is not a multiple'],
        ),
    ],
)
def test_a_range_fits_the_capacity_and_holds_the_default_on_a_step(
    bounds: dict[str, str], default: str | None, wanted: list[str]
) -> None:
    begin(problems_of_capacity(validRange=bounds, **({"default": default} if default else {})), *wanted)


def test_a_default_out_of_range_was_told_at_the_bound_before_137() -> None:
    begin(
        problems_of_capacity(release="1.36", default="1", validRange={"min": "2"}),
        'p.validRange.min: Invalid value: "1"',
    )
    begin(
        problems_of_capacity(release="1.36", default="3", validRange={"min": "1", "max": "2"}),
        'p.validRange.max: Invalid value: "3"',
    )


@given(st.integers(0, 5), st.integers(0, 20), st.integers(1, 5), st.integers(0, 12))
def test_a_range_accepts_just_the_defaults_that_it_would_give(least: int, most: int, step: int, times: int) -> None:
    """A policy is accepted if and only if its default is a request that the policy itself lets through."""
    default = least + step * times
    bounds = {"min": str(least), "max": str(most), "step": str(step)}
    found = problems_of_capacity("100", default=str(default), validRange=bounds)
    sound = least <= default <= most and (most - least) % step == 0
    assert (found == []) is sound


@given(st.integers(1, 40), st.integers(1, 40))
def test_fractions_of_a_step_count_since_137(default: int, step: int) -> None:
    found = problems_of_capacity("100", default=f"{default}m", validRange={"min": "0", "step": f"{step}m"})
    assert (found == []) is (default % step == 0)


@pytest.mark.parametrize(
    ("default", "bounds", "wanted"),
    [
        ("1", {"min": "1", "step": "3"}, []),
        ("500m", {"min": "500m", "step": "250m", "max": "2"}, []),
        (
            "600m",
            {"min": "500m", "step": "250m"},
            ['p.validRange.step: Invalid value: "600m": value is not a multiple'],
        ),
        ("1500m", {"min": "1", "step": "1"}, ['p.validRange.step: Invalid value: "1500m": value is not a multiple']),
        (
            "1u",
            {"min": "1u", "step": "1"},
            [
                'p.validRange.default: Invalid value: "1u": value cannot be represented as a milli value',
                'p.validRange.min: Invalid value: "1u": value cannot be represented as a milli value',
            ],
        ),
        (
            "1",
            {"min": "-1", "step": "2"},
            ['p.validRange.min: Invalid value: "-1": must be greater than or equal to 0'],
        ),
        (
            "1",
            {"min": "1", "step": "10E"},
            [
                'p.validRange.step: Invalid value: "10E": one step 10000000000000000001 is larger than capacity value',
                'p.validRange.step: Invalid value: "10E": must not be larger than 9223372036854775807',
            ],
        ),
    ],
)
def test_steps_of_137_are_counted_in_thousandths_where_something_is_a_fraction(
    default: str, bounds: dict[str, str], wanted: list[str]
) -> None:
    begin(problems_of_capacity(default=default, validRange=bounds), *wanted)


def test_what_is_twice_among_the_values_is_shown_without_a_suffix() -> None:
    begin(
        problems_of_capacity("4Ki", default="1Ki", validValues=["1Ki", "1024"]),
        'p.validValues[1]: Duplicate value: "1024"',
    )
    begin(
        problems_of_capacity("4", default="1", validValues=["1", "1500m", "1.5"]),
        'p.validValues[2]: Duplicate value: "1.5"',
    )
