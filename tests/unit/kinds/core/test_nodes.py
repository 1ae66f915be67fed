"""Nodes."""

from __future__ import annotations

import pytest

from cathedra.api.core import core_v1
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import problems_of, row


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
