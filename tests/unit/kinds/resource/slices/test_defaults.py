"""Defaults of slices."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import NOW, defaulted, definition_of, resource_slice
from tests.unit.kinds.resource.test_conversion import slices


@settings(max_examples=40, deadline=None)
@given(slices)
def test_defaults_of_slices_are_idempotent(values: dict[str, Any]) -> None:
    kind = definition_of("resourceslices").type
    once = defaulted("resourceslices", from_dict(kind, values))
    assert defaulted("resourceslices", once) == once


def test_taints_of_slices_are_dated() -> None:
    made = defaulted("resourceslices", resource_slice({"name": "d", "taints": [{"key": "k", "effect": "NoExecute"}]}))
    assert made.spec.devices[0].taints[0].time_added.timestamp == NOW
