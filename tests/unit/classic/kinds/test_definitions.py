"""What kubectl shows of classic kinds: docs/spec/api.md §7.3."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.struct import from_dict
from cathedra.classic.kinds import definitions
from tests.unit.classic.kinds.objects import allocation, claim

USER = {"resource": "pods", "name": "p", "uid": "u"}


@pytest.mark.parametrize(
    ("status", "deleted", "wanted"),
    [
        ({}, False, "pending"),
        ({}, True, "deleted"),
        ({"allocation": allocation()}, False, "allocated"),
        ({"allocation": allocation(), "reservedFor": [USER]}, False, "allocated,reserved"),
        ({"allocation": allocation(), "deallocationRequested": True}, False, "allocated,deallocating"),
        ({"allocation": allocation()}, True, "deleted,allocated,deallocating"),
        ({"allocation": allocation(), "reservedFor": [USER]}, True, "deleted,allocated,reserved"),
    ],
)
def test_states_are_joined_in_kubernetes_order(status: dict[str, Any], deleted: bool, wanted: str) -> None:
    assert definitions.claim_state(claim(status, deleted=deleted)) == wanted


def test_each_kind_has_as_many_cells_as_columns() -> None:
    now = 1_700_000_000.0
    template = from_dict(v1alpha2.ResourceClaimTemplate, {"spec": {"spec": {"resourceClassName": "k"}}})
    rows = (
        (definitions.CLAIM_COLUMNS, definitions.claim_cells(claim(), now)),
        (definitions.CLASS_COLUMNS, definitions.class_cells(v1alpha2.ResourceClass(driver_name="d"), now)),
        (definitions.TEMPLATE_COLUMNS, definitions.template_cells(template, now)),
        (definitions.CONTEXT_COLUMNS, definitions.context_cells(v1alpha2.PodSchedulingContext(), now)),
    )
    assert [len(titles) for titles, _ in rows] == [len(cells) for _, cells in rows] == [5, 3, 4, 3]
