"""Leases."""

from __future__ import annotations

from cathedra.api.core import coordination_v1
from tests.unit.kinds.objects import problems_of


def test_a_lease_lasts() -> None:
    assert problems_of("leases", coordination_v1.Lease, {"spec": {"leaseDurationSeconds": 0}}) == [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"
    ]
