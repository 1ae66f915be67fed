"""Which claims a pod has, and whether it may use them."""

from __future__ import annotations

import pytest

from cathedra.api.resource import DeviceAllocationResult, ResourceClaim, ResourceClaimStatus
from cathedra.api.struct import replace
from cathedra.node.claims.errors import PrepareError
from cathedra.node.claims.resolve import check_allowed, driver_states, pod_claims
from cathedra.releases import FeatureGates
from tests.unit.node.fakes import DRIVER, GATES, make_claim, make_pod

WITHOUT = FeatureGates.for_release("1.37", {"DRAOptionalNodeOperations": False})
WITH = FeatureGates.for_release("1.37", {"DRAOptionalNodeOperations": True})


def skipping(*operations: tuple[str, ...]) -> ResourceClaim:
    """A claim with a device for each tuple of operations that it does without."""
    claim = make_claim("c", "p")
    allocation = claim.status.allocation
    assert allocation is not None
    result = allocation.devices.results[0]
    results = tuple(replace(result, skip_node_operations=each) for each in operations)
    devices = DeviceAllocationResult(results=results)
    return replace(claim, status=replace(claim.status, allocation=replace(allocation, devices=devices)))


def test_a_pod_has_the_claims_of_its_entries_in_order() -> None:
    found = pod_claims(make_pod("p", claims=["a", "b"]), GATES)
    assert [(claim.entry, claim.name) for claim in found] == [("a", "a"), ("b", "b")]


def test_reservation_and_allocation_are_needed() -> None:
    pod = make_pod("p", claims=["c"])
    (wanted,) = pod_claims(pod, GATES)
    check_allowed(pod, make_claim("c", "p"), wanted, GATES)
    with pytest.raises(PrepareError, match=r"pod p \(uid-p\) is not allowed to use ResourceClaim c \(uid-c\)"):
        check_allowed(pod, make_claim("c", "other"), wanted, GATES)
    reserved = make_claim("c", "p")
    bare = replace(reserved, status=ResourceClaimStatus(reserved_for=reserved.status.reserved_for))
    with pytest.raises(PrepareError, match="ResourceClaim c: not allocated"):
        check_allowed(pod, bare, wanted, GATES)


def test_a_driver_skips_what_all_of_its_devices_skip() -> None:
    assert driver_states(make_claim("c"), GATES)[DRIVER].skip == frozenset()
    both = ("NodePrepareResources", "NodeUnprepareResources")
    assert driver_states(skipping(("*",), both[:1]), WITH)[DRIVER].skip == {"NodePrepareResources"}
    assert driver_states(skipping(("*",), ()), WITH)[DRIVER].skip == frozenset()
    with pytest.raises(PrepareError, match="feature gate is disabled"):
        driver_states(skipping(("*",)), WITHOUT)
