"""CDI devices of containers, from what is cached of prepared claims."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import from_dict
from cathedra.node.claims.claiminfo import ClaimInfo, ClaimInfoCache, DriverState
from cathedra.node.claims.devices import cdi_devices, claim_devices
from cathedra.node.claims.errors import ClaimError
from cathedra.node.plugins.client import PluginDevice
from tests.unit.node.fakes import GATES

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
