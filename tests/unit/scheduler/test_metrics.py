"""What the scheduler counts, under kube-scheduler's names."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Histogram

from cathedra.api.core.scheduling_v1 import PriorityClass
from cathedra.api.struct import from_dict
from cathedra.exposition import text_of
from cathedra.releases import FeatureGates
from cathedra.scheduler.metrics import SchedulerMetrics
from cathedra.scheduler.queue.queuedpod import QueuedPodInfo
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.objects import node, pod
from tests.unit.scheduler.world import World, play


def lines(metrics: SchedulerMetrics) -> list[str]:
    return text_of(metrics.registry.collect()).decode().splitlines()


def test_attempts_are_counted_by_result_and_profile() -> None:
    metrics = SchedulerMetrics()
    metrics.attempted("scheduled", "default-scheduler", 0.003)
    metrics.attempted("scheduled", "default-scheduler", 0.003)
    metrics.attempted("error", "other", 1.0)
    shown = lines(metrics)
    assert 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 2' in shown
    assert 'scheduler_schedule_attempts_total{profile="other",result="error"} 1' in shown
    assert (
        'scheduler_scheduling_attempt_duration_seconds_bucket{profile="default-scheduler",result="scheduled",'
        'le="0.004"} 2'
    ) in shown


def test_the_histogram_of_attempts_is_that_of_the_prometheus_client() -> None:
    """Sums, counts and cumulative buckets; a value at a bound counts below it."""
    metrics = SchedulerMetrics()
    registry = CollectorRegistry()
    bounds = tuple(0.001 * 2**step for step in range(15))
    histogram = Histogram(
        "scheduler_scheduling_attempt_duration_seconds",
        "Seconds that an attempt took.",
        ["result", "profile"],
        buckets=bounds,
        registry=registry,
    )
    for result, seconds in (("scheduled", 0.001), ("scheduled", 0.0), ("error", 0.003), ("scheduled", 99.0)):
        metrics.attempted(result, "p", seconds)
        histogram.labels(result, "p").observe(seconds)
    expected = [line for line in text_of(registry.collect()).decode().splitlines() if line[0] != "#"]
    shown = [line for line in lines(metrics) if "attempt_duration" in line and line[0] != "#"]
    assert sorted(shown) == sorted(expected)  # sum and count are in another order


def test_what_is_held_is_read_when_it_is_asked_for() -> None:
    metrics = SchedulerMetrics()
    held = {"active": 1}
    metrics.show(lambda: held)
    assert 'scheduler_pending_pods{queue="active"} 1' in lines(metrics)
    held["active"] = 7
    assert 'scheduler_pending_pods{queue="active"} 7' in lines(metrics)
    assert 'scheduler_pending_pods{queue="gated"} 0' in lines(metrics)


def test_two_schedulers_do_not_mix() -> None:
    one, other = SchedulerMetrics(), SchedulerMetrics()
    one.attempted("scheduled", "p", 0.1)
    assert not any("p" in line and "scheduled" in line for line in lines(other) if not line.startswith("#"))


def test_plugins_are_counted_and_measured_while_a_pod_is_placed() -> None:
    metrics = SchedulerMetrics()

    async def body(world: World) -> None:
        await world.create(node("n1"), node("n2"), pod("p", requests={"cpu": "1"}))
        await world.bound("p")

    play(body, metrics=metrics)
    shown = lines(metrics)
    filtered = 'extension_point="Filter",plugin="NodeResourcesFit",profile="default-scheduler"'
    assert f"scheduler_plugin_evaluation_total{{{filtered}}} 2" in shown
    scored = 'extension_point="Score",plugin="NodeResourcesFit",profile="default-scheduler"'
    assert f"scheduler_plugin_evaluation_total{{{scored}}} 2" in shown
    for point, plugin in (
        ("PreFilter", "DynamicResources"),
        ("Filter", "NodeUnschedulable"),
        ("Bind", "DefaultBinder"),
    ):
        labels = f'extension_point="{point}",plugin="{plugin}",status='
        count = f"scheduler_plugin_execution_duration_seconds_count{{{labels}"
        assert any(line.startswith(count) for line in shown), labels


def test_waits_for_devices_are_counted_by_driver_and_outcome() -> None:
    metrics = SchedulerMetrics()
    metrics.waited_for_devices("default-scheduler", "gpu.example.com", "timeout", 600.0)
    labels = 'driver="gpu.example.com",profile="default-scheduler",status="timeout"'
    assert f"scheduler_dra_bindingconditions_allocations_total{{{labels}}} 1" in lines(metrics)
    assert f"scheduler_dra_bindingconditions_wait_duration_seconds_sum{{{labels}}} 600" in lines(metrics)


def test_a_pod_counts_where_it_enters_the_queue_and_by_the_event() -> None:
    metrics = SchedulerMetrics()

    async def body(world: World) -> None:
        await world.create(pod("gated", schedulingGates=[{"name": "example.com/g"}]))
        await world.create(node("small", cpu="1"), pod("p", requests={"cpu": "2"}))
        await world.quiet()
        refusing = 'scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"}'
        assert f"{refusing} 1" in lines(metrics)
        await world.create(node("large", cpu="4"))
        await world.bound("p")
        await world.quiet()
        assert f"{refusing} 0" in lines(metrics)

    play(body, metrics=metrics)
    shown = lines(metrics)
    for queue, event in (
        ("active", "UnscheduledPodAdd"),
        ("unschedulable", "UnscheduledPodAdd"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("backoff", "NodeAdd"),
        ("active", "PopFromBackoffQ"),
    ):
        assert f'scheduler_queue_incoming_pods_total{{event="{event}",queue="{queue}"}} 1' in shown
    assert 'scheduler_unschedulable_pods{plugin="SchedulingGates",profile="default-scheduler"} 1' in shown
    assert 'scheduler_pod_scheduling_sli_duration_seconds_count{attempts="2"} 1' in shown
    assert "scheduler_pod_scheduling_attempts_sum 2" in shown
    assert "scheduler_preemption_attempts_total 1" in shown
    assert "scheduler_preemption_victims_count 0" in shown


def test_preemptions_and_their_victims_are_counted() -> None:
    metrics = SchedulerMetrics()

    async def body(world: World) -> None:
        await world.create(node("n", cpu="2"))
        await world.create(from_dict(PriorityClass, {"metadata": {"name": "high"}, "value": 10}))
        await world.create(pod("a", requests={"cpu": "1"}), pod("b", requests={"cpu": "1"}))
        await world.bound("a", "b")
        await world.create(pod("top", requests={"cpu": "2"}, priorityClassName="high"))
        await world.quiet()

    play(body, metrics=metrics)
    shown = lines(metrics)
    assert "scheduler_preemption_victims_sum 2" in shown
    assert 'scheduler_preemption_victims_bucket{le="64"} 1' in shown


def test_more_attempts_than_fifteen_share_a_series() -> None:
    metrics = SchedulerMetrics()
    for attempts in (15, 99):
        entry = QueuedPodInfo(PodInfo(pod("p")), 0.0, attempts)
        metrics.pod_bound(entry)
    assert 'scheduler_pod_scheduling_sli_duration_seconds_count{attempts="15+"} 2' in lines(metrics)


@pytest.mark.parametrize(
    ("release", "series"),
    [
        ("1.36", 'scheduler_resourceclaim_creates_total{status="failure"}'),
        ("1.37", 'dynamic_resource_allocation_resourceclaim_creates_total{admin_access="false",status="failure"}'),
    ],
)
def test_claims_for_extended_resources_are_counted(release: str, series: str) -> None:
    metrics = SchedulerMetrics()
    metrics.show_created_claims(FeatureGates.for_release(release))
    metrics.claim_created("failure")
    assert f"{series} 1" in lines(metrics)
