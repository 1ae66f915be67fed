"""Pods of workloads, as controllers make them; and names that are not there."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.allocation.errors import InvalidInput
from cathedra.api.core.apps_v1 import Deployment
from cathedra.insight import PlannedChanges, explain, simulate
from cathedra.insight.explanation.question import exceeded_quotas, find_workload, next_pod, pods_of, with_claims
from cathedra.insight.reading.dumps import read_dump
from tests.insight.building import (
    Object,
    claim,
    device_class,
    gpus,
    held,
    node,
    pod,
    pod_group,
    quota,
    request,
    template,
)


def deployment(name: str = "web", namespace: str = "default") -> dict[str, Any]:
    spec = pod("template:t")["spec"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}, "annotations": {"n": "1"}}, "spec": spec},
        },
    }


def owned(kind: str, name: str, owner: str, **more: Any) -> dict[str, Any]:
    references = [{"apiVersion": "apps/v1", "kind": "X", "name": "x", "uid": owner, "controller": True}]
    metadata = {"name": name, "namespace": "default", "uid": name, "ownerReferences": references}
    return {"apiVersion": "v1" if kind == "Pod" else "apps/v1", "kind": kind, "metadata": metadata, **more}


def test_the_next_pod_of_a_workload_is_that_of_its_template() -> None:
    state = read_dump([deployment()])
    made = next_pod(find_workload(Deployment, "web", "default", state), state)
    assert (made.metadata.name, made.metadata.labels, made.metadata.annotations) == ("web-new", {"a": "b"}, {"n": "1"})
    assert [one.name for one in made.metadata.owner_references] == ["web"]
    assert made.spec.resource_claims[0].resource_claim_template_name == "t"


def test_the_next_pod_has_the_defaults_of_the_server_as_requests_that_equal_its_limits() -> None:
    made = deployment()
    made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "9"}}
    state = read_dump([made])
    (container, *_) = next_pod(find_workload(Deployment, "web", "default", state), state).spec.containers
    assert {name: str(amount) for name, amount in container.resources.requests.items()} == {"example.com/gpu": "9"}


def test_pods_of_a_deployment_are_those_of_its_replica_sets_that_have_not_ended() -> None:
    spec = {"containers": [{"name": "main", "image": "main"}]}
    state = read_dump(
        [
            deployment(),
            owned("ReplicaSet", "web-1", "default-web", spec={"selector": {}}),
            owned("Pod", "web-1-a", "web-1", spec=spec, status={"phase": "Running"}),
            owned("Pod", "web-1-b", "web-1", spec=spec, status={"phase": "Succeeded"}),
            owned("Pod", "other", "another", spec=spec, status={"phase": "Running"}),
        ]
    )
    workload = find_workload(Deployment, "web", "default", state)
    assert [one.metadata.name for one in pods_of(workload, state)] == ["web-1-a"]


def test_a_workload_that_is_not_there_is_looked_for_in_other_namespaces() -> None:
    state = read_dump([deployment(namespace="team"), deployment("api")])
    with pytest.raises(InvalidInput, match="no deployment 'web' in namespace 'default', but one in team; say -n team"):
        find_workload(Deployment, "web", "default", state)
    with pytest.raises(InvalidInput, match="no deployment 'wep' in namespace 'default' of objects; there are api"):
        find_workload(Deployment, "wep", "default", state)


def test_claims_of_templates_are_made_and_named_ones_are_found() -> None:
    given = [node(), device_class(), template("t", request()), claim("c"), pod("template:t", "claim:c", "claim:no")]
    state = read_dump(given)
    subject = with_claims(state.pods[0], state)
    assert subject.made == {"p-e0"}
    assert subject.origins == {"p-e0": "template t", "c": "named", "no": "named"}
    assert [one.kind for one in subject.faults] == ["missing claim"]
    assert subject.name == "default/p"


DEVICES = "gpu.deviceclass.resource.k8s.io/devices"


def told(hard: Object, used: Object, count: int = 2, **more: Any) -> list[str]:
    given = quota(hard, used)
    given["metadata"].update(more)
    state = read_dump([node(), device_class(), template("t", request("gpu", "gpu", count)), pod("template:t"), given])
    subject = with_claims(state.pods[0], state)
    claims = [one for one in subject.state.cluster.claims.values() if one.metadata.name in subject.made]
    return list(exceeded_quotas(None, claims, state))


def test_devices_of_a_class_are_counted_as_they_are_asked_for() -> None:
    assert told({DEVICES: "3"}, {DEVICES: "2"}) == [
        f"exceeded quota: limits, requested: {DEVICES}=2, used: {DEVICES}=2, limited: {DEVICES}=3"
    ]


def test_a_quota_with_room_is_not_told() -> None:
    assert told({DEVICES: "4"}, {DEVICES: "2"}) == []


def test_quotas_of_other_namespaces_do_not_count() -> None:
    assert told({DEVICES: "0"}, {}, namespace="other") == []


ADMIN = claim("c", request(adminAccess=True), namespace="admins")


def namespace(**labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "admins", "labels": labels}}


LABELLED = namespace(**{"resource.kubernetes.io/admin-access": "true"})


@pytest.mark.parametrize(
    ("cluster", "manifests"), [([LABELLED], [ADMIN]), ([namespace()], [LABELLED, ADMIN]), ([], [ADMIN])]
)
def test_admin_access_is_allowed_by_the_label_of_the_namespace(cluster: list[Object], manifests: list[Object]) -> None:
    """In the cluster, or among the manifests; of a namespace that was not read nothing is known."""
    state = read_dump([node(), device_class(), gpus(1), *cluster])
    assert explain(state, manifests=manifests).fits
    assert simulate(state, PlannedChanges(apply=manifests), copies=0).fits


def test_admin_access_is_refused_in_a_namespace_without_the_label() -> None:
    state = read_dump([node(), device_class(), gpus(1), namespace()])
    with pytest.raises(InvalidInput, match="admin access to devices requires"):
        explain(state, manifests=ADMIN)
    with pytest.raises(InvalidInput, match="admin access to devices requires"):
        simulate(state, PlannedChanges(apply=ADMIN), copies=0)


HELD = "gpu.deviceclass.scheduling.cathedra.dev/devices"


def held_quota(most: int) -> list[Object]:
    """A cluster with a limit on what the namespace holds, of which one device is in use."""
    return [node(), device_class(), gpus(4), held("old", "gpu-0", namespace="default"), quota({HELD: str(most)}, {})]


@pytest.mark.parametrize(("most", "fits"), [(2, True), (1, False)])
def test_a_limit_on_held_devices_is_compared_with_the_claims_of_manifests(most: int, fits: bool) -> None:
    found = explain(read_dump(held_quota(most)), manifests=[template("t", request()), pod("template:t")])
    assert found.fits == fits
    if not fits:
        over = f"exceeded quota: limits, requested: {HELD}=1, used: {HELD}=1, limited: {HELD}=1"
        assert [(one.kind, one.text) for one in found.causes] == [("quota", over)]


def test_a_limit_on_held_devices_is_compared_with_the_claims_of_a_whole_gang() -> None:
    pods = [pod("template:t", name=name) for name in ("a", "b")]
    for one in pods:
        one["spec"]["schedulingGroup"] = {"podGroupName": "pair"}
    gates = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
    state = read_dump(held_quota(2), release="1.37", feature_gates=gates)
    found = explain(state, manifests=[template("t", request()), pod_group("pair", 2), *pods])
    over = f"exceeded quota: limits, requested: {HELD}=2, used: {HELD}=1, limited: {HELD}=2"
    assert {one.text for part in found.parts for one in part.causes if one.kind == "quota"} == {over}


def test_of_a_pod_that_the_scheduler_has_refused_its_own_words_are_reported() -> None:
    waiting = pod("template:t")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    waiting["status"] = {"phase": "Pending", "conditions": [condition]}
    state = read_dump([*held_quota(1), template("t", request()), waiting])
    assert [one.kind for one in explain(state, "pod/p").causes] == []


def test_a_node_that_has_room_is_not_said_to_lie_beside_one_with_an_error() -> None:
    found = explain(read_dump(held_quota(1)), manifests=[template("t", request()), pod("template:t")])
    assert "would fit, but the pod waits" in str(found)
    assert "error" not in str(found)
