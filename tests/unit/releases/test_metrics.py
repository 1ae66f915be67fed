"""The table of Kubernetes' metrics that are served."""

from __future__ import annotations

import pytest

from cathedra.exposition import text_of
from cathedra.releases import FeatureGates
from cathedra.releases.metrics import metric, metrics, release_families


def test_a_metric_has_its_labels_and_the_stability_in_its_help() -> None:
    found = metric("authentication_attempts")
    assert (found.kind, found.labels) == ("counter", ("result",))
    assert found.help == "[ALPHA] Counter of authenticated attempts."


def test_an_unknown_metric_is_an_error() -> None:
    with pytest.raises(KeyError):
        metric("apiserver_nothing_total")


def test_every_metric_has_a_type_and_a_help() -> None:
    for found in metrics().values():
        assert found.kind in {"counter", "gauge", "histogram"}
        assert found.help.split(" ", 1)[0] in {"[STABLE]", "[BETA]", "[ALPHA]"}
        assert len(found.help) > len("[STABLE] ")


def test_a_process_shows_its_release_and_gates() -> None:
    gates = FeatureGates.for_release("1.37", {"DRAPartitionableDevices": False})
    shown = text_of(release_families(gates)).decode()
    assert "kubernetes_build_info{" in shown
    assert 'kubernetes_feature_enabled{name="DynamicResourceAllocation",stage=""} 1' in shown
    assert 'kubernetes_feature_enabled{name="DRAPartitionableDevices",stage="BETA"} 0' in shown
