"""Feature gates that a component reports, and releases that are near to a version."""

from __future__ import annotations

from cathedra.insight.reading.features import reported_gates


def test_gates_are_read_from_metrics_with_the_labels_in_any_order() -> None:
    metrics = b'a 1\nkubernetes_feature_enabled{name="A",stage="BETA"} 1\n'
    metrics += b'kubernetes_feature_enabled{stage="",name="B"} 0\nkubernetes_feature_enabled{name="C",stage=""} 1.0\n'
    assert reported_gates(metrics) == {"A": True, "B": False, "C": True}


def test_metrics_without_gates_report_none() -> None:
    assert reported_gates(b'kubernetes_build_info{major="1"} 1\n') == {}
