"""Pod disruption budgets as a table shows them."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.policy_v1 import PodDisruptionBudget
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import problems_of, row


@pytest.mark.parametrize(
    ("spec", "least", "most"),
    [({"minAvailable": 2}, "2", "N/A"), ({"maxUnavailable": "10%"}, "N/A", "10%"), ({}, "N/A", "N/A")],
)
def test_the_bound_that_is_not_given_is_not_applicable(spec: dict[str, Any], least: str, most: str) -> None:
    values = {"metadata": {"name": "b"}, "spec": spec, "status": {"disruptionsAllowed": 3}}
    shown = row("poddisruptionbudgets", from_dict(PodDisruptionBudget, values))
    assert (shown["Min Available"], shown["Max Unavailable"], shown["Allowed Disruptions"]) == (least, most, 3)


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"minAvailable": 2, "unhealthyPodEvictionPolicy": "AlwaysAllow"}, ""),
        ({"minAvailable": "101%"}, 'spec.minAvailable: Invalid value: "101%": must not be greater than 100%'),
        ({"maxUnavailable": -1}, "spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"),
        ({"maxUnavailable": 1, "minAvailable": 1}, "spec: Invalid value: {"),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
            "spec.selector.matchExpressions[0].operator: ",
        ),
        (
            {"unhealthyPodEvictionPolicy": "Never"},
            'spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "AlwaysAllow", "IfHealthy',
        ),
    ],
)
def test_a_budget_is_checked(spec: dict[str, Any], wanted: str) -> None:
    found = problems_of("poddisruptionbudgets", PodDisruptionBudget, {"metadata": {"name": "b"}, "spec": spec})
    assert len(found) == bool(wanted)
    assert all(text.startswith(wanted) for text in found)


@pytest.mark.parametrize("digits", ["101", "0101", "9" * 5000])
def test_a_percentage_may_have_any_number_of_digits(digits: str) -> None:
    values = {"metadata": {"name": "b"}, "spec": {"minAvailable": f"{digits}%"}}
    (text,) = problems_of("poddisruptionbudgets", PodDisruptionBudget, values)
    assert text.endswith(": must not be greater than 100%")
