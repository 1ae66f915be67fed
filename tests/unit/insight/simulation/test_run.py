"""Results of a simulation: placements, pending and evicted pods; the same bytes for the same input."""

from __future__ import annotations

import dataclasses
import gc
import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cathedra.allocation import InvalidInput
from cathedra.api.struct import encode
from cathedra.apiserver.storage.protocol import Record, StoreContent
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.state import ClusterState
from cathedra.insight.simulation import run
from cathedra.insight.simulation.copying import StateStorage
from cathedra.insight.simulation.report import Simulation, simulation_text
from cathedra.insight.simulation.run import PlannedChanges, simulate
from cathedra.scheduler.judging import Filters, SimulatedScheduler
from cathedra.scheduler.state.snapshot import Snapshot
from tests.unit.cli.dra.dumps import gpu_cluster, pod_with


def cluster(**more: Any) -> ClusterState:
    return read_dump([*gpu_cluster(**more), {"apiVersion": "v1", "kind": "PodList", "items": []}])


def deployment(replicas: int, name: str = "web") -> list[dict[str, Any]]:
    template = pod_with(1)[0]
    return [
        template,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {
                        "containers": [{"name": "main", "image": "main"}],
                        "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "gpus"}],
                    },
                },
            },
        },
    ]


def running(name: str, node: str, claim: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "other", "uid": name},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": "main"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}],
        },
        "status": {"phase": "Running"},
    }


def test_a_pod_is_placed_with_its_devices() -> None:
    found = simulate(cluster(), PlannedChanges(apply=pod_with(2)), copies=0)
    (placed,) = found.placed
    assert placed.pod == "default/train"
    assert [len(devices) for devices in placed.devices.values()] == [2]
    assert [(one.node, one.held_before, one.held_after) for one in found.nodes] == [(placed.node, 0, 2)]
    assert found.fits


def test_no_garbage_is_collected_during_a_simulation() -> None:
    """Its objects live until its end."""
    collected: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        collected.append(phase)

    state, before = cluster(), gc.get_threshold()
    gc.set_threshold(100)
    gc.callbacks.append(note)
    try:
        during: list[int] = []
        simulate(state, PlannedChanges(apply=pod_with(2)), copies=0, progress=lambda *_: during.append(len(collected)))
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)
    assert len(set(during)) == 1
    assert len(collected) > during[0]


def test_controllers_make_the_pods_of_workloads_and_those_without_room_stay_pending() -> None:
    found = simulate(cluster(nodes=2, gpus=2), PlannedChanges(apply=deployment(6)), copies=0)
    assert len(found.placed) == 4
    (group,) = found.pending
    assert len(group.pods) == 2
    assert "0 of 2 matching devices are free" in group.why
    assert not found.fits


class EncodedStorage(StateStorage):
    """The same objects as a store keeps them: as JSON."""

    async def load(self) -> StoreContent:
        content = await super().load()
        records = [Record(one.key, one.revision, encode(one.decoded)) for one in content.records]
        return StoreContent(content.revision, records)


def random_cluster(chance: Random) -> ClusterState:
    """Nodes of several zones and sizes, and pods that wait."""
    dump: list[dict[str, Any]] = gpu_cluster(nodes=chance.randint(2, 5), gpus=chance.randint(1, 4))
    for one in dump:
        if one["kind"] == "Node" and chance.random() < 0.8:
            one["metadata"].setdefault("labels", {})["topology.kubernetes.io/zone"] = f"z{chance.randrange(3)}"
    for number in range(chance.randrange(4)):
        template, pod = pod_with(1)
        name = f"waits-{number}"
        pod = {**pod, "metadata": {**pod["metadata"], "name": name, "uid": name}}
        dump += [template, pod] if not number else [pod]
    return read_dump([*dump, {"apiVersion": "v1", "kind": "PodList", "items": []}])


@pytest.mark.parametrize("seed", range(4))
def test_results_that_are_kept_from_pod_to_pod_change_no_answer(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on decoded objects is equal to one on a store of JSON, in which each pod is tried without earlier
    results."""
    chance = Random(seed)
    state = random_cluster(chance)
    changes = PlannedChanges(apply=deployment(chance.randint(3, 12)), replicas=())
    fast = simulate(state, changes, copies=3, seed=seed)
    of = Snapshot.of.__func__  # type: ignore[attr-defined]  # a class method
    monkeypatch.setattr(run, "StateStorage", EncodedStorage)
    # A snapshot without a changelog keeps nothing from one use to the next.
    monkeypatch.setattr(Snapshot, "of", classmethod(lambda cls, nodes, affinity, *_: of(cls, nodes, affinity)))
    assert simulate(state, changes, copies=3, seed=seed).to_dict() == fast.to_dict()


@pytest.mark.parametrize("seed", range(6))
def test_reasons_over_the_state_of_the_scheduler_are_those_over_the_objects(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no decision is open at the end, pending pods are explained without a second inventory of the cluster."""
    chance = Random(seed)
    state = random_cluster(chance)
    changes = PlannedChanges(apply=deployment(chance.randint(21, 30)))
    over = Filters.over
    made: list[object] = []

    def counted(objects: ClusterState) -> Filters:
        made.append(objects)
        return over(objects)

    monkeypatch.setattr(Filters, "over", counted)
    shared = simulate(state, changes, copies=3, seed=seed)
    assert shared.pending
    assert not made
    monkeypatch.setattr(SimulatedScheduler, "filters", lambda *_: None)
    assert simulate(state, changes, copies=3, seed=seed).to_dict() == shared.to_dict()
    assert made


def test_a_pod_of_another_scheduler_stays_pending_for_that_reason() -> None:
    template, pod = pod_with(1)
    foreign = {**pod, "spec": {**pod["spec"], "schedulerName": "some-batch-scheduler"}}
    (group,) = simulate(cluster(), PlannedChanges(apply=[template, foreign])).pending
    assert group.why == "another scheduler decides, which is not simulated: some-batch-scheduler"


TEMPLATES = {"replicatedJobs": [{"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}]}


def test_a_kind_with_pod_templates_that_is_not_known_is_noted() -> None:
    template, pod = pod_with(1)
    set_ = {
        "apiVersion": "example.com/v1",
        "kind": "Train",
        "metadata": {"name": "train"},
        "spec": TEMPLATES,
    }
    notes = [note.text for note in simulate(cluster(), PlannedChanges(apply=[template, pod, set_])).notes]
    text = "Train train: example.com/v1 is not known here; pods that its controller would create are missing"
    assert any(note.startswith(text) for note in notes)


def test_warnings_of_the_simulated_scheduler_are_not_printed() -> None:
    """Without a handler Python prints them to standard error."""
    program = (
        "from cathedra.insight import read_dump, simulate; import logging; simulate(read_dump([{'apiVersion': 'v1', "
        "'kind': 'NodeList', 'items': []}]), copies=0); logging.getLogger('cathedra.scheduler').error('simulated')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stderr == ""


def test_a_workload_is_scaled() -> None:
    state = read_dump([*gpu_cluster(nodes=2, gpus=2), *deployment(1)])
    found = simulate(state, PlannedChanges(replicas=["deployment/web=3"]), copies=0)
    assert len(found.placed) == 3


def test_it_is_said_how_many_more_would_fit() -> None:
    found = simulate(cluster(nodes=3, gpus=4), PlannedChanges(apply=pod_with(2)), copies=20)
    (copies,) = found.copies
    assert (copies.more, copies.limited) == (5, False)
    assert sum(copies.nodes.values()) == 5


def test_copies_stay_beside_a_replica_set_that_selects_their_labels() -> None:
    template, web = deployment(1)
    replica_set = {**web, "kind": "ReplicaSet"}
    state = read_dump([*gpu_cluster(nodes=3, gpus=4), template, replica_set, {"kind": "PodList", "items": []}])
    alone = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "alone"},
        "spec": {"containers": [{"name": "main", "image": "main"}]},
    }
    changes = PlannedChanges(apply=[alone], replicas=["replicaset/web=2"])
    assert [one.more for one in simulate(state, changes, copies=20).copies] == [20, 10]


def test_a_pod_that_a_replica_set_adopts_and_deletes_is_a_failure() -> None:
    template, web = deployment(1)
    owner = {**web, "kind": "ReplicaSet", "metadata": {**web["metadata"], "uid": "web"}}
    labels = {"app": "web"}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "main", "image": "main"}]}}
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    made = {"name": "web-1", "namespace": "default", "uid": "web-1", "labels": labels, "ownerReferences": [reference]}
    first = {**pod, "metadata": made, "status": {"phase": "Running"}}
    first = {**first, "spec": {**pod["spec"], "nodeName": "node-0"}}
    state = read_dump([*gpu_cluster(), template, owner, first])
    found = simulate(state, PlannedChanges(apply=[{**pod, "metadata": {"name": "alone", "labels": labels}}]), copies=0)
    assert not found.fits
    assert found.failures == (
        "pod default/alone: a controller deletes it after it is created; see workloads that select its labels",
    )


def test_a_workload_that_is_applied_and_scaled_is_counted_once() -> None:
    changes = PlannedChanges(apply=deployment(1), replicas=["deployment/web=2"])
    assert [one.of for one in simulate(cluster(), changes, copies=3).copies] == ["deployment default/web"]


def test_objects_of_a_namespace_that_does_not_exist_are_refused() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    state = read_dump([*gpu_cluster(), namespace, {"apiVersion": "v1", "kind": "PodList", "items": []}])
    pods = pod_with(1)
    for one in pods:
        one["metadata"].pop("namespace", None)
    with pytest.raises(InvalidInput, match='namespaces "absent" not found'):
        simulate(state, PlannedChanges(apply=pods, namespace="absent"), copies=0)
    made = {**namespace, "metadata": {"name": "absent"}}
    assert simulate(state, PlannedChanges(apply=[made, *pods], namespace="absent"), copies=0).fits


def test_the_file_of_a_refused_object_is_named_in_the_words_of_kubectl(tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}))
    spec = {"containers": [{"name": "main", "image": "main"}]}
    metadata = {"name": "p", "namespace": "default"}
    second.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"pods": "0"}},
        "status": {"hard": {"pods": "0"}, "used": {"pods": "0"}},
    }
    state = read_dump([*gpu_cluster(), quota, {"apiVersion": "v1", "kind": "PodList", "items": []}])
    with pytest.raises(InvalidInput) as refused:
        simulate(state, PlannedChanges(apply=[first, second]), copies=0)
    assert str(refused.value).startswith(f'error when creating "{second}": pods "p" is forbidden: exceeded quota: q')


def test_more_copies_than_were_tried_may_fit() -> None:
    (copies,) = simulate(cluster(nodes=3, gpus=4), PlannedChanges(apply=pod_with(1)), copies=3).copies
    assert (copies.more, copies.limited) == (3, True)


def test_a_tainted_device_evicts_who_has_it() -> None:
    state = read_dump([*gpu_cluster(taken=1), running("user-0", "node-0", "held-0")])
    found = simulate(state, PlannedChanges(taint=["gpu.example.com/node-0/gpu-0=broken:NoExecute"]))
    assert [one.pod for one in found.gone] == ["other/user-0"]


def test_a_tainted_node_takes_no_pod() -> None:
    found = simulate(cluster(), PlannedChanges(apply=pod_with(1), taint=["node-0=a:NoSchedule"]), copies=0)
    assert [one.node for one in found.placed] == ["node-1"]


def test_a_deleted_pod_gives_its_device_to_one_that_waits() -> None:
    state = read_dump([*gpu_cluster(nodes=1, gpus=1, taken=1), running("user-0", "node-0", "held-0"), *pod_with(1)])
    assert not simulate(state, PlannedChanges(namespace="other")).fits
    found = simulate(state, PlannedChanges(delete=["pod/user-0"], namespace="other"))
    assert [one.pod for one in found.placed] == ["default/train"]


def test_nodes_are_added_like_one_that_is_there() -> None:
    found = simulate(
        cluster(nodes=1, gpus=1, taken=1), PlannedChanges(apply=pod_with(1), add_nodes=["2=node-0"]), copies=5
    )
    assert [one.node.startswith("node-0-new-") for one in found.placed] == [True]
    assert found.copies[0].more == 1
    assert sorted((one.node != "node-0", one.state) for one in found.added) == [(True, "free"), (True, "held")]


def test_a_quota_that_forbids_pods_is_told() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": "default"},
        "spec": {"hard": {"pods": "1"}},
        "status": {"hard": {"pods": "1"}, "used": {"pods": "0"}},
    }
    found = simulate(read_dump([*gpu_cluster(), quota]), PlannedChanges(apply=deployment(2)), copies=0)
    assert len(found.placed) == 1
    assert "exceeded quota: few" in found.failures[0]
    assert not found.fits


def test_pods_of_owners_that_were_not_dumped_stay() -> None:
    pod = running("user-0", "node-0", "held-0")
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    ]
    assert simulate(read_dump([*gpu_cluster(taken=1), pod]), PlannedChanges(apply=pod_with(1)), copies=0).gone == ()


def test_claims_of_pods_that_were_not_dumped_stay_allocated() -> None:
    found = simulate(read_dump(gpu_cluster(nodes=1, gpus=2, taken=1)), PlannedChanges(apply=pod_with(2)), copies=0)
    assert [group.pods for group in found.pending] == [("default/train",)]


def test_the_same_input_gives_the_same_bytes() -> None:
    def answer() -> str:
        return json.dumps(simulate(cluster(nodes=3, gpus=3), PlannedChanges(apply=deployment(12)), copies=4).to_dict())

    assert answer() == answer()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"delete": ["pod/no"]}, "there is no pod 'no'"),
        ({"delete": ["no"]}, "'no' is not of the form KIND/NAME"),
        ({"drain": ["no"]}, "there is no node 'no' in objects; there are node-0, node-1"),
        ({"add_nodes": ["node-0"]}, "is not of the form N=NODE"),
        ({"add_nodes": ["2=no"]}, "there is no node 'no'"),
        ({"taint": ["node-0"]}, "is not of the form NODE=KEY"),
        ({"taint": ["node-0=a:Never"]}, "is not of the form NODE=KEY"),
        ({"replicas": ["pod/train=3"]}, "a pod has no replicas"),
        ({"replicas": ["deployment/web"]}, "is not of the form KIND/NAME=N"),
        ({"apply": "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n"}, "no object that matters here"),
        (
            {"apply": "kind: Pod\napiVersion: v1\nmetadata: {name: a}\nspec: {containers: [{image: b}]}\n"},
            r"Pod default/a: .*spec.containers\[0\].name: Required value",
        ),
    ],
)
def test_what_cannot_be_done_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        simulate(read_dump([*gpu_cluster(), *pod_with(1)]), PlannedChanges(**asked))


def text_of(found: Simulation, width: int) -> str:
    return simulation_text(found, width)


@pytest.mark.parametrize("width", [80, 160])
def test_the_text_is_a_diff_that_keeps_to_the_width(width: int) -> None:
    state = read_dump([*gpu_cluster(taken=1), running("user-0", "node-0", "held-0")])
    text = text_of(simulate(state, PlannedChanges(drain=["node-0"], force=True, apply=pod_with(2)), copies=2), width)
    assert "- other/user-0 on node-0 (gpu-0)" in text
    assert "+ default/train → node-1 (gpu-0, gpu-1)" in text
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize(("smallest", "nodes"), [(2, {"node-a"}), (3, set())])
def test_a_gang_is_placed_once_all_of_its_pods_are_there(smallest: int, nodes: set[str]) -> None:
    def member(name: str) -> dict[str, Any]:
        spec = {"schedulingGroup": {"podGroupName": "team"}, "containers": [{"name": "c", "image": "i"}]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}

    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}}
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "team", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": smallest}}},
    }
    given = {**node, "status": {"allocatable": {"cpu": "4", "pods": "10"}}}
    found = simulate(read_dump([given, group, member("a"), member("b")]))
    assert {one.node for one in found.placed} == nodes
    assert [list(one.pods) for one in found.pending] == ([] if nodes else [["default/a", "default/b"]])
    assert [one.why for one in found.pending if "minCount" not in one.why] == []


def test_a_quota_that_keeps_a_stateful_set_from_its_pods_is_a_failure() -> None:
    """It has no condition for that, only events."""
    template, web = deployment(3)
    set_ = {**web, "kind": "StatefulSet", "spec": {**web["spec"], "podManagementPolicy": "Parallel"}}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"pods": "1"}},
        "status": {"hard": {"pods": "1"}, "used": {"pods": "0"}},
    }
    state = read_dump([*gpu_cluster(), quota, {"apiVersion": "v1", "kind": "PodList", "items": []}])
    found = simulate(state, PlannedChanges(apply=[template, set_]), copies=0)
    assert not found.fits
    (failure,) = found.failures
    assert failure.startswith("statefulset default/web: Create Pod web-")
    assert "exceeded quota: q" in failure


def test_a_job_whose_group_cannot_be_created_is_a_failure() -> None:
    template, pod = pod_with(1)
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"parallelism": 2, "completions": 2, "completionMode": "Indexed"}
        | {"template": {"spec": {**pod["spec"], "restartPolicy": "Never"}}},
    }
    gates = {"AllAlpha": True, "AllBeta": True}
    state = read_dump(
        [*gpu_cluster(), {"apiVersion": "v1", "kind": "PodList", "items": []}], release="1.37", feature_gates=gates
    )
    groups = {f"scheduling.k8s.io/{one}": False for one in ("v1alpha1", "v1alpha2", "v1alpha3", "v1beta1")}
    found = simulate(dataclasses.replace(state, served=groups), PlannedChanges(apply=[template, job]), copies=0)
    assert found.placed == ()
    (failure,) = found.failures
    assert failure.startswith("job default/train: Failed to create Workload for Job train")


EXAMPLES = Path(__file__).parents[4] / "examples" / "insight"


def urgent(**gates: bool) -> Simulation:
    """A pod of high priority that wants all devices of a node, where pods of low priority have half of them."""
    state = read_dump(EXAMPLES / "fragmented.yaml", release="1.37", feature_gates=gates)
    return simulate(state, PlannedChanges(apply=EXAMPLES / "urgent.yaml"), copies=0)


def test_pods_of_one_node_alone_are_evicted_for_its_devices_and_only_with_the_gate() -> None:
    found = urgent(DRAPreemption=True)
    assert [(one.pod, one.node) for one in found.gone] == [(f"default/serve-{n}", "node-0") for n in range(4)]
    assert next(one.node for one in found.placed if one.pod == "default/urgent") == "node-0"
    assert urgent().gone == ()


def test_the_simulated_scheduler_can_have_a_configuration() -> None:
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: packing
  plugins: {multiPoint: {enabled: [{name: DeviceScoring, weight: 20}]}}
"""
    changes = pod_with(1)
    for one in changes:
        if one["kind"] == "Pod":
            one["spec"]["schedulerName"] = "packing"
    assert not simulate(cluster(), PlannedChanges(apply=changes), copies=0).fits
    assert simulate(cluster(), PlannedChanges(apply=changes, scheduler=text), copies=0).fits
    with pytest.raises(InvalidInput, match=r"the configuration of the scheduler: .*the file must have apiVersion"):
        simulate(cluster(), PlannedChanges(apply=changes, scheduler="kind: Pod"), copies=0)
