"""Queues count under client-go's names."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry

from cathedra.client.queuemetrics import QueueMetrics
from cathedra.client.workqueue import WorkQueue
from cathedra.clock import LoopClock
from tests.running import on_virtual_clock


@on_virtual_clock
async def test_depth_adds_retries_and_durations() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    registry = CollectorRegistry()
    queue: WorkQueue[str] = WorkQueue(clock, observer=QueueMetrics(registry, clock).of("job"))

    def value(name: str) -> float | None:
        return registry.get_sample_value(f"workqueue_{name}", {"name": "job"})

    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert (value("depth"), value("adds_total")) == (2, 2)
    await clock.sleep(3)
    key = await queue.get()
    assert (value("depth"), value("queue_duration_seconds_sum")) == (1, 3)
    await clock.sleep(5)
    assert (value("unfinished_work_seconds"), value("longest_running_processor_seconds")) == (5, 5)
    queue.done(key)
    queue.add_rate_limited(key)
    assert (value("work_duration_seconds_sum"), value("retries_total")) == (5, 1)
    assert value("unfinished_work_seconds") == 0
