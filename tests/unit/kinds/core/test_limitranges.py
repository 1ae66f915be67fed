"""LimitRanges: defaults and rules of the objects themselves."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import LimitRange, LimitRangeItem, LimitRangeSpec
from cathedra.api.quantity import Quantity
from cathedra.kinds.core.limitranges import default_limit_range, validate_limit_range


def cpu(amount: str) -> dict[str, Quantity]:
    return {"cpu": Quantity(amount)}


def of(*items: LimitRangeItem) -> LimitRange:
    return LimitRange(spec=LimitRangeSpec(limits=items))


@pytest.mark.parametrize(
    ("item", "default", "asked"),
    [
        (LimitRangeItem(type="Container", max=cpu("2")), cpu("2"), cpu("2")),
        (LimitRangeItem(type="Container", min=cpu("1")), {}, cpu("1")),
        (LimitRangeItem(type="Container", min=cpu("1"), default=cpu("3")), cpu("3"), cpu("3")),
        (LimitRangeItem(type="Container", max=cpu("4"), default_request=cpu("1")), cpu("4"), cpu("1")),
        (LimitRangeItem(type="Pod", max=cpu("2")), {}, {}),
    ],
)
def test_defaults_follow_from_bounds_of_containers(
    item: LimitRangeItem, default: dict[str, Quantity], asked: dict[str, Quantity]
) -> None:
    filled = default_limit_range(of(item)).spec.limits[0]
    assert (filled.default, filled.default_request) == (default, asked)


@pytest.mark.parametrize(
    ("items", "field", "detail"),
    [
        ([LimitRangeItem(type="Sock")], "type", "must be a standard limit type or fully qualified"),
        ([LimitRangeItem(type="Pod"), LimitRangeItem(type="Pod")], "type", "Duplicate"),
        ([LimitRangeItem(type="Pod", default=cpu("1"))], "default", "may not be specified when `type` is 'Pod'"),
        ([LimitRangeItem(type="PersistentVolumeClaim")], "limits", "either minimum or maximum storage value"),
        (
            [LimitRangeItem(type="Pod", min=cpu("2"), max=cpu("1"))],
            "min[cpu]",
            "min value 2 is greater than max value 1",
        ),
        (
            [LimitRangeItem(type="Container", default=cpu("1"), default_request=cpu("2"))],
            "defaultRequest[cpu]",
            "default request value 2 is greater than default limit value 1",
        ),
        ([LimitRangeItem(type="Pod", max_limit_request_ratio=cpu("500m"))], "maxLimitRequestRatio[cpu]", "less than 1"),
        (
            [LimitRangeItem(type="Pod", min=cpu("1"), max=cpu("2"), max_limit_request_ratio=cpu("3"))],
            "maxLimitRequestRatio[cpu]",
            "ratio 3 is greater than max/min = 2.000000",
        ),
        ([LimitRangeItem(type="Pod", max=cpu("-1"))], "max[cpu]", "must be greater than or equal to 0"),
    ],
)
def test_amounts_that_contradict_each_other_are_refused(items: list[LimitRangeItem], field: str, detail: str) -> None:
    errors = validate_limit_range(of(*items))
    assert len(errors) == 1
    assert f".{field}: " in str(errors[0])
    assert detail in str(errors[0])


def test_types_of_other_programs_are_qualified() -> None:
    assert validate_limit_range(of(LimitRangeItem(type="example.com/gpu"))) == []


def test_what_cannot_be_overcommitted_has_one_default() -> None:
    gpus = [{"example.com/gpu": Quantity(amount)} for amount in ("2", "1")]
    item = LimitRangeItem(type="Container", default=gpus[0], default_request=gpus[1])
    assert [str(error) for error in validate_limit_range(of(item))] == [
        'spec.limits[0].defaultRequest[example.com/gpu]: Invalid value: "1": default value 2 must equal to '
        "defaultRequest value 1 in example.com/gpu"
    ]


def test_a_limit_is_of_a_known_resource() -> None:
    item = LimitRangeItem(type="Container", max={"storage": Quantity("1")})
    assert [str(error) for error in validate_limit_range(of(item))] == [
        'spec.limits[0].max[storage]: Invalid value: "storage": must be a standard resource for containers'
    ]
    volume = LimitRangeItem(type="PersistentVolumeClaim", max={"storage": Quantity("1")})
    assert validate_limit_range(of(volume)) == []
