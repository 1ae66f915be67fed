"""Fields of claims go with closed gates, unless the stored object uses the feature."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api import resource
from cathedra.api.struct import from_dict, replace, to_dict
from cathedra.kinds.resource.claims.disabled_fields import enabled_claim_spec, enabled_claim_status
from tests.unit.kinds.objects import claim, context, created, definition_of, exactly, updated

SUB = {"name": "x", "deviceClassName": "c"}


@pytest.mark.parametrize(
    ("gate", "request_", "field"),
    [
        ("DRAPrioritizedList", {"name": "r", "firstAvailable": [SUB]}, "firstAvailable"),
        ("DRADeviceTaints", exactly(tolerations=[{"operator": "Exists"}]), "tolerations"),
        ("DRAConsumableCapacity", exactly(capacity={"requests": {"m": "1"}}), "capacity"),
    ],
)
def test_fields_of_requests_go_and_stay_where_they_are_in_use(gate: str, request_: dict[str, Any], field: str) -> None:
    closed = context("1.36", **{gate: False})
    strategy = definition_of("resourceclaims", "1.36").strategy
    made = claim(request_)
    assert field not in str(to_dict(created(strategy, made, closed)[0].spec))
    assert field in str(to_dict(created(strategy, made, context("1.36"))[0].spec))
    assert field in str(to_dict(updated(strategy, made, made, closed)[0].spec))


def test_a_spec_that_says_nothing_of_what_is_closed_is_taken_as_it_is() -> None:
    closed = context("1.37", DRADerivedAttributes=False).gates
    spec = claim(exactly(), {"name": "s", "firstAvailable": [SUB]}).spec
    assert enabled_claim_spec(spec, None, closed) is spec
    assert enabled_claim_spec(spec, spec, closed) is spec


def test_fields_of_results_go_and_stay_where_the_stored_status_uses_them() -> None:
    closed = context("1.36", DRADeviceBindingConditions=False)
    plain = {"request": "r", "driver": "d", "pool": "p", "device": "a"}
    given = {**plain, "bindingConditions": ["x"], "bindingFailureConditions": ["y"]}
    before, wanted = resource.ResourceClaimStatus(), allocated(plain, given)
    for _ in range(2):
        cleared = enabled_claim_status(wanted, replace(claim(), status=before), closed.gates)
        assert cleared == allocated(plain, plain)
        kept = enabled_claim_status(wanted, replace(claim(), status=allocated(given)), closed.gates)
        assert kept is wanted
    assert enabled_claim_status(allocated(plain), claim(), closed.gates) == allocated(plain)
    freed = resource.ResourceClaimStatus()
    assert enabled_claim_status(freed, replace(claim(), status=allocated(given)), closed.gates) is freed


def allocated(*results: dict[str, Any]) -> resource.ResourceClaimStatus:
    return from_dict(resource.ResourceClaimStatus, {"allocation": {"devices": {"results": list(results)}}})
