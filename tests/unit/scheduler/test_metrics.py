"""What the scheduler counts, under kube-scheduler's names."""

from __future__ import annotations

from prometheus_client import generate_latest

from cathedra.scheduler.metrics import SchedulerMetrics


def lines(metrics: SchedulerMetrics) -> list[str]:
    return generate_latest(metrics.registry).decode().splitlines()


def test_attempts_are_counted_by_result_and_profile() -> None:
    metrics = SchedulerMetrics()
    metrics.attempted("scheduled", "default-scheduler", 0.003)
    metrics.attempted("scheduled", "default-scheduler", 0.003)
    metrics.attempted("error", "other", 1.0)
    shown = lines(metrics)
    assert 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 2.0' in shown
    assert 'scheduler_schedule_attempts_total{profile="other",result="error"} 1.0' in shown
    assert (
        'scheduler_scheduling_attempt_duration_seconds_bucket{le="0.004",profile="default-scheduler",'
        'result="scheduled"} 2.0'
    ) in shown


def test_what_is_held_is_read_when_it_is_asked_for() -> None:
    metrics = SchedulerMetrics()
    held = {"active": 1}
    metrics.show(lambda: held)
    assert 'scheduler_pending_pods{queue="active"} 1.0' in lines(metrics)
    held["active"] = 7
    assert 'scheduler_pending_pods{queue="active"} 7.0' in lines(metrics)
    assert 'scheduler_pending_pods{queue="gated"} 0.0' in lines(metrics)


def test_two_schedulers_do_not_mix() -> None:
    one, other = SchedulerMetrics(), SchedulerMetrics()
    one.attempted("scheduled", "p", 0.1)
    assert not any("p" in line and "scheduled" in line for line in lines(other) if not line.startswith("#"))
