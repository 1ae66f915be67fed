"""Where claims that are allocated already can be used."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import NodeSelector
from cathedra.api.struct import from_dict, replace
from cathedra.scheduler.dynamicresources.cycle import ClaimCycle, Found, Placement
from tests.unit.scheduler.objects import claim, node

ZONE_A = from_dict(
    NodeSelector,
    {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]},
)


@pytest.mark.parametrize(
    ("placement", "zone", "allowed"),
    [
        (Placement(None, needs_optional_operations=False, broken=False), "b", True),
        (Placement(ZONE_A, needs_optional_operations=False, broken=False), "a", True),
        (Placement(ZONE_A, needs_optional_operations=False, broken=False), "b", False),
        (Placement(None, needs_optional_operations=False, broken=True), "a", False),
        (Placement(None, needs_optional_operations=True, broken=False), "a", False),
    ],
)
def test_the_allocations_node_selector_decides(placement: Placement, zone: str, allowed: bool) -> None:
    assert placement.allows(node("n", labels={"zone": zone})) is allowed


def test_a_node_that_declares_the_feature_may_leave_operations_out() -> None:
    declaring = node("n")
    declaring = replace(declaring, status=replace(declaring.status, declared_features=("DRAOptionalNodeOperations",)))
    assert Placement(None, needs_optional_operations=True, broken=False).allows(declaring)


def test_claims_without_a_place_are_those_to_be_allocated() -> None:
    anywhere = Placement(None, needs_optional_operations=False, broken=False)
    cycle = ClaimCycle([claim("a"), claim("b"), claim("c")], placements={1: anywhere})
    assert [one.metadata.name for one in cycle.unallocated] == ["a", "c"]


def test_the_special_claim_comes_last() -> None:
    cycle = ClaimCycle([claim("a")])
    assert [one.metadata.name for one in cycle.all_claims] == ["a"]
    cycle.special = claim("special")
    assert [one.metadata.name for one in cycle.all_claims] == ["a", "special"]


def test_what_a_filter_found_is_known_by_its_node() -> None:
    found = Found(lambda: ())
    cycle = ClaimCycle([claim("a")], results={"n1": found})
    assert cycle.found("n1") is found
    assert cycle.found("n2") is None
