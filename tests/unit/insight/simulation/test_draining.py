"""Drains: as kubectl drain, with its refusals."""

from __future__ import annotations

from typing import Any

from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.state import ClusterState
from cathedra.insight.simulation.report import Simulation
from cathedra.insight.simulation.run import PlannedChanges, simulate
from tests.unit.cli.dra.dumps import gpu_cluster

Object = dict[str, Any]
REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}
BARE = (
    'unable to drain node "node-0" due to error: cannot delete Pods that declare no controller '
    "(use --force to override): other/user-0"
)


def running(owner: Object | None = None, **metadata: Any) -> Object:
    """A pod on the first node that uses the claim of its device."""
    owners = {"ownerReferences": [owner]} if owner else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "user-0", "namespace": "other", "uid": "user-0", "labels": {"app": "web"}}
        | owners
        | metadata,
        "spec": {
            "nodeName": "node-0",
            "containers": [{"name": "main", "image": "main"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "held-0"}],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def replica_set(replicas: int) -> Object:
    labels = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "other", "uid": "rs"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "main"}]}},
        },
    }


def budget(least: int) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "other", "uid": "pdb"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}},
    }


def cluster(*objects: Object) -> ClusterState:
    return read_dump([*gpu_cluster(taken=1), *objects])


def drained(*objects: Object, force: bool = False, **changes: Any) -> Simulation:
    return simulate(cluster(*objects), PlannedChanges(drain=["node-0"], force=force, **changes))


def test_a_drained_node_gives_up_the_pods_that_a_controller_creates_again() -> None:
    found = drained(running(REPLICA_SET), replica_set(1))
    assert [(one.pod, one.node) for one in found.gone] == [("other/user-0", "node-0")]
    assert [one.node for one in found.placed] == ["node-1"]
    assert [(one.node, one.held_after) for one in found.nodes] == [("node-0", 0)]
    assert found.fits


def test_a_controller_that_was_not_read_is_one() -> None:
    assert drained(running(REPLICA_SET)).fits


def test_pods_without_a_controller_are_refused_in_the_words_of_kubectl() -> None:
    found = drained(running())
    assert (found.failures, found.gone, found.fits) == ((BARE,), (), False)


def test_pods_without_a_controller_are_deleted_by_force_with_a_warning() -> None:
    found = drained(running(), force=True)
    assert [one.pod for one in found.gone] == ["other/user-0"]
    assert found.fits
    assert "drain of node-0: deleting Pods that declare no controller: other/user-0" in [
        note.text for note in found.notes
    ]


def test_a_pod_that_is_deleted_before_is_no_obstacle() -> None:
    assert drained(running(), delete=["pod/user-0"], namespace="other").failures == ()


def test_pods_of_daemon_sets_and_static_pods_stay() -> None:
    daemon = {**REPLICA_SET, "kind": "DaemonSet"}
    assert drained(running(daemon)).gone == ()
    static = running(annotations={"kubernetes.io/config.mirror": "x"})
    found = drained(static)
    assert (found.gone, found.failures) == ((), ())


def test_a_pod_that_has_ended_is_no_obstacle() -> None:
    ended = running()
    ended["status"]["phase"] = "Succeeded"
    assert drained(ended).failures == ()


def test_a_disruption_budget_that_allows_nothing_keeps_the_pod() -> None:
    found = drained(running(REPLICA_SET), replica_set(1), budget(1))
    assert found.gone == ()
    assert found.failures == (
        'error when evicting pods/"user-0" -n "other": '
        "Cannot evict pod as it would violate the pod's disruption budget.",
    )


def test_a_dump_without_disruption_budgets_is_named() -> None:
    texts = [note.text for note in drained(running(REPLICA_SET)).notes]
    assert "there are no poddisruptionbudgets in objects: the drain of node-0 is taken to be held up by none" in texts
    assert not [text for text in texts if "budget" in text and "web" in text]
