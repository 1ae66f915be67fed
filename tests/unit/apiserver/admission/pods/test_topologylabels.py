"""Labels of nodes on the pods that are bound to them."""

from __future__ import annotations

from cathedra.api.core.core_v1 import Binding, Node, ObjectReference
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import replace
from cathedra.client.resources import NODES, PODS
from tests.running import run_with
from tests.unit.apiserver.admission.pods.test_runtimeclasses import pod
from tests.unit.apiserver.guarded import Guarded, guarded

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


@run_with(guarded)
async def test_a_bound_pod_carries_zone_and_region_of_its_node(api: Guarded) -> None:
    labels = {ZONE: "z", REGION: "r", "other": "o"}
    await api.admin.resource(NODES).create(Node(metadata=ObjectMeta(name="n", labels=labels)))
    pods = api.admin.resource(PODS, "default")
    await pods.create(pod())
    target = ObjectReference(kind="Node", name="n")
    await pods.create_subresource("p", "binding", Binding(metadata=ObjectMeta(name="p"), target=target))
    assert (await pods.get("p")).metadata.labels == {ZONE: "z", REGION: "r"}


@run_with(guarded)
async def test_a_pod_that_is_made_with_its_node_gets_them_at_once(api: Guarded) -> None:
    await api.admin.resource(NODES).create(Node(metadata=ObjectMeta(name="n", labels={ZONE: "z", REGION: "r"})))
    own = pod(nodeName="n")
    own = replace(own, metadata=replace(own.metadata, labels={REGION: "mine"}))
    made = await api.admin.resource(PODS, "default").create(own)
    assert made.metadata.labels == {ZONE: "z", REGION: "mine"}
    other = pod(nodeName="gone")
    unknown = await api.admin.resource(PODS, "default").create(
        replace(other, metadata=replace(other.metadata, name="q"))
    )
    assert unknown.metadata.labels == {}
