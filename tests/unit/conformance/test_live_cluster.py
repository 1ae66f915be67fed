"""Scenarios on a running cluster: preconditions, and objects that are left."""

from __future__ import annotations

import pytest

from cathedra.clock import run_virtual
from tests.conformance.live_cluster import ClusterInUse, NotRemoved, Stage, column_of, kinds_of, play_live
from tests.unit.conformance.fakecluster import FakeCluster, Json


def test_a_cluster_with_nodes_is_refused_and_not_touched() -> None:
    cluster = FakeCluster()
    cluster.put("/api/v1/nodes/worker", {"metadata": {"name": "worker"}})
    with pytest.raises(ClusterInUse, match=r"kind Node \(worker\)"):
        run_virtual(Stage.open(cluster))
    assert {method for method, *_ in cluster.requests} == {"GET"}


def test_what_a_scenario_leaves_is_removed_and_what_was_there_stays() -> None:
    cluster = FakeCluster()
    older = "/apis/resource.k8s.io/v1/deviceclasses/older"
    cluster.put(older, {"metadata": {"name": "older"}})
    cluster.put("/api/v1/namespaces/default", {"metadata": {"name": "default"}})
    before = set(cluster.objects)
    steps = [
        {"do": "create", "object": {"kind": "DeviceClass", "metadata": {"name": "newer"}}},
        {"do": "create", "object": {"kind": "Node", "metadata": {"name": "n1"}}},
        {"do": "create", "object": {"kind": "ConfigMap", "metadata": {"name": "c", "finalizers": ["a/b"]}}},
    ]

    async def main() -> str:
        stage = await Stage.open(cluster)
        return await play_live(stage, cluster, {"steps": steps})

    assert run_virtual(main()) == ""
    assert set(cluster.objects) == before
    released = [path for method, path, *_ in cluster.requests if method == "PATCH"]
    assert [path.rpartition("/")[2] for path in released] == ["c"], "finalizers are taken away from what has some"


def test_events_about_objects_of_the_cluster_do_not_reach_the_next_scenario() -> None:
    cluster = FakeCluster()
    for name, about in (
        ("of-node", {"kind": "Node", "name": "n1"}),
        ("of-pod", {"kind": "Pod", "namespace": "default"}),
    ):
        cluster.put(f"/api/v1/namespaces/default/events/{name}", {"metadata": {"name": name}, "involvedObject": about})

    async def main() -> None:
        await (await Stage.open(cluster)).clear()

    run_virtual(main())
    assert [path.rpartition("/")[2] for path in cluster.objects] == ["of-pod"]


def test_what_does_not_go_ends_the_run_and_is_named() -> None:
    cluster = FakeCluster()

    async def main() -> None:
        stage = await Stage.open(cluster)
        cluster.put("/api/v1/nodes/stuck", {"metadata": {"name": "stuck"}})
        cluster.refusals["DELETE", "/api/v1/nodes/stuck"] = (403, {"reason": "Forbidden"})
        await stage.clear()

    with pytest.raises(NotRemoved, match="Node stuck"):
        run_virtual(main())


def test_each_scenario_has_a_namespace_of_its_own() -> None:
    cluster = FakeCluster()

    async def main() -> tuple[str, str]:
        stage = await Stage.open(cluster)
        return await stage.enter(), await stage.enter()

    one, other = run_virtual(main())
    assert one != other
    assert one.startswith("scenario-")


def test_kinds_that_are_not_served_are_known() -> None:
    cluster = FakeCluster()
    cluster.unserved = {"podgroups"}

    async def main() -> frozenset[str]:
        return (await Stage.open(cluster)).served

    served = run_virtual(main())
    group: Json = {"steps": [{"do": "create", "object": {"kind": "PodGroup"}}, {"do": "settle"}]}
    assert kinds_of(group) - served == {"PodGroup"}
    assert "Pod" in served


@pytest.mark.parametrize(("code", "column"), [(200, "all"), (404, "default")])
def test_alpha_versions_tell_which_recordings_suit_a_cluster(code: int, column: str) -> None:
    cluster = FakeCluster()
    cluster.refusals["GET", "/apis/resource.k8s.io/v1alpha3"] = (code, {})
    assert run_virtual(column_of(cluster)) == column
