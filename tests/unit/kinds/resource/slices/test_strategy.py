"""Rows and generations of slices."""

from __future__ import annotations

from tests.unit.kinds.objects import resource_slice, row


def test_a_slice_names_node_driver_and_pool() -> None:
    found = row("resourceslices", resource_slice())
    assert (found["Node"], found["Driver"], found["Pool"]) == ("n1", "gpu.example.com", "p")
