"""Columns of classic kinds in kubectl: docs/spec/api.md §7.3."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import resource_v1alpha1 as v1alpha1
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


# Between v1alpha1 and v1alpha2: nothing is lost that both can express.

STATUS = {
    "driverName": "d.example.com",
    "allocation": {"resourceHandle": "x", "shareable": True},
    "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
    "deallocationRequested": False,
}


def test_the_one_handle_is_that_of_the_driver_in_the_status() -> None:
    old = from_dict(v1alpha1.ResourceClaim, {"metadata": {"name": "c"}, "status": STATUS})
    new = definitions.claim_to_hub(old)
    assert new.status.allocation is not None
    assert new.status.allocation.resource_handles == (v1alpha2.ResourceHandle(driver_name="d.example.com", data="x"),)
    assert definitions.claim_from_hub(new) == old


def test_a_claim_without_allocation_stays_without() -> None:
    old = from_dict(v1alpha1.ResourceClaim, {"metadata": {"name": "c"}, "spec": {"resourceClassName": "k"}})
    assert definitions.claim_from_hub(definitions.claim_to_hub(old)) == old


def test_pod_scheduling_becomes_a_context_and_again_what_it_was() -> None:
    spec = {"selectedNode": "n", "potentialNodes": ["m", "n"]}
    status = {"resourceClaims": [{"name": "a", "unsuitableNodes": ["m"]}]}
    old = from_dict(v1alpha1.PodScheduling, {"metadata": {"name": "p"}, "spec": spec, "status": status})
    new = definitions.context_to_hub(old)
    assert isinstance(new, v1alpha2.PodSchedulingContext)
    assert new.spec.selected_node == "n"
    assert definitions.context_from_hub(new) == old


def test_classes_and_templates_are_the_same_in_both() -> None:
    driver = from_dict(v1alpha1.ResourceClass, {"metadata": {"name": "k"}, "driverName": "d.example.com"})
    assert definitions.class_from_hub(definitions.class_to_hub(driver)) == driver
    wanted = {"metadata": {"name": "t"}, "spec": {"spec": {"resourceClassName": "k"}}}
    template = from_dict(v1alpha1.ResourceClaimTemplate, wanted)
    assert definitions.template_from_hub(definitions.template_to_hub(template)) == template
