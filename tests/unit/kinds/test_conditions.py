"""Rules of conditions."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.meta_v1 import Condition
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import from_dict
from cathedra.kinds.conditions import validate_conditions
from cathedra.releases import FeatureGates
from tests.unit.kinds.objects import texts

FINE = {
    "type": "Ready",
    "status": "True",
    "reason": "AllGood",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def problems(*conditions: dict[str, Any], release: str = "1.37") -> list[str]:
    errors = ErrorList()
    made = [from_dict(Condition, {**FINE, **more}) for more in conditions]
    validate_conditions(errors, FieldPath("c"), made, FeatureGates.for_release(release))
    return texts(errors)


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({"status": "Maybe"}, 'c[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"'),
        (
            {"observedGeneration": -1},
            "c[0].observedGeneration: Invalid value: -1: must be greater than or equal to zero",
        ),
        ({"lastTransitionTime": None}, "c[0].lastTransitionTime: Required value"),
        ({"reason": ""}, "c[0].reason: Required value"),
        ({"status": ""}, "c[0].status: Required value"),
        ({"type": ""}, "c[0].type: Required value: is required"),
        ({"reason": "x" * 1025}, "c[0].reason: Too long: may not be more than 1024 bytes"),
        ({"message": "x" * 32769}, "c[0].message: Too long: may not be more than 32768 bytes"),
    ],
)
def test_each_part_of_a_condition_is_checked(more: dict[str, Any], wanted: str) -> None:
    assert problems(more) == [wanted]


def test_each_type_is_there_once() -> None:
    assert problems({}, {"type": "Other"}) == []
    assert problems({}, {}) == ['c[1]: Duplicate value: "Ready"']
    assert problems({}, {}, release="1.36") == ['c[1].type: Duplicate value: "Ready"']
