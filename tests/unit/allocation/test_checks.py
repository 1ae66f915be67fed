"""The single tests: taints, capacity, values, projections of selectors, node targets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.allocation import FatalError, Features
from cathedra.allocation.checks.capacity import CapacityUsage, Unusable, usage
from cathedra.allocation.checks.selectors import SelectorCache
from cathedra.allocation.checks.values import scalar_or_set
from cathedra.allocation.search.lookahead import matchable
from cathedra.allocation.supply.devices import Interner, Signature
from cathedra.allocation.supply.nodes import NodeTarget
from cathedra.api.core import core_v1
from cathedra.api.quantity import Quantity
from cathedra.api.resource import Device, DeviceAttribute
from cathedra.api.struct import from_dict
from tests.unit.allocation.building import device, node


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


@pytest.mark.parametrize(
    ("expression", "sees"),
    [
        ('device.attributes["drv"].model == "a"', ("drv/model",)),
        ('device.attributes["drv"].?numa.orValue(0) == 0 && device.driver == "drv"', ("drv/numa",)),
        ('"x" in device.attributes["acme.test"]', ("acme.test/x",)),
        ("device.allowMultipleAllocations", ()),
        ('device.capacity["drv"].mem.compareTo(quantity("1Gi")) >= 0', ()),
        ('device.attributes["drv"].exists(k, k == "model")', None),
        ("device.attributes.size() > 1", None),
    ],
)
def test_what_a_selector_looks_at_is_read_from_its_text(expression: str, sees: tuple[str, ...] | None) -> None:
    assert SelectorCache().of([expression], Features()).projection == sees


def test_the_same_selectors_are_one_question() -> None:
    questions = SelectorCache()
    one = questions.of(["true"], Features())
    assert questions.of(["true"], Features()) is one
    assert questions.of(["true"], Features(consumable_capacity=False)) is not one


@pytest.mark.parametrize(
    ("requirement", "matches"),
    [
        ({"key": "zone", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "zone", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "rack", "operator": "NotIn", "values": ["a"]}, True),
        ({"key": "rack", "operator": "Exists"}, False),
        ({"key": "rack", "operator": "DoesNotExist"}, True),
        ({"key": "cores", "operator": "Gt", "values": ["7"]}, True),
        ({"key": "cores", "operator": "Lt", "values": ["8"]}, False),
        ({"key": "zone", "operator": "Gt", "values": ["1"]}, False),
    ],
)
def test_a_target_matches_labels(requirement: dict[str, object], matches: bool) -> None:
    selector = from_dict(core_v1.NodeSelector, {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]})
    assert NodeTarget(None, None, selector).matches(node(zone="a", cores="8")) == matches


def test_a_target_is_tested_by_name_then_all_then_selector() -> None:
    broken = from_dict(
        core_v1.NodeSelector,
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": []}]}]},
    )
    assert not NodeTarget("birch", True, broken).matches(node("alder"))
    assert NodeTarget(None, True, broken).matches(node("alder"))
    with pytest.raises(FatalError, match="failed to parse node selector"):
        NodeTarget(None, None, broken).matches(node("alder"))
    assert not NodeTarget(None, None, None).matches(node("alder"))


@settings(max_examples=80)
@given(st.lists(st.integers(0, 31), max_size=5))
def test_units_are_matchable_exactly_if_some_choice_gives_each_its_own(units: list[int]) -> None:
    def serve(rest: list[int], taken: int) -> bool:
        return not rest or any(
            rest[0] >> at & 1 and not taken >> at & 1 and serve(rest[1:], taken | 1 << at) for at in range(5)
        )

    assert matchable(units) == (len(units) < 2 or serve(units, 0))
