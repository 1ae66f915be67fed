"""Earlier alternatives are worth more."""

from __future__ import annotations

from collections.abc import Sequence

from cathedra.api.resource import AllocationResult, DeviceAllocationResult, DeviceRequestAllocationResult
from cathedra.scheduler.dynamicresources.scoring import preference
from tests.unit.scheduler.objects import claim, exactly


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
