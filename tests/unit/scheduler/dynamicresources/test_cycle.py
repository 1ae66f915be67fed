"""Where claims that are allocated already can be used."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cathedra.api.core.core_v1 import NodeSelector
from cathedra.api.resource import AllocationResult, DeviceAllocationResult, DeviceRequestAllocationResult
from cathedra.api.struct import from_dict, replace
from cathedra.scheduler.configuration.reading import DEFAULT_CONFIGURATION
from cathedra.scheduler.dynamicresources.cycle import (
    DEFAULT_TIMEOUTS,
    ClaimCycle,
    FoundAllocations,
    Placement,
    Timeouts,
    preference,
)
from tests.unit.scheduler.objects import claim, exactly, node

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
    found = FoundAllocations(lambda: ())
    cycle = ClaimCycle([claim("a")], results={"n1": found})
    assert cycle.found("n1") is found
    assert cycle.found("n2") is None


def allocated(*requests: str) -> AllocationResult:
    results = tuple(DeviceRequestAllocationResult(request=name, driver="d", pool="p", device="x") for name in requests)
    return AllocationResult(devices=DeviceAllocationResult(results=results))


def listed(name: str, subs: Sequence[str]) -> dict[str, object]:
    alternatives = [{"name": sub, "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1} for sub in subs]
    return {"name": name, "firstAvailable": alternatives}


def test_the_first_alternative_is_worth_eight_and_each_later_one_less() -> None:
    wanted = claim("c", listed("r", ["a", "b", "c"]))
    assert [preference(wanted, allocated(f"r/{sub}")) for sub in "abc"] == [8, 7, 6]


def test_lists_add_up_and_plain_requests_count_nothing() -> None:
    wanted = claim("c", listed("r", ["a", "b"]), listed("s", ["a", "b"]), exactly("t"))
    assert preference(wanted, allocated("r/a", "s/b", "t")) == 15


def test_a_claim_without_allocation_prefers_nothing() -> None:
    assert preference(claim("c", listed("r", ["a"])), None) == 0


def test_a_node_is_filtered_for_ten_seconds_and_devices_are_bound_for_ten_minutes() -> None:
    assert Timeouts(filter=10.0, binding=600.0) == DEFAULT_TIMEOUTS


def test_a_scheduler_without_arguments_has_these() -> None:
    (profile,) = DEFAULT_CONFIGURATION.profiles
    assert Timeouts(profile.filter_timeout, profile.binding_timeout) == DEFAULT_TIMEOUTS
