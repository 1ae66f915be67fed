"""The content of a snapshot, and the form of names, UIDs and times in it."""

from __future__ import annotations

from typing import Any

from tests.conformance.scenario_snapshot import RESOURCES, Identities, section_of

UID = "3f2504e0-4f89-41d3-9a0c-0305e82c330{}"


def seen(kind: str, name: str, number: int = 1, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "scenario-q", "uid": UID.format(number), **metadata}, "kind": kind}


def test_paths_follow_group_and_scope() -> None:
    assert RESOURCES["Pod"].path("ns", "p", "status") == "/api/v1/namespaces/ns/pods/p/status"
    assert RESOURCES["Node"].path("ns", "n1") == "/api/v1/nodes/n1"
    assert RESOURCES["Job"].path() == "/apis/batch/v1/jobs"


def test_a_uid_is_called_by_its_object_and_counted_when_the_name_is_made_again() -> None:
    identities = Identities("scenario-q")
    for number in (1, 2):
        identities.see("Pod", seen("Pod", "p", number))
    text = f"{UID.format(1)} {UID.format(2)} {UID.format(9)}"
    assert identities.normalized(text) == "<uid:Pod/p> <uid:Pod/p#2> <uid>"
    assert identities.uid_of("Pod", "p") == UID.format(2), "the one that was made last"


def test_generated_names_lose_their_suffix_wherever_they_stand() -> None:
    identities = Identities("scenario-q")
    identities.see("ResourceClaim", seen("ResourceClaim", "pod-gpu-x7k2q", generateName="pod-gpu-"))
    assert identities.normalized({"pod-gpu-x7k2q": ["of pod-gpu-x7k2q"]}) == {
        "pod-gpu-<suffix>": ["of pod-gpu-<suffix>"]
    }
    assert identities.normalized('"web-bcdfg" is forbidden') == '"web-<suffix>" is forbidden'


def test_times_and_the_namespace_are_placeholders() -> None:
    found = Identities("scenario-q").normalized("since 2026-01-02T03:04:05.6Z in scenario-q")
    assert found == "since <time> in $(ns)"


def test_hashes_of_templates_are_numbered_by_the_revision_of_their_replica_set() -> None:
    def replica_set(value: str, revision: int) -> dict[str, Any]:
        annotations = {"deployment.kubernetes.io/revision": str(revision)}
        return {"metadata": {"name": value, "labels": {"pod-template-hash": value}, "annotations": annotations}}

    identities = Identities("scenario-q")
    identities.number_hashes([replica_set("abc", 2), replica_set("def", 1)], [])
    assert identities.normalized("web-def web-abc xabc") == "web-<hash:1> web-<hash:2> xabc"


def test_what_is_empty_is_left_out_and_elements_are_sorted() -> None:
    objects = [seen("ConfigMap", "b", 1, finalizers=["z/z", "a/a"]), seen("ConfigMap", "a", 2, finalizers=[])]
    section = section_of(RESOURCES["ConfigMap"], objects, Identities("scenario-q"))
    assert section == [{"finalizers": ["a/a", "z/z"], "name": "b"}, {"name": "a"}]


def test_owners_say_their_kind_and_their_flags() -> None:
    identities = Identities("scenario-q")
    identities.see("Job", seen("Job", "j", 5))
    owner = {"kind": "Job", "name": "j", "uid": UID.format(5), "controller": True, "blockOwnerDeletion": True}
    section = section_of(RESOURCES["Secret"], [seen("Secret", "s", ownerReferences=[owner])], identities)
    assert section == [{"name": "s", "owners": ["Job/j <uid:Job/j> controller blocks"]}]


def test_namespaces_are_shown_while_they_are_deleted_and_certificates_never() -> None:
    identities = Identities("scenario-q")
    going = {**seen("Namespace", "b", deletionTimestamp="t"), "status": {"phase": "Terminating"}}
    shown = section_of(RESOURCES["Namespace"], [seen("Namespace", "a"), going], identities)
    assert [item["name"] for item in shown] == ["b"]
    assert shown[0]["phase"] == "Terminating"
    assert section_of(RESOURCES["ConfigMap"], [seen("ConfigMap", "kube-root-ca.crt")], identities) == []


def test_events_of_other_namespaces_and_about_registration_are_not_shown() -> None:
    def event(where: str, reason: str, /, **about: str) -> dict[str, Any]:
        obj = seen("Event", "e", namespace=where)
        involved = {"kind": "Pod", "name": "p", **about}
        return {**obj, "involvedObject": involved, "reason": reason, "source": {"component": "c"}, "message": "m"}

    events = [
        event("scenario-q", "Scheduled", namespace="scenario-q"),
        event("default", "Tainted", kind="Node", name="n1"),
        event("default", "Foreign", namespace="default"),
        event("default", "RegisteredNode", kind="Node", name="n1"),
    ]
    shown = section_of(RESOURCES["Event"], events, Identities("scenario-q"))
    assert [item["reason"] for item in shown] == ["Tainted", "Scheduled"]
    assert shown[0] == {"about": "Node/n1", "by": "c", "message": "m", "reason": "Tainted"}


def test_a_pod_in_a_snapshot_has_node_phase_conditions_and_claims() -> None:
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "t"}],
        "resourceClaimStatuses": [{"name": "b"}, {"name": "a"}],
    }
    pod = {**seen("Pod", "p"), "spec": {"nodeName": "n1", "priority": 0}, "status": status}
    assert section_of(RESOURCES["Pod"], [pod], Identities("scenario-q")) == [
        {
            "name": "p",
            "nodeName": "n1",
            "priority": 0,
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "resourceClaimStatuses": [{"name": "a"}, {"name": "b"}],
        }
    ]


def test_budgets_show_their_counts_even_when_zero() -> None:
    section = section_of(
        RESOURCES["PodDisruptionBudget"], [{**seen("PodDisruptionBudget", "b"), "status": {}}], Identities("scenario-q")
    )
    zeros = dict.fromkeys(("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"), 0)
    assert section == [{"name": "b", **zeros}]
