"""Metrics of a driver."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from cathedra.driver.metrics import FabricMetrics, PrometheusMetrics


def test_counters_exist_from_the_start_and_count() -> None:
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry, "dra_example")

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"dra_example_{name}", labels)

    assert value("prepare_claims_total", result="error") == 0
    metrics.prepared("success", 0.5)
    metrics.unprepared("error", 0.25)
    metrics.background_error(recoverable=True)
    assert value("prepare_claims_total", result="success") == 1
    assert value("prepare_claim_duration_seconds_sum") == 0.5
    assert value("unprepare_claims_total", result="error") == 1
    assert value("fatal_background_errors_total") == 0
    metrics.background_error(recoverable=False)
    assert value("fatal_background_errors_total") == 1


def test_attempts_to_attach_and_detach_are_counted_by_result() -> None:
    registry = CollectorRegistry()
    metrics = FabricMetrics(registry)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"dra_driver_{name}", labels)

    assert value("attach_devices_total", result="retry") == 0
    metrics.attached("success", 2.0)
    metrics.detached("error", 0.5)
    assert value("attach_devices_total", result="success") == 1
    assert value("attach_device_duration_seconds_sum") == 2.0
    assert value("detach_devices_total", result="error") == 1
    assert value("detach_device_duration_seconds_sum") == 0.5
