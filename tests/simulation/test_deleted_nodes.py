"""A whole cluster with RBAC on, of which a node is deleted: its pods go, and their claims are freed."""

from __future__ import annotations

import logging

import pytest

from cathedra.testing import DRACluster
from tests.unit.testing.manifests import pod_with


@pytest.mark.dra_cluster(nodes=2, profile="h100-8")
def test_pods_and_claims_of_a_deleted_node_are_gone_a_minute_later(
    dra_cluster: DRACluster, caplog: pytest.LogCaptureFixture
) -> None:
    dra_cluster.apply(pod_with(4))
    node = dra_cluster.wait_for("pod/train", "condition=Ready").spec.node_name
    dra_cluster.delete(f"node/{node}")
    dra_cluster.advance(38)
    assert dra_cluster.get("pod/train").status.phase == "Running"
    # Up to 20 seconds until the node is missed, 40 of quarantine, and what is left of a round of 20.
    assert dra_cluster.wait_for("pod/train", "delete", timeout=45) is None
    dra_cluster.advance(5)
    assert dra_cluster.list("resourceclaims") == []
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
