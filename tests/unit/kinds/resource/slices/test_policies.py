"""Rules of request policies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.quantity import Quantity
from cathedra.api.resource import CapacityRequestPolicy
from cathedra.api.struct import from_dict
from cathedra.kinds.resource.slices.policies import validate_policy
from cathedra.releases import FeatureGates
from tests.unit.kinds.objects import gates, texts

GATES = {release: gates(release) for release in ("1.36", "1.37")}


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
    """DRAFractionalCapacityRange is on by default; without it amounts are rounded to whole units."""
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
