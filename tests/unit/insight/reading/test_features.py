"""Feature gates that a component reports, and releases that are near to a version."""

from __future__ import annotations

import pytest

from cathedra.insight.reading.features import nearest_release, reported_gates
from cathedra.releases import NEWEST, RELEASES


@pytest.mark.parametrize(
    ("version", "release"),
    [("v1.33.2", "1.33"), ("1.34", "1.34"), ("v1.99.0-alpha", NEWEST), ("v1.2.3", RELEASES[0]), ("", ""), ("x", "")],
)
def test_the_nearest_release_is_the_last_one_that_is_not_newer(version: str, release: str) -> None:
    assert nearest_release(version) == release


def test_gates_are_read_from_metrics_with_the_labels_in_any_order() -> None:
    metrics = b'a 1\nkubernetes_feature_enabled{name="A",stage="BETA"} 1\n'
    metrics += b'kubernetes_feature_enabled{stage="",name="B"} 0\nkubernetes_feature_enabled{name="C",stage=""} 1.0\n'
    assert reported_gates(metrics) == {"A": True, "B": False, "C": True}


def test_metrics_without_gates_report_none() -> None:
    assert reported_gates(b'kubernetes_build_info{major="1"} 1\n') == {}
