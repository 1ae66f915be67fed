"""What the node counts, under the kubelet's names (docs/spec/node.md §23)."""

from __future__ import annotations

import pytest

from cathedra.clock import SystemClock
from cathedra.node.metrics import NodeMetrics


def lines(metrics: NodeMetrics) -> list[str]:
    return [
        line for line in metrics.text().decode().splitlines() if not line.startswith("#") and "_created" not in line
    ]


def test_claims_in_use_are_told_in_all_and_per_driver() -> None:
    metrics = NodeMetrics(SystemClock())
    assert 'dra_resource_claims_in_use{driver_name="<any>"} 0' in lines(metrics)
    metrics.set_claims_in_use(2, {"a": 1, "b": 1})
    metrics.set_claims_in_use(1, {"b": 1})
    assert [line for line in lines(metrics) if line.startswith("dra_resource_claims_in_use")] == [
        'dra_resource_claims_in_use{driver_name="<any>"} 1',
        'dra_resource_claims_in_use{driver_name="b"} 1',
    ]


def test_a_plugin_that_is_gone_is_not_told_any_more() -> None:
    metrics = NodeMetrics(SystemClock())
    metrics.plugin("/x.sock", "desired_state_of_world", present=True)
    series = 'plugin_manager_total_plugins{socket_path="/x.sock",state="desired_state_of_world"} 1'
    assert series in lines(metrics)
    for _ in range(2):
        metrics.plugin("/x.sock", "desired_state_of_world", present=False)
    assert not any("x.sock" in line for line in lines(metrics))


def test_calls_of_the_pod_resources_service_are_counted_by_method() -> None:
    metrics = NodeMetrics(SystemClock())
    metrics.pod_resources("list", "v1")
    metrics.pod_resources("get", "v1")
    metrics.pod_resources_failed("get", "v1")
    prefix = "kubelet_pod_resources_endpoint_"
    found = {line.split("{")[0].removeprefix(prefix): line.split()[-1] for line in lines(metrics) if prefix in line}
    assert found == {
        "requests_total": "2",
        "requests_list": "1",
        "requests_get": "1",
        "errors_get": "1",
    }


def test_durations_of_drivers_have_buckets_up_to_forty_seconds() -> None:
    metrics = NodeMetrics(SystemClock())
    metrics.call("d", "/m", "OK", 0.2)
    bounds = [line.split('le="')[1].split('"')[0] for line in lines(metrics) if "dra_grpc" in line and "le=" in line]
    assert (bounds[0], bounds[-2], bounds[-1]) == ("0.1", "40", "+Inf")
    assert len(bounds) == 16


def test_calls_of_device_plugins_are_measured_even_if_they_fail() -> None:
    metrics = NodeMetrics(SystemClock())
    metrics.plugin_registered("example.com/gpu")
    with pytest.raises(OSError, match="gone"), metrics.allocation("example.com/gpu"):
        raise OSError("gone")
    assert 'kubelet_device_plugin_registration_total{resource_name="example.com/gpu"} 1' in lines(metrics)
    assert 'kubelet_device_plugin_alloc_duration_seconds_count{resource_name="example.com/gpu"} 1' in lines(metrics)


def test_containers_that_do_not_start_are_counted_by_reason() -> None:
    metrics = NodeMetrics(SystemClock())
    metrics.container_started("init_container")
    metrics.container_failed("init_container", "CreateContainerConfigError")
    failed = (
        'kubelet_started_containers_errors_total{code="CreateContainerConfigError",container_type="init_container"} 1'
    )
    assert failed in lines(metrics)


def test_objects_that_cannot_be_decoded_are_counted_by_resource_and_kind() -> None:
    metrics = NodeMetrics(SystemClock())
    metrics.undecodable("pods", "Pod")
    metrics.informer_failed("pods", "handler")
    assert 'cathedra_undecodable_objects_total{kind="Pod",resource="pods"} 1' in lines(metrics)
    assert 'cathedra_informer_failures_total{reason="handler",resource="pods"} 1' in lines(metrics)
