"""What a profile tells of its plugins."""

from __future__ import annotations

import inspect

from cathedra.scheduler.framework.observer import PluginObserver
from cathedra.scheduler.metrics import SchedulerMetrics


def test_the_metrics_hear_all_that_is_told() -> None:
    told = {name for name in vars(PluginObserver) if not name.startswith("_")}
    assert {"evaluated", "ran", "waited_for_devices"} <= told
    for name in told:
        assert inspect.signature(getattr(SchedulerMetrics, name)) == inspect.signature(getattr(PluginObserver, name))
