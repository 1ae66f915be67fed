"""Pod disruption budgets as a table shows them."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.policy_v1 import PodDisruptionBudget
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import row


@pytest.mark.parametrize(
    ("spec", "least", "most"),
    [({"minAvailable": 2}, "2", "N/A"), ({"maxUnavailable": "10%"}, "N/A", "10%"), ({}, "N/A", "N/A")],
)
def test_the_bound_that_is_not_given_is_not_applicable(spec: dict[str, Any], least: str, most: str) -> None:
    values = {"metadata": {"name": "b"}, "spec": spec, "status": {"disruptionsAllowed": 3}}
    shown = row("poddisruptionbudgets", from_dict(PodDisruptionBudget, values))
    assert (shown["Min Available"], shown["Max Unavailable"], shown["Allowed Disruptions"]) == (least, most, 3)
