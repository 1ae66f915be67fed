"""How long things may take."""

from __future__ import annotations

from cathedra.scheduler.configuration.reading import DEFAULT_CONFIGURATION
from cathedra.scheduler.dynamicresources.timeouts import DEFAULT_TIMEOUTS, Timeouts


def test_a_node_is_filtered_for_ten_seconds_and_devices_are_bound_for_ten_minutes() -> None:
    assert Timeouts(filter=10.0, binding=600.0) == DEFAULT_TIMEOUTS


def test_a_scheduler_without_arguments_has_these() -> None:
    (profile,) = DEFAULT_CONFIGURATION.profiles
    assert Timeouts(profile.filter_timeout, profile.binding_timeout) == DEFAULT_TIMEOUTS
