"""Nodes."""

from __future__ import annotations

import pytest

from cathedra.api.core import core_v1
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import context, defaulted, definition_of, problems_of, row


def test_a_node_says_whether_it_is_ready_and_cordoned() -> None:
    values = {"spec": {"unschedulable": True}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert row("nodes", from_dict(core_v1.Node, values))["Status"] == "Ready,SchedulingDisabled"


@pytest.mark.parametrize(
    ("taint", "wanted"),
    [
        ({"key": "a", "effect": "NoSchedule", "value": "b"}, []),
        ({"key": "a"}, ["metadata.taints[0].effect: Required value"]),
        (
            {"key": "a", "effect": "Never"},
            [
                'metadata.taints[0].effect: Unsupported value: "Never": supported values: "NoSchedule", '
                '"PreferNoSchedule", "NoExecute"'
            ],
        ),
    ],
)
def test_a_taint_has_one_of_three_effects(taint: dict[str, str], wanted: list[str]) -> None:
    assert problems_of("nodes", core_v1.Node, {"metadata": {"name": "n"}, "spec": {"taints": [taint]}}) == wanted


def test_a_taint_with_a_bad_key_or_value_or_one_that_comes_twice_is_refused() -> None:
    bad, twice = {"key": "a b", "value": "c d", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute"}
    node = {"metadata": {"name": "n"}, "spec": {"taints": [bad, twice, twice]}}
    found = problems_of("nodes", core_v1.Node, node)
    assert [text.partition(":")[0] for text in found] == [
        "metadata.taints[0].key",
        "metadata.taints[0].value",
        "metadata.taints[2]",
    ]
    assert found[-1].endswith(": taints must be unique by key and effect pair")


def test_a_node_of_which_nothing_is_reserved_offers_its_capacity() -> None:
    node = from_dict(core_v1.Node, {"status": {"capacity": {"cpu": "4"}}, "spec": {"podCIDR": "10.0.0.0/24"}})
    made = defaulted("nodes", node)
    assert made.status.allocatable == node.status.capacity
    assert made.spec.pod_cidrs == ("10.0.0.0/24",)


def test_capacity_is_counted_in_whole_devices() -> None:
    values = {"metadata": {"name": "n"}, "status": {"capacity": {"example.com/gpu": "500m"}}}
    assert problems_of("nodes", core_v1.Node, values) == [
        f'status.{field}.example.com/gpu: Invalid value: "500m": must be an integer'
        for field in ("capacity", "allocatable")
    ]


@pytest.mark.parametrize(
    ("ranges", "wanted"),
    [
        (["10.0.0.0/24", "fd00::/64"], []),
        (["x"], ["spec.podCIDRs[0]"]),
        (["10.0.0.0/24", "10.0.1.0/24"], ["spec.podCIDRs"]),
    ],
)
def test_a_node_has_one_range_of_addresses_for_each_family(ranges: list[str], wanted: list[str]) -> None:
    found = problems_of("nodes", core_v1.Node, {"metadata": {"name": "n"}, "spec": {"podCIDRs": ranges}})
    assert [text.partition(":")[0] for text in found] == wanted


def test_a_node_keeps_what_was_assigned_to_it() -> None:
    strategy = definition_of("nodes").strategy
    values = [{"podCIDRs": ["10.0.0.0/24"], "providerID": "a"}, {"podCIDRs": ["10.0.1.0/24"], "providerID": "b"}, {}]
    old, other, empty = (from_dict(core_v1.Node, {"spec": spec}) for spec in values)
    assert strategy.validate_update(old, empty, context()) == []
    assert [error.field for error in strategy.validate_update(other, old, context())] == [
        "spec.podCIDRs",
        "spec.providerID",
    ]


@pytest.mark.parametrize(
    ("release", "why"),
    [
        ("1.37", 'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid'),
        ("1.38", "spec.podCIDRs: Invalid value: null: field cannot be cleared once set"),
    ],
)
def test_the_ranges_of_a_node_are_not_cleared(release: str, why: str) -> None:
    """kubernetes/kubernetes#141260."""
    strategy = definition_of("nodes").strategy
    old, empty = (from_dict(core_v1.Node, {"spec": spec}) for spec in ({"podCIDRs": ["10.0.0.0/24"]}, {}))
    assert [str(error) for error in strategy.validate_update(empty, old, context(release))] == [why]
