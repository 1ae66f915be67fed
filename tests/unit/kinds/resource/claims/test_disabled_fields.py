"""Fields of claims go with closed gates, unless the stored object uses the feature."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.struct import to_dict
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
