"""What the node counts, under the kubelet's names (docs/spec/node.md §23)."""

from __future__ import annotations

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


def test_objects_that_cannot_be_decoded_are_counted_by_resource_and_kind() -> None:
    metrics = NodeMetrics(SystemClock())
    metrics.undecodable("pods", "Pod")
    metrics.informer_failed("pods", "handler")
    assert 'cathedra_undecodable_objects_total{kind="Pod",resource="pods"} 1' in lines(metrics)
    assert 'cathedra_informer_failures_total{reason="handler",resource="pods"} 1' in lines(metrics)
