"""Defaults of claims and templates."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import claim, defaulted, definition_of, exactly
from tests.unit.kinds.resource.test_conversion import claims


@settings(max_examples=40, deadline=None)
@given(claims)
def test_defaults_of_claims_are_idempotent(values: dict[str, Any]) -> None:
    kind = definition_of("resourceclaims").type
    once = defaulted("resourceclaims", from_dict(kind, values))
    assert defaulted("resourceclaims", once) is once


def test_a_request_is_for_exactly_one_device() -> None:
    made = defaulted("resourceclaims", claim(exactly(), exactly("s", allocationMode="All")))
    first, second = (request.exactly for request in made.spec.devices.requests)
    assert (first.allocation_mode, first.count) == ("ExactCount", 1)
    assert (second.allocation_mode, second.count) == ("All", 0)
