"""Reachability of slices from a node."""

from __future__ import annotations

import pytest

from cathedra.allocation import FatalError
from cathedra.allocation.supply.nodes import NodeTarget
from cathedra.api.core import core_v1
from cathedra.api.struct import from_dict
from tests.unit.allocation.building import node


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
