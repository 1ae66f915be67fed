"""Claims between v1, where requests are wrapped, and v1beta1, where they are flat."""

from __future__ import annotations

from typing import Any

from cathedra.api.core import resource_v1beta1 as v1beta1
from cathedra.api.struct import from_dict, to_dict
from cathedra.kinds.resource.claims.conversion import (
    claim_from_hub,
    claim_to_hub,
    template_from_hub,
    template_to_hub,
)
from tests.unit.kinds.objects import claim, exactly


def flat(**request: Any) -> v1beta1.ResourceClaim:
    return from_dict(v1beta1.ResourceClaim, {"spec": {"devices": {"requests": [{"name": "r", **request}]}}})


def test_a_flat_request_is_wrapped_and_comes_back_as_it_was() -> None:
    old = flat(deviceClassName="gpu", count=2, allocationMode="ExactCount")
    hub = claim_to_hub(old)
    (request,) = hub.spec.devices.requests or ()
    assert request.exactly is not None
    assert (request.exactly.device_class_name, request.exactly.count) == ("gpu", 2)
    assert claim_from_hub(hub) == old


def test_alternatives_stay_beside_and_nothing_is_wrapped() -> None:
    old = flat(firstAvailable=[{"name": "a", "deviceClassName": "gpu"}])
    (request,) = claim_to_hub(old).spec.devices.requests or ()
    assert request.exactly is None
    assert [one.name for one in request.first_available or ()] == ["a"]
    assert claim_from_hub(claim_to_hub(old)) == old


def test_a_claim_of_v1_survives_the_old_version() -> None:
    made = claim(exactly("a", count=3), exactly("b", adminAccess=True), constraints=[{"matchAttribute": "d/x"}])
    assert to_dict(claim_to_hub(claim_from_hub(made))) == to_dict(made)


def test_a_claim_without_requests_has_none_in_either_version() -> None:
    old = from_dict(v1beta1.ResourceClaim, {"spec": {"devices": {}}})
    assert claim_from_hub(claim_to_hub(old)) == old


def test_a_template_is_converted_like_the_claim_in_it() -> None:
    devices = {"requests": [{"name": "r", "deviceClassName": "gpu", "allocationMode": "All"}]}
    spec = {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": devices}}
    old = from_dict(v1beta1.ResourceClaimTemplate, {"metadata": {"name": "t"}, "spec": spec})
    hub = template_to_hub(old)
    assert hub.spec.metadata.labels == {"a": "b"}
    assert template_from_hub(hub) == old
