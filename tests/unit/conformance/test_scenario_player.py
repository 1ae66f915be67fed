"""The player of scenarios, on a cluster of dictionaries."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.clock import run_virtual
from tests.conformance.scenario_player import Player, difference
from tests.unit.conformance.fakecluster import FakeCluster

CONFIG_MAP = {"kind": "ConfigMap", "metadata": {"name": "c"}}


def play(cluster: FakeCluster, *steps: dict[str, Any]) -> str:
    return run_virtual(Player(cluster, "ns").play(steps))


def written(cluster: FakeCluster) -> list[tuple[str, str]]:
    return [(method, path) for method, path, *_ in cluster.requests if method != "GET"]


def test_objects_without_a_namespace_go_into_the_scenarios_and_get_the_version_of_their_kind() -> None:
    cluster = FakeCluster()
    claim = {"kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": {}}
    assert play(cluster, {"do": "create", "object": claim}) == ""
    path = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"
    assert written(cluster) == [("POST", path)]
    assert cluster.objects[f"{path}/c"]["apiVersion"] == "resource.k8s.io/v1"


def test_a_second_namespace_is_used_once_it_has_its_service_account() -> None:
    cluster = FakeCluster()
    space = {"kind": "Namespace", "metadata": {"name": "$(ns)-b"}}
    inside = {"kind": "ConfigMap", "metadata": {"name": "c", "namespace": "$(ns)-b"}}
    play(cluster, {"do": "create", "object": space}, {"do": "create", "object": inside})
    asked = [path for method, path, *_ in cluster.requests if method == "GET"]
    assert "/api/v1/namespaces/ns-b/serviceaccounts/default" in asked
    assert "/api/v1/namespaces/ns-b/configmaps/c" in cluster.objects


def test_a_refusal_is_an_answer_and_names_the_namespace_by_its_placeholder() -> None:
    cluster = FakeCluster()
    refusal = {"reason": "Forbidden", "message": "no more in ns"}
    cluster.refusals["POST", "/api/v1/namespaces/ns/configmaps"] = (403, refusal)
    answer = {"code": 403, "reason": "Forbidden", "message": "no more in $(ns)"}
    assert play(cluster, {"do": "create", "object": CONFIG_MAP, "answer": answer}) == ""
    found = play(cluster, {"do": "create", "object": CONFIG_MAP})
    assert found.startswith("step 0 (create ConfigMap c):\n- null\n+ ")


def test_playing_ends_at_the_first_difference() -> None:
    cluster = FakeCluster()
    steps = [{"do": "delete", "kind": "ConfigMap", "name": "absent"}, {"do": "create", "object": CONFIG_MAP}]
    assert play(cluster, *steps).startswith("step 0 (delete ConfigMap absent)")
    assert written(cluster) == [("DELETE", "/api/v1/namespaces/ns/configmaps/absent")]


@pytest.mark.parametrize(
    ("kind", "content_type"),
    [
        ("merge", "application/merge-patch+json"),
        ("json", "application/json-patch+json"),
        ("strategic", "application/strategic-merge-patch+json"),
    ],
)
def test_patches_are_sent_as_what_they_are(kind: str, content_type: str) -> None:
    cluster = FakeCluster()
    cluster.put("/api/v1/namespaces/ns/configmaps/c", CONFIG_MAP)
    play(cluster, {"do": "patch", "kind": "ConfigMap", "name": "c", "type": kind, "patch": {}})
    assert [sent for method, *_, sent in cluster.requests if method == "PATCH"] == [content_type]


def test_deletion_options_are_sent_only_where_the_step_has_them() -> None:
    cluster = FakeCluster()
    cluster.pod("a")
    cluster.pod("b")
    play(
        cluster,
        {"do": "delete", "kind": "Pod", "name": "a"},
        {"do": "delete", "kind": "Pod", "name": "b", "grace": 0, "propagation": "Orphan"},
    )
    bodies = [body for method, _, body, _ in cluster.requests if method == "DELETE"]
    assert bodies == [None, {"gracePeriodSeconds": 0, "propagationPolicy": "Orphan"}]


def test_placeholders_are_filled_in_values_and_keys() -> None:
    cluster = FakeCluster()
    made = {"kind": "Secret", "metadata": {"name": "s"}}
    labels = {"$(ns)/of": "$(uid:Secret/s)", "at": "$(now+5)", "else": "$(else)"}
    meant = {"kind": "ConfigMap", "metadata": {"name": "c", "labels": labels}}
    play(cluster, {"do": "create", "object": made}, {"do": "create", "object": meant})
    uid = cluster.objects["/api/v1/namespaces/ns/secrets/s"]["metadata"]["uid"]
    found = cluster.objects["/api/v1/namespaces/ns/configmaps/c"]["metadata"]["labels"]
    assert found == {"ns/of": uid, "at": "2026-01-01T00:00:05Z", "else": "$(else)"}


def test_the_kubelets_report_goes_to_pods_with_a_node_that_have_not_ended() -> None:
    cluster = FakeCluster()
    for name in ("a-2", "a-1", "b-1"):
        cluster.pod(name)
    cluster.pod("a-0", node="")
    step = {"do": "pod-running", "match": "a-.*"}
    assert play(cluster, {**step, "count": 1, "answer": {"pods": 1}}) == ""
    phases = {path.rpartition("/")[2]: obj["status"]["phase"] for path, obj in cluster.objects.items()}
    assert phases == {"a-2": "Pending", "a-1": "Running", "b-1": "Pending", "a-0": "Pending"}
    assert play(cluster, {**step, "answer": {"pods": 1}}) == ""
    assert play(cluster, {**step, "answer": {"pods": 0}}) == ""
    assert play(cluster, {**step, "again": True, "answer": {"pods": 2}}) == ""


def test_an_ended_pods_report_has_exit_code_and_reason() -> None:
    cluster = FakeCluster()
    cluster.pod("p")
    step = {"do": "pod-failed", "match": "p", "exit": 42, "reason": "Evicted", "answer": {"pods": 1}}
    assert play(cluster, step) == ""
    status = cluster.objects["/api/v1/namespaces/ns/pods/p"]["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (42, "Error")
    assert {one["type"]: one["status"] for one in status["conditions"]}["Ready"] == "False"
    assert play(cluster, {"do": "pod-succeeded", "match": "p", "answer": {"pods": 0}}) == "", "it has ended already"


def test_the_end_of_a_deletion_is_for_pods_that_are_being_deleted_and_holds_their_uid() -> None:
    cluster = FakeCluster()
    cluster.pod("going", deletionTimestamp="2026-01-01T00:00:00Z", uid="u-1")
    cluster.pod("staying")
    assert play(cluster, {"do": "finish-deletion", "match": ".*", "answer": {"pods": 1}}) == ""
    deletions = [(path, body) for method, path, body, _ in cluster.requests if method == "DELETE"]
    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": "u-1"}}
    assert deletions == [("/api/v1/namespaces/ns/pods/going", options)]


def test_a_snapshot_waits_until_nothing_changes_for_the_quiet_time() -> None:
    def write(cluster: FakeCluster) -> None:
        if cluster.slept <= 3.0:
            cluster.put("/api/v1/namespaces/ns/configmaps/c", {"metadata": {"name": "c"}, "at": cluster.slept})

    cluster = FakeCluster(write)
    assert play(cluster, {"do": "settle", "answer": {"configmaps": [{"name": "c"}]}}) == ""
    assert cluster.slept == 5.0, "three seconds of changes and two of quiet"


def test_a_cluster_that_never_rests_is_looked_at_after_the_longest_time() -> None:
    cluster = FakeCluster()
    cluster.scheduling = True
    assert play(cluster, {"do": "settle", "longest": 4.0, "answer": {}}) == ""
    assert cluster.slept == 4.0


def test_events_are_shown_once_and_those_of_a_silent_settle_too() -> None:
    def event(name: str, reason: str) -> None:
        about = {"kind": "Pod", "name": "p", "namespace": "ns"}
        obj = {"metadata": {"name": name}, "involvedObject": about, "reason": reason, "type": "Normal"}
        cluster.put(f"/api/v1/namespaces/ns/events/{name}", obj)

    cluster = FakeCluster()
    player = Player(cluster, "ns")
    event("one", "Early")
    assert run_virtual(player.play([{"do": "settle", "silent": True}])) == ""
    event("two", "Late")
    event("again", "Early")
    shown = {"events": [{"about": "Pod/p", "type": "Normal", "reason": "Late"}]}
    assert run_virtual(player.play([{"do": "settle", "answer": shown}, {"do": "settle", "answer": {}}])) == ""


def test_time_passes_in_looks_of_a_second_so_that_nothing_comes_and_goes_unseen() -> None:
    cluster = FakeCluster()
    assert play(cluster, {"do": "advance", "seconds": 2.5}) == ""
    assert cluster.slept == 2.5
    assert sum(path == "/api/v1/namespaces/ns/pods" for _, path, *_ in cluster.requests) == 4


def test_a_difference_names_what_is_missing_and_what_is_there_instead_by_section() -> None:
    wanted = {"pods": [{"name": "a"}, {"name": "b"}], "jobs": [{"name": "j"}]}
    found = {"pods": [{"name": "b"}, {"name": "c"}], "jobs": [{"name": "j"}]}
    assert difference(wanted, found) == 'pods:\n- {"name": "a"}\n+ {"name": "c"}'
    assert difference({"pods": [1, 1]}, {"pods": [1]}) == "pods:\n1 elements, expected 2"
