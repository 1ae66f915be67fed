"""Pods that wait for persistent volumes, and nodes that their volumes cannot be used on, in kube-scheduler's words."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import PersistentVolumeClaim, Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.core.storage_v1 import CSINode, StorageClass
from cathedra.api.struct import from_dict, replace
from cathedra.scheduler.judging import Filters, Judgement
from tests.running import run_with
from tests.unit.scheduler.objects import bound_claim, node, pod, volume
from tests.unit.scheduler.test_judging import Objects, reasons
from tests.unit.scheduler.world import World, play

ZONE = "topology.kubernetes.io/zone"
HERE = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["a"]}]}]}}


def user(name: str = "user", claim: str = "data", **spec: Any) -> Pod:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    return pod(name, **{"volumes": volumes, **spec})


def waiting_claim(name: str = "data", **spec: Any) -> PersistentVolumeClaim:
    values = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return from_dict(PersistentVolumeClaim, {"metadata": {"name": name, "namespace": "default"}, "spec": values})


def storage_class(
    mode: str = "WaitForFirstConsumer", provisioner: str = "disk.example.com", **more: Any
) -> StorageClass:
    values = {"metadata": {"name": "fast"}, "provisioner": provisioner, "volumeBindingMode": mode, **more}
    return from_dict(StorageClass, values)


def judge(*objects: KubeObject, of: Pod | None = None) -> Judgement:
    nodes = [node("a", labels={"disk": "a", ZONE: "z1"}), node("b", labels={"disk": "b", ZONE: "z2"})]
    return Filters.over(Objects([*nodes, *objects])).judge(of or user())


def ended(judgement: Judgement) -> str:
    assert judgement.ended is not None
    return judgement.ended.message


def test_a_pod_whose_claim_does_not_exist_is_refused() -> None:
    assert ended(judge()) == 'persistentvolumeclaim "data" not found'


def test_a_claim_that_is_bound_at_once_must_be_bound() -> None:
    assert ended(judge(waiting_claim())) == "pod has unbound immediate PersistentVolumeClaims"
    objects = (waiting_claim(storageClassName="fast"), storage_class("Immediate"))
    assert ended(judge(*objects)) == "pod has unbound immediate PersistentVolumeClaims"


def test_a_lost_claim_and_one_that_is_being_deleted_are_refused() -> None:
    lost = bound_claim("data")
    lost = replace(lost, status=replace(lost.status, phase="Lost"))
    assert ended(judge(lost)) == 'persistentvolumeclaim "data" bound to non-existent persistentvolume "data"'


def test_an_ephemeral_claim_is_waited_for() -> None:
    template = {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}
    one = user(volumes=[{"name": "v", "ephemeral": template}])
    text = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "user-v"'
    assert ended(judge(of=one)) == text


def test_a_bound_volume_is_used_on_the_nodes_that_reach_it() -> None:
    found = judge(bound_claim("data"), volume("data", nodeAffinity=HERE))
    assert found.fitting == ("a",)
    assert reasons(found, "b") == ["node(s) didn't match PersistentVolume's node affinity"]


def test_a_claim_of_a_volume_that_does_not_exist_is_refused() -> None:
    assert ended(judge(bound_claim("data"))) == 'persistentvolume "data" not found'


def test_a_claim_with_delayed_binding_takes_a_free_volume_where_one_is() -> None:
    free = volume("free", storageClassName="fast", nodeAffinity=HERE)
    free = replace(free, status=replace(free.status, phase="Available"))
    local = storage_class(provisioner="kubernetes.io/no-provisioner")
    found = judge(waiting_claim(storageClassName="fast"), local, free)
    assert found.fitting == ("a",)
    assert reasons(found, "b") == ["node(s) didn't find available persistent volumes to bind"]


def test_a_claim_with_delayed_binding_is_provisioned_where_its_class_allows_it() -> None:
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z2"]}]}]
    found = judge(waiting_claim(storageClassName="fast"), storage_class(allowedTopologies=terms))
    assert found.fitting == ("b",)
    assert judge(waiting_claim(storageClassName="fast"), storage_class()).fitting == ("a", "b")


def test_a_volume_of_another_zone_keeps_nodes_away() -> None:
    found = judge(bound_claim("data"), volume("data", labels={ZONE: "z2__z3"}))
    assert found.fitting == ("b",)
    assert reasons(found, "a") == ["node(s) had no available volume zone"]


def test_a_node_takes_no_more_volumes_than_its_driver_can_attach() -> None:
    drivers = [{"name": "disk.example.com", "nodeID": "a", "topologyKeys": [], "allocatable": {"count": 1}}]
    limit = from_dict(CSINode, {"metadata": {"name": "a"}, "spec": {"drivers": drivers}})
    csi = {"driver": "disk.example.com", "volumeHandle": "other"}
    there = replace(user("there", "other"), metadata=replace(user("there").metadata, uid="there"))
    there = replace(there, spec=replace(there.spec, node_name="a"))
    objects = (bound_claim("other"), volume("other", csi=csi), waiting_claim(storageClassName="fast"), storage_class())
    found = judge(limit, there, *objects)
    assert found.fitting == ("b",)
    assert reasons(found, "a") == ["node(s) exceed max volume count"]
    assert judge(limit, there, *objects, of=user(claim="other")).fitting == ("a", "b")


def test_a_claim_for_one_pod_is_used_by_one_pod() -> None:
    alone = bound_claim("data", accessModes=["ReadWriteOncePod"])
    there = user("there", nodeName="a")
    found = judge(alone, volume("data"), there)
    text = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
    assert reasons(found, "a") == reasons(found, "b") == [text]


@pytest.mark.parametrize(
    ("source", "conflicts"),
    [
        ({"gcePersistentDisk": {"pdName": "d"}}, True),
        ({"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, False),
        ({"awsElasticBlockStore": {"volumeID": "d"}}, True),
        ({"iscsi": {"iqn": "q", "targetPortal": "p", "lun": 0}}, True),
        ({"rbd": {"monitors": ["m"], "image": "i", "pool": "p"}}, True),
        ({"rbd": {"monitors": ["m"], "image": "i", "pool": "p", "readOnly": True}}, False),
    ],
)
def test_a_disk_is_mounted_once_unless_all_read_it(source: dict[str, Any], conflicts: bool) -> None:
    disk = [{"name": "v", **source}]
    found = judge(user("there", volumes=disk, nodeName="a"), of=user(volumes=disk))
    assert found.fitting == (("b",) if conflicts else ("a", "b"))
    if conflicts:
        assert reasons(found, "a") == ["node(s) had no available disk"]


@run_with(play)
async def test_a_pod_is_scheduled_when_its_claim_appears(world: World) -> None:
    await world.create(node("a"), volume("data"), user())
    await world.quiet()
    assert not (await world.pod("user")).spec.node_name
    await world.create(bound_claim("data"))
    await world.bound("user")
