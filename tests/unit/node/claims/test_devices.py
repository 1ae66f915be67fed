"""CDI devices of containers, from what is cached of prepared claims."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import DeviceAllocationResult, ResourceClaim, ResourceClaimStatus
from cathedra.api.struct import from_dict, replace
from cathedra.node.claims.claiminfo import ClaimInfo, ClaimInfoCache, DriverState
from cathedra.node.claims.devices import cdi_devices, check_allowed, claim_devices, driver_states, pod_claims
from cathedra.node.claims.errors import ClaimError, PrepareError
from cathedra.node.plugins.client import PluginDevice
from cathedra.releases import FeatureGates
from tests.unit.node.fakes import DRIVER, GATES, make_claim, make_pod

GPU = PluginDevice("p", "gpu-0", ("gpu",), ("d/gpu=0", "d/all=x"))
NIC = PluginDevice("p", "nic-0", ("nic",), ("d/nic=0", "d/all=x"))
ANY = PluginDevice("p", "any", (), ("e/any=0",))


def pod(*references: dict[str, Any]) -> Pod:
    spec = {
        "containers": [{"name": "c", "resources": {"claims": list(references)}}, {"name": "other"}],
        "resourceClaims": [{"name": "one", "resourceClaimName": "c1"}],
    }
    return from_dict(Pod, {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec})


def cache() -> ClaimInfoCache:
    found = ClaimInfoCache()
    drivers = {"d": DriverState((GPU, NIC)), "e": DriverState((ANY,))}
    found.add(ClaimInfo("ns", "c1", "uid", {"u"}, drivers))
    return found


def devices(made: Pod, container: int = 0) -> tuple[str, ...]:
    return cdi_devices(made, made.spec.containers[container], cache(), GATES)


def test_a_claim_as_a_whole_brings_all_its_devices_each_once() -> None:
    assert devices(pod({"name": "one"})) == ("d/gpu=0", "d/all=x", "d/nic=0", "e/any=0")


def test_a_request_brings_its_devices_and_those_that_serve_every_request() -> None:
    assert devices(pod({"name": "one", "request": "nic"})) == ("d/nic=0", "d/all=x", "e/any=0")


def test_a_container_that_names_no_claim_gets_nothing() -> None:
    assert devices(pod({"name": "one"}), container=1) == ()


def test_a_claim_that_is_not_prepared_is_named() -> None:
    made = pod({"name": "one"})
    with pytest.raises(ClaimError, match="unable to get claim info for ResourceClaim c1 in namespace ns"):
        cdi_devices(made, made.spec.containers[0], ClaimInfoCache(), GATES)


def test_devices_are_listed_with_their_drivers() -> None:
    (info,) = cache()
    assert list(claim_devices(info, "gpu")) == [("d", GPU), ("e", ANY)]


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
