"""Descriptions in a profile."""

from __future__ import annotations

from cathedra.profiles import load_profile


def test_drivers_are_named_once_in_the_order_of_the_pools() -> None:
    assert load_profile("gb200-4").drivers == ("gpu.nvidia.com", "compute-domain.nvidia.com")


def test_counters_are_used_by_devices_in_parts_alone() -> None:
    whole, parts = load_profile("h100-8"), load_profile("h100-8-mig")
    assert (whole.can_be_partitioned, whole.uses_counters) == (True, False)
    assert (parts.can_be_partitioned, parts.uses_counters) == (True, True)
