"""Devices that others hold: what ends their holders for good, and a rollout that waits for itself."""

from __future__ import annotations

from typing import Any

from cathedra.insight import PlannedChanges, simulate
from cathedra.insight.explanation.explain import explain
from cathedra.insight.explanation.report import Remedy
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.state import ClusterState
from tests.insight.building import Object, device_class, gpus, held, node, pod, request, template

WAITING = pod("template:t")
BASE = [node(), device_class(), gpus(2), template("t", request(count=2))]


def stored(made: Object, uid: str, owner: Object | None = None) -> Object:
    metadata = {**made["metadata"], "uid": uid, "resourceVersion": "7"}
    if owner is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
        ]
    return {**made, "metadata": metadata}


def workload(kind: str, name: str, replicas: int, pods_of: Object, **spec: Any) -> Object:
    labels = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {**pods_of["spec"], "restartPolicy": "Always"}},
            **spec,
        },
    }


def running(name: str, *devices: str, entry: str, owner: Object | None = None, image: str = "main") -> list[Object]:
    """A pod on the node with its claim, of a workload or of its own."""
    made = pod(entry, name=name, phase="Running", nodeName="n1")
    made["spec"]["containers"][0]["image"] = image
    made["status"]["resourceClaimStatuses"] = [{"name": "e0", "resourceClaimName": f"{name}-gpu"}]
    made = stored(made, f"pod-{name}", owner)
    made["metadata"]["labels"] = {"app": "web"}
    ready = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Ready")]
    made["status"]["conditions"] = ready
    taken = held(f"{name}-gpu", *devices, namespace="default", by=name, node="n1")
    taken["metadata"]["annotations"] = {"resource.kubernetes.io/pod-claim-name": "e0"}
    return [made, stored(taken, f"claim-{name}", made)]


def changes(*objects: Object) -> tuple[ClusterState, dict[str, Remedy]]:
    state = read_dump([*BASE, *objects])
    return state, {change.kind: change for change in explain(state, "pod/p").changes}


def placed(state: ClusterState, name: str = "default/p") -> bool:
    """Return True if the pod has a node after the simulation of a state."""
    return any(one.pod == name for one in simulate(state, copies=0).placed)


def after(state: ClusterState, change: Remedy) -> ClusterState:
    return state.without(change.removed).including(change.set)


def test_a_pod_of_its_own_is_deleted() -> None:
    state, found = changes(WAITING, *running("bare", "gpu-0", entry="template:t"))
    change = found["free claim"]
    assert change.commands == ("kubectl -n default delete pod bare",)
    assert placed(after(state, change))


def test_a_claim_without_consumers_is_deleted() -> None:
    _, found = changes(WAITING, held("idle", "gpu-0"))
    assert found["free claim"].commands == ("kubectl -n other delete resourceclaim idle",)


def deployment(replicas: int, *, strategy: Object | None = None) -> tuple[Object, Object]:
    spec = {"strategy": strategy} if strategy else {}
    made = stored(workload("Deployment", "web", replicas, pod("template:one"), **spec), "d-uid")
    return made, stored(workload("ReplicaSet", "web-1", replicas, pod("template:one")), "rs-uid", made)


def test_pods_of_a_deployment_come_back_so_it_is_scaled_down() -> None:
    top, owner = deployment(2)
    mine = [template("one", request()), top, owner]
    pods = [*running("web-1-a", "gpu-0", entry="template:one", owner=owner)]
    pods += running("web-1-b", "gpu-1", entry="template:one", owner=owner)
    state, found = changes(WAITING, *mine, *pods)
    assert "free claim" not in found
    change = found["scale down"]
    assert change.text == "scale deployment default/web down from 2 to 0, which ends 2 pods"
    assert change.commands == ("kubectl -n default scale deployment web --replicas=0",)
    assert placed(after(state, change))


def large_deployment(replicas: int, nodes: int) -> list[Object]:
    """A deployment whose pods hold both devices of every node, the youngest of them on the last node."""
    top, owner = deployment(replicas)
    found: list[Object] = [device_class(), template("one", request()), top, owner]
    for number in range(1, nodes + 1):
        found += [node(f"n{number}"), gpus(2, f"n{number}")]
    for number in range(replicas):
        home = f"n{number % nodes + 1}"
        made, claim = running(f"web-1-{number}", f"gpu-{number // nodes}", entry="template:one", owner=owner)
        made["spec"]["nodeName"] = home
        made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{number:02}Z"
        claim["status"]["allocation"]["devices"]["results"][0]["pool"] = home
        found += [made, claim]
    return found


def scaled_down(*objects: Object, wanted: int) -> list[str]:
    found = explain(read_dump([*objects, template("t", request(count=wanted)), WAITING]), "pod/p").changes
    return [one.text for one in found if "scale" in one.text]


def test_a_workload_of_many_nodes_is_scaled_down_by_the_one_pod_whose_device_is_wanted() -> None:
    texts = scaled_down(*large_deployment(40, 20), wanted=1)
    assert texts == ["scale deployment default/web down from 40 to 39, which ends 1 pod"]


def test_a_workload_is_scaled_down_by_the_fewest_pods_that_suffice() -> None:
    texts = scaled_down(*large_deployment(8, 4), wanted=2)
    assert texts == ["scale deployment default/web down from 8 to 3, which ends 5 pods"]


def test_the_change_that_ends_the_fewest_pods_comes_first() -> None:
    objects = large_deployment(8, 4)
    bare = running("bare", "gpu-0", entry="template:one")
    bare[0]["spec"]["nodeName"] = bare[1]["status"]["allocation"]["devices"]["results"][0]["pool"] = "n5"
    found = explain(
        read_dump([*objects, node("n5"), gpus(2, "n5"), *bare, template("t", request(count=2)), WAITING]), "pod/p"
    ).changes
    kinds = [one.kind for one in found if one.removed]
    assert kinds == ["free claim", "scale down"]


def test_one_pod_less_is_enough_where_one_device_is_missing() -> None:
    top, owner = deployment(1)
    pods = running("web-1-a", "gpu-0", entry="template:one", owner=owner)
    state, found = changes(WAITING, template("one", request()), top, owner, *pods)
    assert found["scale down"].commands == ("kubectl -n default scale deployment web --replicas=0",)
    assert placed(after(state, found["scale down"]))


def test_a_job_is_suspended() -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"template": {"spec": {**pod("template:one")["spec"], "restartPolicy": "Never"}}},
    }
    job = stored(job, "job-uid")
    pods = running("train-x", "gpu-0", "gpu-1", entry="template:one", owner=job)
    state, found = changes(WAITING, template("one", request(count=2)), job, *pods)
    assert found["suspend job"].commands == (
        """kubectl -n default patch job train --type=merge -p '{"spec":{"suspend":true}}'""",
    )
    assert placed(after(state, found["suspend job"]))


def test_pods_that_no_command_ends_for_good_are_not_proposed() -> None:
    unknown = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r", "uid": "r-uid"}}
    _, found = changes(WAITING, *running("worker", "gpu-0", entry="template:t", owner=unknown))
    assert set(found) == {"lower count", "add node"}


def rollout(strategy: Object | None) -> list[Object]:
    """A deployment whose new replica set has a pod that waits for the devices of the old one's."""
    top, old = deployment(1, strategy=strategy)
    top["spec"]["template"]["spec"]["containers"][0]["image"] = "new"
    new = stored(workload("ReplicaSet", "web-2", 1, pod("template:one")), "rs2-uid", top)
    new["spec"]["template"] = top["spec"]["template"]
    waiting = stored(pod("template:one"), "pod-p", new)
    waiting["metadata"]["labels"] = {"app": "web"}
    waiting["spec"]["containers"][0]["image"] = "new"
    both = template("one", request(count=2))
    return [both, top, old, new, waiting, *running("web-1-a", "gpu-0", "gpu-1", entry="template:one", owner=old)]


def test_a_rollout_that_waits_for_its_own_old_pod_is_named() -> None:
    state = read_dump([*BASE, *rollout(None)])
    found = explain(state, "pod/p")
    assert found.causes[0].kind == "rollout"
    assert "default/web-1-a" in found.causes[0].text
    change = found.changes[0]
    assert change.kind == "change rollout"
    assert change.commands[0].startswith("kubectl -n default patch deployment web --type=json -p ")
    deployments = [one for one in change.set if type(one).__name__ == "Deployment"]
    simulated = simulate(state, PlannedChanges(apply=deployments), copies=0)
    assert simulated.fits
    assert [one.pod for one in simulated.gone] == ["default/web-1-a"]


def test_a_rollout_that_may_have_fewer_pods_is_not_blocked() -> None:
    allowed = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    assert all(cause.kind != "rollout" for cause in explain(read_dump([*BASE, *rollout(allowed)]), "pod/p").causes)


def test_the_same_deployments_other_pods_are_never_scaled_away() -> None:
    top, owner = deployment(3)
    waiting = stored(pod("template:t"), "pod-p", owner)
    pods = running("web-1-a", "gpu-0", entry="template:t", owner=owner)
    _, found = changes(waiting, top, owner, *pods)
    assert "scale down" not in found
