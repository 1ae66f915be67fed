"""Rows of claims."""

from __future__ import annotations

from tests.unit.kinds.objects import claim, row


def test_a_claim_says_whether_it_is_allocated_and_reserved() -> None:
    assert row("resourceclaims", claim())["State"] == "pending"
    allocation = {"devices": {"results": []}}
    assert row("resourceclaims", claim(status={"allocation": allocation}))["State"] == "allocated"
    reserved = {"allocation": allocation, "reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}
    assert row("resourceclaims", claim(status=reserved))["State"] == "allocated,reserved"
